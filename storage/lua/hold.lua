--! include _row
-- Stop a job at its next claim. A leased row is marked, so that it is held when its attempt ends; a row that awaits a
-- receipt is verified first when it is released.
-- KEYS[1]  namespace
-- ARGV     1 id
-- Returns  1 | 0 when the job is gone
-- Types    job HASH, outstanding ZSET, parked ZSET, awaiting ZSET, held ZSET, counts HASH

local id = ARGV[1]
local row = redis.call('HMGET', K.job(id), 'state', 'kind', 'queue', 'due')
if not row[1] then return 0 end
if row[1] == 'leased' then
  redis.call('HSET', K.job(id), 'hold', 1)
  return 1
end
if row[1] == 'awaiting' then redis.call('HSET', K.job(id), 'cause', 'escalated') end
redis.call('HSET', K.job(id), 'state', 'held')
move(id, row[2], row[3], row[1], 'held', row[4])
return 1
