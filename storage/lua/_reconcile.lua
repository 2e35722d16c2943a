-- Part: entries of the reconciliation queue.

local function entry_index(tag)
  if tag == 'pending_verification' then return K.reconcile_pending() end
  return K.reconcile_indeterminate()
end

local function put_entry(key, json, tag, created_us)
  redis.call('HSET', K.reconcile(), key, json)
  redis.call('ZADD', entry_index(tag), created_us, key)
end

-- Whether the request may be queued beside what is there: an entry that is queued already takes no place.
local function fits(key, capacity)
  return redis.call('HEXISTS', K.reconcile(), key) == 1 or redis.call('HLEN', K.reconcile()) < capacity
end

-- Queue the request of a job that is certainly alive, even if its key was resolved before; keeps an entry that is there.
local function keep_entry(key, json, tag, created_us)
  if redis.call('HEXISTS', K.reconcile(), key) == 0 then put_entry(key, json, tag, created_us) end
end

local function resolve_entry(key, resolved_ttl_s)
  if redis.call('HDEL', K.reconcile(), key) == 0 then return false end
  redis.call('ZREM', K.reconcile_pending(), key)
  redis.call('ZREM', K.reconcile_indeterminate(), key)
  redis.call('SET', K.reconcile_resolved(key), 1, 'EX', resolved_ttl_s)
  return true
end
