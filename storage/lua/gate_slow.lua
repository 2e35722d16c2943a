-- Leave a partner alone for a while; a longer while that was asked for before stays.
-- KEYS[1]  namespace
-- ARGV     1 partner  2 wait (ms)
-- Returns  1 when it was not left alone before | 0
-- Types    gate_slow STRING

local left = redis.call('PTTL', K.gate_slow(ARGV[1]))
if left < tonumber(ARGV[2]) then redis.call('SET', K.gate_slow(ARGV[1]), 1, 'PX', ARGV[2]) end
return left > 0 and 0 or 1
