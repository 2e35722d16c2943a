-- Let one delivery to a partner through its concurrency and rate bounds, or say how long to wait.
-- KEYS[1]  namespace
-- ARGV     1 partner  2 token  3 most at once (0: no bound)  4 entry lease (ms)
--          5 interval between deliveries (ms, may be fractional; 0: no bound)  6 burst slack (ms)  7 wait when full (ms)
-- Returns  0 when let in, else the wait in ms
-- Types    gate_inside ZSET (token by deadline), gate_rate STRING (instant of the next steady delivery, ms)

local partner, most, interval = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

if most > 0 then
  redis.call('ZREMRANGEBYSCORE', K.gate_inside(partner), '-inf', now)
  if redis.call('ZCARD', K.gate_inside(partner)) >= most then return tonumber(ARGV[7]) end
end
if interval > 0 then
  local next_at = math.max(tonumber(redis.call('GET', K.gate_rate(partner)) or 0), now)
  local early = next_at - now - tonumber(ARGV[6])
  if early > 0 then return math.ceil(early) end
  redis.call('SET', K.gate_rate(partner), string.format('%.3f', next_at + interval), 'PX',
    math.ceil(next_at + interval - now) + 1000)
end
if most > 0 then
  redis.call('ZADD', K.gate_inside(partner), now + ARGV[4], ARGV[2])
  redis.call('PEXPIRE', K.gate_inside(partner), ARGV[4])
end
return 0
