--! include _row
-- Make a held job due now; take back the hold of a job that is still running.
-- KEYS[1]  namespace
-- ARGV     1 id
-- Returns  1 | 0 when it is not held
-- Types    job STRING, parked ZSET, held ZSET, counts HASH

local id, now = ARGV[1], now_ms()
local row = row_of(id)
if not row or not (row[STATE] == 'held' or row[STATE] == 'leased' and row[HOLD] == 1) then return 0 end
if row[STATE] == 'leased' then
  row[HOLD] = 0
  keep_row(id, row)
else
  row[DUE] = now
  move(id, row, 'parked', now)
end
return 1
