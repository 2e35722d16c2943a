-- List entries that wait for a receipt and are old enough, oldest first.
-- KEYS[1]  namespace
-- ARGV     1 created at or before (us)  2 limit
-- Returns  list of {key, json or nil}
-- Types    reconcile HASH, reconcile_pending ZSET

local stale = {}
for _, key in ipairs(redis.call('ZRANGEBYSCORE', K.reconcile_pending(), '-inf', ARGV[1], 'LIMIT', 0, ARGV[2])) do
  stale[#stale + 1] = {key, redis.call('HGET', K.reconcile(), key)}
end
return stale
