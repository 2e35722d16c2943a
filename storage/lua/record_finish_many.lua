--! include _many
--! include _ending
-- End jobs well whose claims still hold.
-- KEYS[1]  namespace
-- ARGV     1 dedup ttl (s)  2 resolved ttl (s)  3 how many reconciliation keys a job may have open, 0: not named
--          and for each job: id, version, token, settled|skipped|confirmed|cancelled, the keys
-- Returns  for each job 'recorded' | 'stale' | 'failed'; or 'keys_wanted', having done nothing, when they are not named
--          and reconciliation keeps entries
-- Types    job STRING, payload STRING, seen STRING, leased ZSET, counts HASH, reconcile HASH, reconcile_pending ZSET,
--          reconcile_indeterminate ZSET, reconcile_resolved STRING

local now, ttls, keys = now_ms(), {dedup_s = ARGV[1], resolved_s = ARGV[2]}, tonumber(ARGV[3])
if keys == 0 and redis.call('HLEN', K.reconcile()) > 0 then return 'keys_wanted' end
read_rows(4, 4 + keys)
return each(4, 4 + keys, function(i)
  local row = holding(ARGV[i], ARGV[i + 1], ARGV[i + 2], now)
  if not row then return 'stale' end
  finish(ARGV[i], row, ARGV[i + 3], ttls, ARGV, i + 4, i + 3 + keys)
  return 'recorded'
end)
