--! include _reconcile
-- Remove an entry and remember its key.
-- KEYS[1]  namespace
-- ARGV     1 key  2 resolved ttl (s)
-- Returns  1 | 0 when it is not queued
-- Types    reconcile HASH, reconcile_pending ZSET, reconcile_indeterminate ZSET, reconcile_resolved STRING

return resolve_entry(ARGV[1], ARGV[2]) and 1 or 0
