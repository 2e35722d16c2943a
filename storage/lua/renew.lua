--! include _ending
-- Extend leases that still hold.
-- KEYS[1]  namespace
-- ARGV     1 lease (ms), then for each claim: id, version, token
-- Returns  for each claim 1, or 0 where it no longer holds
-- Types    job HASH, leased ZSET

local now, renewed = now_ms(), {}
local until_ms = now + ARGV[1]
for i = 2, #ARGV, 3 do
  local id = ARGV[i]
  if holding(id, ARGV[i + 1], ARGV[i + 2], now) then
    redis.call('HSET', K.job(id), 'lease', until_ms)
    redis.call('ZADD', K.leased(), until_ms, id)
    renewed[#renewed + 1] = 1
  else
    renewed[#renewed + 1] = 0
  end
end
return renewed
