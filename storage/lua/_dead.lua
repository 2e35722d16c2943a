-- Part: storing a dead letter at most once.

-- Returns 'new' | 'same' | 'conflict'. A new record's publication is owed from `publish_at_ms` on.
local function store_record(id, bytes, finalized_at, publish_at_ms)
  local kept = redis.call('HGET', K.dead(), id)
  if kept then return kept == bytes and 'same' or 'conflict' end
  redis.call('HSET', K.dead(), id, bytes)
  redis.call('ZADD', K.dead_index(), finalized_at, id)
  redis.call('ZADD', K.dead_unpublished(), publish_at_ms, id)
  return 'new'
end

local function remove_record(id)
  local removed = redis.call('HDEL', K.dead(), id)
  redis.call('ZREM', K.dead_index(), id)
  redis.call('ZREM', K.dead_unpublished(), id)
  redis.call('DEL', K.dead_job(id))
  return removed == 1
end
