-- Part: the ledger's clock, a row's index, and the counters that go with every move.
-- A row is in exactly one index, its field `state` names that index, and the kind's counter of that state counts it.

local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end

local function index_of(state, queue)
  if state == 'outstanding' then return K.outstanding(queue) end
  if state == 'leased' then return K.leased() end
  if state == 'parked' then return K.parked() end
  if state == 'awaiting' then return K.awaiting() end
  return K.held()
end

-- The instant past which the queue's watermark tells that a message published or due at `from_ms` was lost. The slack
-- doubles with each wake-up of the row, up to 32 times.
local function lost_after(from_ms, slack_ms, wakeups)
  return from_ms + slack_ms * 2 ^ math.min(wakeups, 5)
end

-- Scripts for many jobs put other functions in the place of these four, which gather first: see _many.
local function count(kind, counter, by) redis.call('HINCRBY', K.counts(kind), counter, by) end
local function index(key, score, id) redis.call('ZADD', key, score, id) end
local function unindex(key, id) redis.call('ZREM', key, id) end
local function keep(key, value) redis.call('SET', key, value) end

local function enter(id, kind, queue, state, score)
  index(index_of(state, queue), score, id)
  count(kind, state, 1)
end

local function leave(id, kind, queue, state)
  unindex(index_of(state, queue), id)
  count(kind, state, -1)
end

local function move(id, kind, queue, from, to, score)
  if from == to then
    redis.call('ZADD', index_of(to, queue), score, id)
  else
    leave(id, kind, queue, from)
    enter(id, kind, queue, to, score)
  end
end
