--! include _ending
-- End a job well if its claim still holds.
-- KEYS[1]  namespace
-- ARGV     1 id  2 version  3 token  4 settled|skipped|confirmed|cancelled  5 dedup ttl (s)  6 resolved ttl (s)
--          7.. reconciliation keys the job may have open
-- Returns  'recorded' | 'stale'
-- Types    job HASH, payload STRING, seen STRING, leased ZSET, counts HASH, reconcile HASH, reconcile_pending ZSET,
--          reconcile_indeterminate ZSET, reconcile_resolved STRING

local id = ARGV[1]
local row = holding(id, ARGV[2], ARGV[3], now_ms())
if not row then return 'stale' end
end_row(id, row, 'leased', ARGV[4], ARGV[5], ARGV[6], rest_of(ARGV, 7))
redis.call('DEL', K.payload(id))
return 'recorded'
