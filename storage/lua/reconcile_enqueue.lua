--! include _reconcile
-- Queue a request unless its key is queued or was resolved.
-- KEYS[1]  namespace
-- ARGV     1 key  2 json  3 tag  4 created (us)  5 capacity
-- Returns  'new' | 'known' | 'full'
-- Types    reconcile HASH, reconcile_pending ZSET, reconcile_indeterminate ZSET, reconcile_resolved STRING

local key = ARGV[1]
if redis.call('HEXISTS', K.reconcile(), key) == 1 or redis.call('EXISTS', K.reconcile_resolved(key)) == 1 then
  return 'known'
end
if not fits(key, tonumber(ARGV[5])) then return 'full' end
put_entry(key, ARGV[2], ARGV[3], ARGV[4])
return 'new'
