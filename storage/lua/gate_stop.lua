-- Remember that a partner wants no more deliveries at an address.
-- KEYS[1]  namespace
-- ARGV     1 partner  2 endpoint
-- Returns  1 when this address was not stopped before | 0
-- Types    gate_stop STRING (endpoint)

if redis.call('GET', K.gate_stop(ARGV[1])) == ARGV[2] then return 0 end
redis.call('SET', K.gate_stop(ARGV[1]), ARGV[2])
return 1
