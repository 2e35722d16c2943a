--! include _row
-- Take wake-ups: expired leases, then parked rows that are due, then rows whose message was lost.
-- KEYS[1]  namespace
-- ARGV     1 limit  2 slack (ms)
-- Returns  flat list of id, kind, queue, attempt, cause, 1 if a worker died in an attempt of it before, else 0
-- Types    job STRING, outstanding ZSET, leased ZSET, parked ZSET, held ZSET, counts HASH, watermarks HASH

local limit, slack_ms, now = tonumber(ARGV[1]), ARGV[2], now_ms()
local taken = {}

local function room() return limit - #taken / 6 end

local function up_to(index, score)
  return redis.call('ZRANGEBYSCORE', index, '-inf', score, 'LIMIT', 0, room())
end

local function wake(id, row, cause, was_alone)
  move(id, row, 'outstanding', lost_after(now, slack_ms, row[WAKEUPS] or 0))
  for _, value in ipairs({id, row[KIND], row[QUEUE], row[ATTEMPT], cause, was_alone and 1 or 0}) do
    taken[#taken + 1] = value
  end
end

for _, id in ipairs(up_to(K.leased(), now)) do
  local row = row_of(id)
  local is_held, was_alone = row[HOLD], row[ALONE]
  -- The token stays: who held the claim may take it back with it, as long as nobody else claims the job. A message that
  -- was heard was not lost, however many were before it.
  row[OWNER], row[LEASE], row[HOLD], row[WAKEUPS] = false, false, false, false
  row[CAUSE], row[DUE], row[ALONE] = 'lease_expired', now, true
  if is_held then move(id, row, 'held', now) else wake(id, row, 'lease_expired', was_alone) end
end
for _, id in ipairs(up_to(K.parked(), now)) do
  local row = row_of(id)
  wake(id, row, 'parked', row[ALONE])
end
local watermarks = redis.call('HGETALL', K.watermarks())
for i = 1, #watermarks, 2 do
  for _, id in ipairs(up_to(K.outstanding(watermarks[i]), watermarks[i + 1])) do
    local row = row_of(id)
    row[WAKEUPS] = (row[WAKEUPS] or 0) + 1
    wake(id, row, 'message_lost', row[ALONE])
  end
end
return taken
