-- Return the payload kept for a dead letter; that of a job in the ledger is none.
-- KEYS[1]  namespace
-- ARGV     1 id
-- Returns  payload | nil
-- Types    dead HASH, payload STRING

if redis.call('HEXISTS', K.dead(), ARGV[1]) == 0 then return false end
return redis.call('GET', K.payload(ARGV[1]))
