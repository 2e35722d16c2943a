--! include _admission
-- Admit a job unless its id is known.
-- KEYS[1]  namespace
-- ARGV     1 id  2 kind  3 queue  4 digest (32 bytes)  5 payload  6 finalized_at (s)  7 dedup ttl (s)  8 slack (ms)
-- Returns  'admitted' | 'in_ledger' | 'finished' | 'dead' | 'conflict'
-- Types    job STRING, payload STRING, seen STRING, outstanding ZSET, counts HASH, watermarks HASH, dead HASH,
--          dead_job STRING

local id, job = ARGV[1], {kind = ARGV[2], queue = ARGV[3], digest = ARGV[4], finalized = ARGV[6]}
return admit(id, job, ARGV[5], now_ms(), ARGV[7], ARGV[8])
