--! include _ending
-- End a job well if its claim still holds.
-- KEYS[1]  namespace
-- ARGV     1 id  2 version  3 token  4 settled|skipped|confirmed|cancelled  5 dedup ttl (s)  6 resolved ttl (s)
--          7.. reconciliation keys the job may have open
-- Returns  'recorded' | 'stale'
-- Types    job STRING, payload STRING, seen STRING, leased ZSET, counts HASH, reconcile HASH, reconcile_pending ZSET,
--          reconcile_indeterminate ZSET, reconcile_resolved STRING

local row = holding(ARGV[1], ARGV[2], ARGV[3], now_ms())
if not row then return 'stale' end
finish(ARGV[1], row, ARGV[4], {dedup_s = ARGV[5], resolved_s = ARGV[6]}, ARGV, 7)
return 'recorded'
