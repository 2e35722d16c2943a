-- List quarantined messages without their bytes, oldest first.
-- KEYS[1]  namespace
-- ARGV     1 first rank  2 last rank
-- Returns  list of {id, queue, reason, received (ms), size, SHA-256}
-- Types    quarantine_entry HASH, quarantine_index ZSET

local listed = {}
for _, id in ipairs(redis.call('ZRANGE', K.quarantine_index(), ARGV[1], ARGV[2])) do
  local row = redis.call('HMGET', K.quarantine_entry(id), 'queue', 'reason', 'received', 'size', 'sha256')
  listed[#listed + 1] = {id, row[1], row[2], row[3], row[4], row[5]}
end
return listed
