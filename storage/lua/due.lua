--! include _row
-- Take wake-ups: expired leases, then parked rows that are due, then rows whose message was lost.
-- KEYS[1]  namespace
-- ARGV     1 limit  2 slack (ms)
-- Returns  flat list of id, kind, queue, attempt, cause, 1 if a worker died in an attempt of it before, else 0
-- Types    job STRING, outstanding ZSET, leased ZSET, parked ZSET, held ZSET, counts HASH, watermarks HASH

local limit, slack_ms, now = tonumber(ARGV[1]), ARGV[2], now_ms()
local taken = {}

local function room() return limit - #taken / 6 end

-- Use each row of an index up to a score. One that is gone leaves the index; one that cannot be read stays, and costs no
-- other job anything.
local function each_row(index, score, use)
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', index, '-inf', score, 'LIMIT', 0, room())) do
    local is_sound, row = pcall(row_of, id)
    if row and is_sound then use(id, row) elseif is_sound then redis.call('ZREM', index, id) end
  end
end

local function wake(id, row, cause, was_alone)
  move(id, row, 'outstanding', lost_after(now, slack_ms, row[WAKEUPS]))
  for _, value in ipairs({id, row[KIND], row[QUEUE], row[ATTEMPT], cause, was_alone}) do taken[#taken + 1] = value end
end

each_row(K.leased(), now, function(id, row)
  local is_held, was_alone = row[HOLD] == 1, row[ALONE]
  -- The token stays: who held the claim may take it back with it, as long as nobody else claims the job. A message that
  -- was heard was not lost, however many were before it.
  row[OWNER], row[LEASE], row[HOLD], row[WAKEUPS] = '', 0, 0, 0
  row[CAUSE], row[DUE], row[ALONE] = 'lease_expired', now, 1
  if is_held then move(id, row, 'held', now) else wake(id, row, 'lease_expired', was_alone) end
end)
each_row(K.parked(), now, function(id, row) wake(id, row, 'parked', row[ALONE]) end)
local watermarks = redis.call('HGETALL', K.watermarks())
for i = 1, #watermarks, 2 do
  each_row(K.outstanding(watermarks[i]), watermarks[i + 1], function(id, row)
    -- As many as the row has room for.
    row[WAKEUPS] = math.min(row[WAKEUPS] + 1, 65535)
    wake(id, row, 'message_lost', row[ALONE])
  end)
end
return taken
