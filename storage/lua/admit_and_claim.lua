--! include _admission
--! include _claim
-- Admit a job and claim its attempt 0; a job that is in the ledger already is only claimed, which counts no duplicate.
-- KEYS[1]  namespace
-- ARGV     1 id  2 kind  3 queue  4 digest (32 bytes)  5 payload  6 finalized_at (s)  7 dedup ttl (s)  8 slack (ms)
--          9 owner  10 token  11 lease (ms)
-- Returns  {now, answer}; answer: {'finished'} | {'dead'} | {'conflict'} | what `claim` answers
-- Types    job STRING, payload STRING, seen STRING, outstanding ZSET, leased ZSET, counts HASH, watermarks HASH,
--          dead HASH, dead_job STRING

local id, job = ARGV[1], {kind = ARGV[2], queue = ARGV[3], digest = ARGV[4], finalized = ARGV[6]}
local known, now = known_as(id, job.digest), now_ms()
if known and known ~= 'in_ledger' then
  count_refusal(job.kind, known)
  return {now, {known}}
end
if not known then admit_new(id, job, ARGV[5], now, ARGV[7], ARGV[8]) end
return {now, claim(id, '0', {owner = ARGV[9], token = ARGV[10], ms = ARGV[11]}, now)}
