-- Replace a partner's circuit state if it is still the expected one; an empty text stands for no key.
-- KEYS[1]  namespace
-- ARGV     1 partner id  2 expected state  3 new state
-- Returns  1 | 0 when the kept state is another
-- Types    circuit STRING

local key = K.circuit(ARGV[1])
if (redis.call('GET', key) or '') ~= ARGV[2] then return 0 end
if ARGV[3] == '' then redis.call('DEL', key) else redis.call('SET', key, ARGV[3]) end
return 1
