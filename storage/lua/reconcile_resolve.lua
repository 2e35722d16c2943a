--! include _waking
--! include _reconcile
-- Remove an entry and remember its key; a job that still waits for it becomes due, or nobody would ever wake it.
-- KEYS[1]  namespace
-- ARGV     1 key  2 resolved ttl (s)  3 id of the job that may wait for it, empty for none
-- Returns  1 | 0 when it is not queued
-- Types    reconcile HASH, reconcile_pending ZSET, reconcile_indeterminate ZSET, reconcile_resolved STRING,
--          job STRING, awaiting ZSET, parked ZSET, counts HASH

if not resolve_entry(ARGV[1], ARGV[2]) then return 0 end
wake_awaiting(ARGV[3])
return 1
