--! include _ending
--! include _dead
-- End a job as a dead letter if its claim still holds; the payload stays for a replay.
-- KEYS[1]  namespace
-- ARGV     1 id  2 version  3 token  4 record (canonical bytes)  5 the record's finalized_at (s)
--          6 dedup ttl (s)  7 resolved ttl (s)  8 publication grace (ms)  9.. reconciliation keys it may have open
-- Returns  'recorded' | 'stale' | 'conflict'
-- Types    job HASH, seen STRING, leased ZSET, counts HASH, dead HASH, dead_index ZSET, dead_unpublished ZSET,
--          dead_job HASH, reconcile HASH, reconcile_pending ZSET, reconcile_indeterminate ZSET,
--          reconcile_resolved STRING

local id, now = ARGV[1], now_ms()
local row = holding(id, ARGV[2], ARGV[3], now)
if not row then return 'stale' end
if store_record(id, ARGV[4], ARGV[5], now + ARGV[8]) == 'conflict' then return 'conflict' end
redis.call('HSET', K.dead_job(id), 'kind', row.kind, 'queue', row.queue, 'finalized', row.finalized,
  'digest', row.digest)
end_row(id, row, 'leased', 'dead', ARGV[6], ARGV[7], rest_of(ARGV, 9))
return 'recorded'
