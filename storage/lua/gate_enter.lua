-- Let deliveries to a partner through, in order, or say what holds each back: a stop, a plea for patience, a bound.
-- KEYS[1]  namespace
-- ARGV     1 partner  2 endpoint  3 most at once (0: no bound)  4 entry lease (ms)
--          5 interval between deliveries (ms, may be fractional; 0: no bound)  6 burst slack (ms)  7.. tokens
-- Returns  for each token {'in'|'stopped'|'slowed'|'full'|'rate', wait (ms) of the second and the last}
-- Types    gate_stop STRING (endpoint), gate_slow STRING, gate_inside ZSET (token by deadline),
--          gate_rate STRING (instant of the next steady delivery, ms)

local partner, most, interval = ARGV[1], tonumber(ARGV[3]), tonumber(ARGV[5])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- What holds every delivery back, whatever the bounds.
local function hold()
  if redis.call('GET', K.gate_stop(partner)) == ARGV[2] then return {'stopped', 0} end
  local patience = redis.call('PTTL', K.gate_slow(partner))
  return patience > 0 and {'slowed', patience} or nil
end

local function is_full()
  redis.call('ZREMRANGEBYSCORE', K.gate_inside(partner), '-inf', now)
  return redis.call('ZCARD', K.gate_inside(partner)) >= most
end

-- How long to wait for the next place in the rate, having taken it where that is no time.
local function early_ms()
  local next_at = math.max(tonumber(redis.call('GET', K.gate_rate(partner)) or 0), now)
  local early = next_at - now - tonumber(ARGV[6])
  if early > 0 then return math.ceil(early) end
  redis.call('SET', K.gate_rate(partner), string.format('%.3f', next_at + interval), 'PX',
    math.ceil(next_at + interval - now) + 1000)
  return 0
end

local function enter(token)
  if most > 0 and is_full() then return {'full', 0} end
  local early = interval > 0 and early_ms() or 0
  if early > 0 then return {'rate', early} end
  if most > 0 then
    redis.call('ZADD', K.gate_inside(partner), now + ARGV[4], token)
    redis.call('PEXPIRE', K.gate_inside(partner), ARGV[4])
  end
  return {'in', 0}
end

local held, answers = hold(), {}
for i = 7, #ARGV do answers[i - 6] = held or enter(ARGV[i]) end
return answers
