--! include _ending
-- End a job well by what its receipt says, whatever its state, if the row still has this version.
-- KEYS[1]  namespace
-- ARGV     1 id  2 version  3 settled|skipped|confirmed|cancelled  4 dedup ttl (s)  5 resolved ttl (s)
--          6.. reconciliation keys the job may have open
-- Returns  'recorded' | 'stale'
-- Types    job STRING, payload STRING, seen STRING, outstanding ZSET, leased ZSET, parked ZSET, awaiting ZSET, held
--          ZSET, counts HASH, reconcile HASH, reconcile_pending ZSET, reconcile_indeterminate ZSET, reconcile_resolved
--          STRING

local row = row_of(ARGV[1])
if not row or row[VERSION] ~= tonumber(ARGV[2]) then return 'stale' end
finish(ARGV[1], row, ARGV[3], {dedup_s = ARGV[4], resolved_s = ARGV[5]}, ARGV, 6)
return 'recorded'
