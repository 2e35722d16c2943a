--! include _row
-- Stop a job at its next claim. A leased row is marked, so that it is held when its attempt ends; a row that awaits a
-- receipt is verified first when it is released.
-- KEYS[1]  namespace
-- ARGV     1 id
-- Returns  1 | 0 when the job is gone
-- Types    job STRING, outstanding ZSET, parked ZSET, awaiting ZSET, held ZSET, counts HASH

local id = ARGV[1]
local row = row_of(id)
if not row then return 0 end
if row[STATE] == 'leased' then
  row[HOLD] = 1
  keep_row(id, row)
  return 1
end
if row[STATE] == 'awaiting' then row[CAUSE] = 'escalated' end
move(id, row, 'held', row[DUE])
return 1
