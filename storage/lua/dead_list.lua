-- List dead letters by (finalized_at, id bytes), with what is needed to see that index and records agree.
-- KEYS[1]  namespace
-- ARGV     1 first rank  2 last rank, -1 for all
-- Returns  {number of records, number of index entries, {id, finalized_at, record or nil}, ...}
-- Types    dead HASH, dead_index ZSET

local found = redis.call('ZRANGE', K.dead_index(), ARGV[1], ARGV[2], 'WITHSCORES')
local listed = {redis.call('HLEN', K.dead()), redis.call('ZCARD', K.dead_index())}
for i = 1, #found, 2 do
  listed[#listed + 1] = {found[i], found[i + 1], redis.call('HGET', K.dead(), found[i])}
end
return listed
