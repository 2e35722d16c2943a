--! include _many
--! include _admission
-- Admit each job unless its id is known.
-- KEYS[1]  namespace
-- ARGV     1 dedup ttl (s)  2 slack (ms)
--          and for each job: id, kind, queue, digest (32 bytes), payload, finalized_at (s)
-- Returns  for each job 'admitted' | 'in_ledger' | 'finished' | 'dead' | 'conflict' | 'failed'
-- Types    job HASH, payload STRING, seen STRING, outstanding ZSET, counts HASH, watermarks HASH, dead HASH,
--          dead_job HASH

local now = now_ms()
return each(3, 6, function(i)
  local job = {kind = ARGV[i + 1], queue = ARGV[i + 2], digest = ARGV[i + 3], finalized = ARGV[i + 5]}
  return admit(ARGV[i], job, ARGV[i + 4], now, ARGV[1], ARGV[2])
end)
