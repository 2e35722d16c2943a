-- Part: the ledger's clock, rows, their indexes, and the counters that go with every move.
-- A row is in exactly one index, its field `state` names that index, and the kind's counter of that state counts it.

-- A row is one packed string, so that one command reads or writes the rows of many jobs: what has a fixed width, then
-- texts that end with NUL. These are the places of its fields once it is unpacked. 0 and '' stand for none; instants
-- are in ms; finalized and attempt are digits, as they came.
local FORMAT, FIELDS = '>c32ddddI4HBBssssssss', 17
-- First: when attempt 0 was claimed. Wakeups: messages lost in a row. Hold: 1 to be held when its attempt ends.
-- Alone: 1 if a worker died in an attempt of it.
local DIGEST, ADMITTED, DUE, FIRST, LEASE, VERSION, WAKEUPS, HOLD, ALONE = 1, 2, 3, 4, 5, 6, 7, 8, 9
-- Owner and token: of the attempt that runs. Cause: why the next claim runs, due|lease_expired|escalated.
local KIND, QUEUE, FINALIZED, ATTEMPT, STATE, OWNER, TOKEN, CAUSE = 10, 11, 12, 13, 14, 15, 16, 17

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

local function unpacked(text) return text and {struct.unpack(FORMAT, text)} end
local function packed(row) return struct.pack(FORMAT, unpack(row, 1, FIELDS)) end

-- Scripts for many jobs put other functions in the place of these, which gather first: see _many.
local function row_of(id) return unpacked(redis.call('GET', K.job(id))) end
local function keep_row(id, row)
  local kept = packed(row)
  redis.call('SET', K.job(id), kept)
  return kept
end
local function drop_row(id) redis.call('DEL', K.job(id)) end
local function keep(key, value) redis.call('SET', key, value) end
local function drop(key) redis.call('DEL', key) end
local function remember(id, mark, ttl_s) redis.call('SET', K.seen(id), mark, 'EX', ttl_s) end
local function index(key, score, id) redis.call('ZADD', key, score, id) end
local function unindex(key, id) redis.call('ZREM', key, id) end
local function count(kind, counter, by) redis.call('HINCRBY', K.counts(kind), counter, by) end

-- Write a new row, whose state is `outstanding`.
local function enter(id, row, score)
  keep_row(id, row)
  index(index_of(row[STATE], row[QUEUE]), score, id)
  count(row[KIND], row[STATE], 1)
end

local function leave(id, row)
  unindex(index_of(row[STATE], row[QUEUE]), id)
  count(row[KIND], row[STATE], -1)
end

-- Write a row that was changed, in the state that it has from now on. Returns the row as it was written.
local function move(id, row, to, score)
  local from = row[STATE]
  row[STATE] = to
  local kept = keep_row(id, row)
  if from ~= to then
    unindex(index_of(from, row[QUEUE]), id)
    count(row[KIND], from, -1)
    count(row[KIND], to, 1)
  end
  index(index_of(to, row[QUEUE]), score, id)
  return kept
end
