--! include _ending
-- End a job as cancelled unless an attempt of it is running.
-- KEYS[1]  namespace
-- ARGV     1 id  2 dedup ttl (s)  3 resolved ttl (s)  4.. reconciliation keys the job may have open
-- Returns  1 | 0 when it is gone or running
-- Types    job STRING, payload STRING, seen STRING, outstanding ZSET, leased ZSET, parked ZSET, awaiting ZSET, held
--          ZSET, counts HASH, reconcile HASH, reconcile_pending ZSET, reconcile_indeterminate ZSET, reconcile_resolved
--          STRING

local row = row_of(ARGV[1])
if not row or (row[STATE] == 'leased' and row[LEASE] > now_ms()) then return 0 end
finish(ARGV[1], row, 'cancelled', {dedup_s = ARGV[2], resolved_s = ARGV[3]}, ARGV, 4)
return 1
