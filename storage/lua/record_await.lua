--! include _ending
-- Let a claimed job wait for its receipt if its claim still holds; with a hold set meanwhile it is held, and verified
-- first when it is released.
-- KEYS[1]  namespace
-- ARGV     1 id  2 version  3 token  4 capacity  5 key  6 json  7 tag  8 created (us)
-- Returns  'recorded' | 'stale' | 'full'
-- Types    job STRING, leased ZSET, awaiting ZSET, held ZSET, counts HASH, reconcile HASH, reconcile_pending ZSET,
--          reconcile_indeterminate ZSET, reconcile_resolved STRING

local id, now = ARGV[1], now_ms()
local row = holding(id, ARGV[2], ARGV[3], now)
if not row then return 'stale' end
if not fits(ARGV[5], tonumber(ARGV[4])) then return 'full' end
keep_entry(ARGV[5], ARGV[6], ARGV[7], ARGV[8])
local is_held = row[HOLD] == 1
set_free(row)
row[DUE] = now
if is_held then row[CAUSE] = 'escalated' end
move(id, row, is_held and 'held' or 'awaiting', now)
return 'recorded'
