--! include _row
--! include _reconcile
--! include _dead
-- Part: checking that a claim still holds, and taking a row out of the ledger.

local function row_of(id)
  local row = redis.call('HMGET', K.job(id), 'state', 'version', 'token', 'lease', 'kind', 'queue', 'digest')
  return {state = row[1], version = row[2], token = row[3], lease = tonumber(row[4] or 0), kind = row[5],
    queue = row[6], digest = row[7]}
end

-- The row of a claim that may still be recorded, or nil.
local function holding(id, version, token, now)
  local row = row_of(id)
  local holds = row.state == 'leased' and row.version == version and row.token == token and row.lease > now
  return holds and row or nil
end

-- Take the row out, count and remember how it ended, resolve what reconciliation keeps of it: keys[from] to keys[to],
-- or to the last. The dedup mark keeps two letters of `ending`, which is empty for a dead job: its payload stays.
local function end_row(id, row, counter, ending, ttls, keys, from, to)
  -- What frees memory comes first: a full server refuses only what a script begins with.
  if ending == '' then redis.call('DEL', K.job(id)) else redis.call('DEL', K.job(id), K.payload(id)) end
  leave(id, row.kind, row.queue, row.state)
  count(row.kind, counter, 1)
  redis.call('SET', K.seen(id), string.sub(row.digest, 1, 16) .. string.sub(ending, 1, 2), 'EX', ttls.dedup_s)
  for i = from, to or #keys do resolve_entry(keys[i], ttls.resolved_s) end
end

local function finish(id, row, ending, ttls, keys, from, to)
  end_row(id, row, ending, ending, ttls, keys, from, to)
end

-- record: bytes, finalized_at, publish_at_ms. Returns false, changing nothing, if another record is there.
local function bury(id, row, record, ttls, keys, from)
  if store_record(id, record.bytes, record.finalized_at, record.publish_at_ms) == 'conflict' then return false end
  redis.call('HSET', K.dead_job(id), 'kind', row.kind, 'queue', row.queue,
    'finalized', redis.call('HGET', K.job(id), 'finalized'),
    'digest', row.digest, 'version', row.version)
  end_row(id, row, 'dead', '', ttls, keys, from)
  return true
end
