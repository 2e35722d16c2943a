--! include _row
-- Take wake-ups: expired leases, then parked rows that are due, then rows whose message was lost.
-- KEYS[1]  namespace
-- ARGV     1 limit  2 slack (ms)
-- Returns  flat list of id, kind, queue, attempt, cause, 1 if a worker died in an attempt of it before, else 0
-- Types    job HASH, outstanding ZSET, leased ZSET, parked ZSET, held ZSET, counts HASH, watermarks HASH

local limit, slack_ms, now = tonumber(ARGV[1]), ARGV[2], now_ms()
local taken = {}

local function room() return limit - #taken / 6 end

local function up_to(index, score)
  return redis.call('ZRANGEBYSCORE', index, '-inf', score, 'LIMIT', 0, room())
end

local function wake(id, row, from, cause)
  redis.call('HSET', K.job(id), 'state', 'outstanding')
  move(id, row[1], row[2], from, 'outstanding', lost_after(now, slack_ms, tonumber(row[4] or 0)))
  for _, value in ipairs({id, row[1], row[2], row[3], cause, row[6] and 1 or 0}) do taken[#taken + 1] = value end
end

local function row_of(id)
  return redis.call('HMGET', K.job(id), 'kind', 'queue', 'attempt', 'wakeups', 'hold', 'alone')
end

for _, id in ipairs(up_to(K.leased(), now)) do
  local row = row_of(id)
  -- The token stays: who held the claim may take it back with it, as long as nobody else claims the job.
  redis.call('HDEL', K.job(id), 'owner', 'lease', 'hold', 'wakeups')
  redis.call('HSET', K.job(id), 'cause', 'lease_expired', 'due', now, 'alone', 1)
  if row[5] then
    redis.call('HSET', K.job(id), 'state', 'held')
    move(id, row[1], row[2], 'leased', 'held', now)
  else
    -- A message that was heard was not lost, however many were before it.
    row[4] = nil
    wake(id, row, 'leased', 'lease_expired')
  end
end
for _, id in ipairs(up_to(K.parked(), now)) do wake(id, row_of(id), 'parked', 'parked') end
local watermarks = redis.call('HGETALL', K.watermarks())
for i = 1, #watermarks, 2 do
  for _, id in ipairs(up_to(K.outstanding(watermarks[i]), watermarks[i + 1])) do
    redis.call('HINCRBY', K.job(id), 'wakeups', 1)
    wake(id, row_of(id), 'outstanding', 'message_lost')
  end
end
return taken
