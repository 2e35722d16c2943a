--! include _row
-- Part: taking the lease of one attempt.

-- Scripts for many jobs put another function here, which has them all at hand.
local function payload_of(id) return redis.call('GET', K.payload(id)) end

-- lease: owner, token, ms. Returns {'claimed', row, payload} | {'not_due', remaining_ms} | {'refused', why} |
-- {'no_payload'}; the row is packed.
local function claim(id, attempt, lease, now)
  local row = row_of(id)
  if not row then return {'refused', 'gone'} end
  if row[ATTEMPT] ~= attempt then return {'refused', 'other_attempt'} end
  local state = row[STATE]
  if state == 'held' or state == 'awaiting' then return {'refused', state} end
  if state == 'leased' then
    if row[LEASE] > now then return {'refused', 'leased'} end
    if row[HOLD] == 1 then return {'refused', 'held'} end
    row[CAUSE], row[ALONE] = 'lease_expired', 1
  elseif row[DUE] > now then
    return {'not_due', row[DUE] - now}
  end
  local payload = payload_of(id)
  if not payload then return {'no_payload'} end
  local until_ms = now + lease.ms
  if row[FIRST] == 0 then row[FIRST] = now end
  row[VERSION], row[OWNER], row[TOKEN], row[LEASE] = row[VERSION] + 1, lease.owner, lease.token, until_ms
  return {'claimed', move(id, row, 'leased', until_ms), payload}
end
