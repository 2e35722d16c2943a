--! include _waking
--! include _reconcile
-- Put a replacement in an entry's place and make the job that waits for it due.
-- KEYS[1]  namespace
-- ARGV     1 key  2 replacement key  3 json  4 tag  5 created (us)  6 resolved ttl (s)  7 job id
-- Returns  1 | 0 when the key is not queued any more
-- Types    reconcile HASH, reconcile_pending ZSET, reconcile_indeterminate ZSET, reconcile_resolved STRING,
--          job STRING, awaiting ZSET, parked ZSET, counts HASH

if not resolve_entry(ARGV[1], ARGV[6]) then return 0 end
keep_entry(ARGV[2], ARGV[3], ARGV[4], ARGV[5])
wake_awaiting(ARGV[7])
return 1
