--! include _quarantine
-- Remove one quarantined message.
-- KEYS[1]  namespace
-- ARGV     1 id
-- Returns  1 | 0 when there was none
-- Types    quarantine_entry HASH, quarantine_index ZSET, quarantine_counts HASH

if not redis.call('ZSCORE', K.quarantine_index(), ARGV[1]) then return 0 end
discard(ARGV[1])
return 1
