--! include _quarantine
-- Keep a message under the next number, dropping and counting the oldest while there is no room.
-- KEYS[1]  namespace
-- ARGV     1 bytes  2 queue  3 reason  4 SHA-256 (hex)  5 most entries  6 most bytes
-- Returns  {id, now (ms)}
-- Types    quarantine_entry HASH, quarantine_index ZSET, quarantine_counts HASH

local counts, time = K.quarantine_counts(), redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local id = redis.call('HINCRBY', counts, 'sequence', 1)

redis.call('HSET', K.quarantine_entry(id), 'raw', ARGV[1], 'queue', ARGV[2], 'reason', ARGV[3], 'sha256', ARGV[4],
  'size', #ARGV[1], 'received', string.format('%.0f', now))
redis.call('ZADD', K.quarantine_index(), id, id)
local entries = redis.call('HINCRBY', counts, 'entries', 1)
local bytes = redis.call('HINCRBY', counts, 'bytes', #ARGV[1])

while entries > 1 and (entries > tonumber(ARGV[5]) or bytes > tonumber(ARGV[6])) do
  discard(oldest())
  redis.call('HINCRBY', counts, 'dropped', 1)
  entries, bytes = entries - 1, tonumber(redis.call('HGET', counts, 'bytes'))
end
return {tostring(id), string.format('%.0f', now)}
