--! include _ending
-- End a job as a dead letter if its claim still holds; the payload stays for a replay.
-- KEYS[1]  namespace
-- ARGV     1 id  2 version  3 token  4 record (canonical bytes)  5 the record's finalized_at (s)
--          6 dedup ttl (s)  7 resolved ttl (s)  8 publication grace (ms)  9.. reconciliation keys it may have open
-- Returns  'recorded' | 'stale' | 'conflict'
-- Types    job STRING, seen STRING, leased ZSET, counts HASH, dead HASH, dead_index ZSET, dead_unpublished ZSET,
--          dead_job STRING, reconcile HASH, reconcile_pending ZSET, reconcile_indeterminate ZSET,
--          reconcile_resolved STRING

local now = now_ms()
local row = holding(ARGV[1], ARGV[2], ARGV[3], now)
if not row then return 'stale' end
local record = {bytes = ARGV[4], finalized_at = ARGV[5], publish_at_ms = now + ARGV[8]}
local buried = bury(ARGV[1], row, record, {dedup_s = ARGV[6], resolved_s = ARGV[7]}, ARGV, 9)
return buried and 'recorded' or 'conflict'
