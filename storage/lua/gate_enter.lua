-- Let one delivery to a partner through, or say what holds it back: a stop, a plea for patience, a bound.
-- KEYS[1]  namespace
-- ARGV     1 partner  2 token  3 endpoint  4 most at once (0: no bound)  5 entry lease (ms)
--          6 interval between deliveries (ms, may be fractional; 0: no bound)  7 burst slack (ms)
-- Returns  {'in'|'stopped'|'slowed'|'full'|'rate', wait (ms) of the second and the last}
-- Types    gate_stop STRING (endpoint), gate_slow STRING, gate_inside ZSET (token by deadline),
--          gate_rate STRING (instant of the next steady delivery, ms)

local partner, most, interval = ARGV[1], tonumber(ARGV[4]), tonumber(ARGV[6])

if redis.call('GET', K.gate_stop(partner)) == ARGV[3] then return {'stopped', 0} end
local patience = redis.call('PTTL', K.gate_slow(partner))
if patience > 0 then return {'slowed', patience} end

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if most > 0 then
  redis.call('ZREMRANGEBYSCORE', K.gate_inside(partner), '-inf', now)
  if redis.call('ZCARD', K.gate_inside(partner)) >= most then return {'full', 0} end
end
if interval > 0 then
  local next_at = math.max(tonumber(redis.call('GET', K.gate_rate(partner)) or 0), now)
  local early = next_at - now - tonumber(ARGV[7])
  if early > 0 then return {'rate', math.ceil(early)} end
  redis.call('SET', K.gate_rate(partner), string.format('%.3f', next_at + interval), 'PX',
    math.ceil(next_at + interval - now) + 1000)
end
if most > 0 then
  redis.call('ZADD', K.gate_inside(partner), now + ARGV[5], ARGV[2])
  redis.call('PEXPIRE', K.gate_inside(partner), ARGV[5])
end
return {'in', 0}
