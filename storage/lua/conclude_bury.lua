--! include _ending
-- End a job as a dead letter by what its receipt says, whatever its state, if the row still has this version.
-- KEYS[1]  namespace
-- ARGV     1 id  2 version  3 record (canonical bytes)  4 the record's finalized_at (s)  5 dedup ttl (s)
--          6 resolved ttl (s)  7 publication grace (ms)  8.. reconciliation keys it may have open
-- Returns  'recorded' | 'stale' | 'conflict'
-- Types    job STRING, seen STRING, outstanding ZSET, leased ZSET, parked ZSET, awaiting ZSET, held ZSET, counts HASH,
--          dead HASH, dead_index ZSET, dead_unpublished ZSET, dead_job STRING, reconcile HASH, reconcile_pending ZSET,
--          reconcile_indeterminate ZSET, reconcile_resolved STRING

local row = row_of(ARGV[1])
if not row or row[VERSION] ~= tonumber(ARGV[2]) then return 'stale' end
local record = {bytes = ARGV[3], finalized_at = ARGV[4], publish_at_ms = now_ms() + ARGV[7]}
local buried = bury(ARGV[1], row, record, {dedup_s = ARGV[5], resolved_s = ARGV[6]}, ARGV, 8)
return buried and 'recorded' or 'conflict'
