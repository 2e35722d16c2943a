--! include _row
-- Part: whether an id is known, and the writing of a new row.

-- What the id is known as: in_ledger, finished, dead, conflict (other bytes), or nil when it is new. A dead letter
-- that was stored without a job has no digest to compare; its id is dead whatever the bytes.
local function known_as(id, digest)
  local row = row_of(id)
  if row then return row[DIGEST] == digest and 'in_ledger' or 'conflict' end
  if redis.call('HEXISTS', K.dead(), id) == 1 then
    row = unpacked(redis.call('GET', K.dead_job(id)))
    return (not row or row[DIGEST] == digest) and 'dead' or 'conflict'
  end
  local kept = redis.call('GET', K.seen(id))
  if kept then return string.sub(kept, 1, 16) == string.sub(digest, 1, 16) and 'finished' or 'conflict' end
  return nil
end

local function count_refusal(kind, known)
  count(kind, known == 'conflict' and 'conflicts' or 'duplicates', 1)
end

local watermarked = {}

-- Give the queue its watermark, unless it has one.
local function begin_watermark(queue)
  if watermarked[queue] then return end
  redis.call('HSETNX', K.watermarks(), queue, 0)
  watermarked[queue] = true
end

-- job: kind, queue, digest, finalized, and the version to begin with; the payload is stored by the caller.
local function write_row(id, job, now, slack_ms)
  begin_watermark(job.queue)
  local row = {job.digest, now, now, 0, 0, job.version or 0, 0, 0, 0,
    job.kind, job.queue, job.finalized, '0', 'outstanding', '', '', 'due'}
  enter(id, row, lost_after(now, slack_ms, 0))
end

local function admit_new(id, job, payload, now, ttl_s, slack_ms)
  redis.call('SET', K.seen(id), string.sub(job.digest, 1, 16), 'NX', 'EX', ttl_s)
  keep(K.payload(id), payload)
  write_row(id, job, now, slack_ms)
  count(job.kind, 'admitted', 1)
end

-- Returns 'admitted' or what the id is known as.
local function admit(id, job, payload, now, ttl_s, slack_ms)
  local known = known_as(id, job.digest)
  if known then
    count_refusal(job.kind, known)
    return known
  end
  admit_new(id, job, payload, now, ttl_s, slack_ms)
  return 'admitted'
end
