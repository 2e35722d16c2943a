--! include _admission
--! include _dead
-- Turn a dead letter back into a row at attempt 0; its version goes on, so an old claim or look never fits it.
-- KEYS[1]  namespace
-- ARGV     1 id  2 slack (ms)
-- Returns  {kind, queue} | nil when there is no dead letter with a job and a payload
-- Types    job STRING, payload STRING, outstanding ZSET, counts HASH, watermarks HASH, dead HASH,
--          dead_index ZSET, dead_unpublished ZSET, dead_job STRING

local id = ARGV[1]
local row = unpacked(redis.call('GET', K.dead_job(id)))
if not row or redis.call('EXISTS', K.payload(id)) == 0 or redis.call('EXISTS', K.job(id)) == 1 then return false end
if not remove_record(id) then return false end
local job = {kind = row[KIND], queue = row[QUEUE], finalized = row[FINALIZED], digest = row[DIGEST],
  version = row[VERSION]}
write_row(id, job, now_ms(), ARGV[2])
count(job.kind, 'dead', -1)
return {job.kind, job.queue}
