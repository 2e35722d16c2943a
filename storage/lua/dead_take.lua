--! include _row
-- Take records whose publication is owed; each may be taken again after a while.
-- KEYS[1]  namespace
-- ARGV     1 limit  2 retry after (ms)
-- Returns  flat list of id, record
-- Types    dead HASH, dead_unpublished ZSET

local now, taken = now_ms(), {}
for _, id in ipairs(redis.call('ZRANGEBYSCORE', K.dead_unpublished(), '-inf', now, 'LIMIT', 0, ARGV[1])) do
  redis.call('ZADD', K.dead_unpublished(), now + ARGV[2], id)
  taken[#taken + 1] = id
  taken[#taken + 1] = redis.call('HGET', K.dead(), id)
end
return taken
