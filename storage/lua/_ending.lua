--! include _row
--! include _reconcile
-- Part: checking that a claim still holds, and taking a row out of the ledger.

-- The row of a claim that may still be recorded, or nil.
local function holding(id, version, token, now)
  local row = redis.call('HMGET', K.job(id), 'state', 'version', 'token', 'lease', 'kind', 'queue', 'attempt', 'hold',
    'digest', 'finalized')
  if row[1] ~= 'leased' or row[2] ~= version or row[3] ~= token or tonumber(row[4]) <= now then return nil end
  return {kind = row[5], queue = row[6], attempt = row[7], hold = row[8], digest = row[9], finalized = row[10]}
end

-- Take the row out, count how it ended, remember its digest and resolve what reconciliation still keeps of it.
local function end_row(id, row, from, counter, ttl_s, resolved_ttl_s, reconcile_keys)
  redis.call('DEL', K.job(id))
  leave(id, row.kind, row.queue, from)
  redis.call('HINCRBY', K.counts(row.kind), counter, 1)
  redis.call('SET', K.seen(id), string.sub(row.digest, 1, 16), 'EX', ttl_s)
  for _, key in ipairs(reconcile_keys) do resolve_entry(key, resolved_ttl_s) end
end

local function rest_of(list, from)
  local rest = {}
  for i = from, #list do rest[#rest + 1] = list[i] end
  return rest
end
