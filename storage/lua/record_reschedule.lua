--! include _ending
-- Make a claimed job due again if its claim still holds; with a hold set meanwhile it is held instead.
-- KEYS[1]  namespace
-- ARGV     1 id  2 version  3 token  4 attempt  5 delay (ms)  6 outstanding|parked  7 slack (ms)
--          8 capacity  9 why the same attempt is claimed again: due|lease_expired|escalated
--          and, with a reconciliation request: 10 key  11 json  12 tag  13 created (us)
-- Returns  'recorded' | 'stale' | 'full'
-- Types    job STRING, outstanding ZSET, leased ZSET, parked ZSET, held ZSET, counts HASH, reconcile HASH,
--          reconcile_pending ZSET, reconcile_indeterminate ZSET, reconcile_resolved STRING

local id, attempt, state, now = ARGV[1], ARGV[4], ARGV[6], now_ms()
local row = holding(id, ARGV[2], ARGV[3], now)
if not row then return 'stale' end
if ARGV[10] then
  if not fits(ARGV[10], tonumber(ARGV[8])) then return 'full' end
  keep_entry(ARGV[10], ARGV[11], ARGV[12], ARGV[13])
end
local due, is_spent = now + ARGV[5], attempt ~= row[ATTEMPT]
if row[HOLD] == 1 then state = 'held' end
set_free(row)
-- An attempt that was not spent is claimed again for the reason it was: a worker may have died in it.
row[ATTEMPT], row[DUE], row[CAUSE] = attempt, due, is_spent and 'due' or ARGV[9]
move(id, row, state, state == 'outstanding' and lost_after(due, ARGV[7], 0) or due)
if is_spent then count(row[KIND], 'retried', 1) end
return 'recorded'
