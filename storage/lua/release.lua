--! include _row
-- Make a held job due now; take back the hold of a job that is still running.
-- KEYS[1]  namespace
-- ARGV     1 id
-- Returns  1 | 0 when it is not held
-- Types    job HASH, parked ZSET, held ZSET, counts HASH

local id, now = ARGV[1], now_ms()
local row = redis.call('HMGET', K.job(id), 'state', 'kind', 'queue')
if row[1] == 'leased' then return redis.call('HDEL', K.job(id), 'hold') end
if row[1] ~= 'held' then return 0 end
redis.call('HSET', K.job(id), 'state', 'parked', 'due', now)
move(id, row[2], row[3], 'held', 'parked', now)
return 1
