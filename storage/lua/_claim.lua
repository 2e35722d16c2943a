--! include _row
-- Part: taking the lease of one attempt.

-- Scripts for many jobs put another function here, which has them all at hand.
local function payload_of(id) return redis.call('GET', K.payload(id)) end

-- lease: owner, token, ms. Returns one of
--   {'claimed', kind, queue, attempt, version, lease_until, payload, finalized, admitted, first, cause, now}
--   {'not_due', remaining_ms} | {'refused', why} | {'no_payload'}
local function claim(id, attempt, lease, now)
  local key = K.job(id)
  local row = redis.call('HMGET', key, 'state', 'attempt', 'due', 'kind', 'queue', 'finalized', 'admitted', 'first',
    'cause', 'version')
  local state, kind, queue, cause = row[1], row[4], row[5], row[9] or 'due'
  if not state then return {'refused', 'gone'} end
  if row[2] ~= attempt then return {'refused', 'other_attempt'} end
  if state == 'held' or state == 'awaiting' then return {'refused', state} end
  if state == 'leased' then
    local held = redis.call('HMGET', key, 'lease', 'hold')
    if tonumber(held[1]) > now then return {'refused', 'leased'} end
    if held[2] then return {'refused', 'held'} end
    cause = 'lease_expired'
    redis.call('HSET', key, 'alone', 1)
  elseif tonumber(row[3]) > now then
    return {'not_due', row[3] - now}
  end
  local payload = payload_of(id)
  if not payload then return {'no_payload'} end
  local version, first, until_ms = row[10] + 1, row[8] or now, now + lease.ms
  redis.call('HSET', key, 'state', 'leased', 'version', version, 'first', first, 'owner', lease.owner,
    'token', lease.token, 'lease', until_ms)
  move(id, kind, queue, state, 'leased', until_ms)
  return {'claimed', kind, queue, row[2], version, until_ms, payload, row[6], row[7], first, cause, now}
end
