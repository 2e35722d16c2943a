--! include _row
-- Part: making a job that waits for a receipt due, to be verified or sent again.

local function wake_awaiting(id)
  local row = redis.call('HMGET', K.job(id), 'state', 'kind', 'queue')
  if row[1] ~= 'awaiting' then return end
  local now = now_ms()
  redis.call('HSET', K.job(id), 'state', 'parked', 'due', now, 'cause', 'escalated')
  move(id, row[2], row[3], 'awaiting', 'parked', now)
end
