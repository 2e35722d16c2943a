--! include _row
--! include _dead
-- Store a dead letter unless one is there.
-- KEYS[1]  namespace
-- ARGV     1 id  2 record (canonical bytes)  3 finalized_at (s)  4 publication grace (ms)
-- Returns  'new' | 'same' | 'conflict'
-- Types    dead HASH, dead_index ZSET, dead_unpublished ZSET

return store_record(ARGV[1], ARGV[2], ARGV[3], now_ms() + ARGV[4])
