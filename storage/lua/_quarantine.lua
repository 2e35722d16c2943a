-- Part: taking an entry out of the quarantine. `entries` and `bytes` count what is kept.

local function discard(id)
  local entry = K.quarantine_entry(id)
  local size = redis.call('HGET', entry, 'size')
  redis.call('DEL', entry)
  redis.call('ZREM', K.quarantine_index(), id)
  redis.call('HINCRBY', K.quarantine_counts(), 'entries', -1)
  redis.call('HINCRBY', K.quarantine_counts(), 'bytes', -(size or 0))
end

local function oldest() return redis.call('ZRANGE', K.quarantine_index(), 0, 0)[1] end
