-- Give one waiting delivery its turn: at least the wait from now, and apart from everybody else's turn.
-- KEYS[1]  namespace
-- ARGV     1 partner  2 wait (ms)  3 spacing (ms, may be fractional)
-- Returns  the delay in ms
-- Types    gate_turn STRING (the earliest instant of the next turn, ms)

local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local turn = math.max(tonumber(redis.call('GET', K.gate_turn(ARGV[1])) or 0), now + ARGV[2])
local next_turn = turn + ARGV[3]
redis.call('SET', K.gate_turn(ARGV[1]), string.format('%.3f', next_turn), 'PX', math.ceil(next_turn - now) + 1000)
return math.floor(turn - now)
