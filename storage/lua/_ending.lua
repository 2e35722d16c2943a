--! include _row
--! include _reconcile
--! include _dead
-- Part: checking that a claim still holds, and taking a row out of the ledger.

-- The row of a claim that may still be recorded, or nil.
local function holding(id, version, token, now)
  local row = row_of(id)
  local holds = row and row[STATE] == 'leased' and row[VERSION] == tonumber(version) and row[TOKEN] == token
  return holds and row[LEASE] > now and row or nil
end

-- Forget who ran the row, and why.
local function set_free(row)
  row[OWNER], row[TOKEN], row[LEASE], row[WAKEUPS], row[CAUSE], row[HOLD] = '', '', 0, 0, 'due', 0
end

-- Take the row out, count and remember how it ended, resolve what reconciliation keeps of it: keys[from] to keys[to],
-- or to the last. The dedup mark keeps two letters of `ending`, which is empty for a dead job: its payload stays.
local function end_row(id, row, counter, ending, ttls, keys, from, to)
  for i = from, to or #keys do resolve_entry(keys[i], ttls.resolved_s) end
  -- What frees memory comes before what takes some: a full server refuses only what a script begins with.
  drop_row(id)
  if ending ~= '' then drop(K.payload(id)) end
  leave(id, row)
  count(row[KIND], counter, 1)
  remember(id, string.sub(row[DIGEST], 1, 16) .. string.sub(ending, 1, 2), ttls.dedup_s)
end

local function finish(id, row, ending, ttls, keys, from, to)
  end_row(id, row, ending, ending, ttls, keys, from, to)
end

-- record: bytes, finalized_at, publish_at_ms. Returns false, changing nothing, if another record is there.
local function bury(id, row, record, ttls, keys, from)
  if store_record(id, record.bytes, record.finalized_at, record.publish_at_ms) == 'conflict' then return false end
  redis.call('SET', K.dead_job(id), packed(row))
  end_row(id, row, 'dead', '', ttls, keys, from)
  return true
end
