--! include _row
-- Part: many jobs with one call, each on its own. What they add to counters and indexes, and the keys they set, is
-- gathered and written with one command for each key, or for all: nothing reads it before the call ends. What a job
-- has gathered is written even if it fails later, so each writes its own row before it gathers anything.

local tally, entering, leaving, kept = {}, {}, {}, {}

local function within(gathered, key)
  local found = gathered[key] or {}
  gathered[key] = found
  return found
end

local function add(list, one, two)
  local count = #list
  list[count + 1], list[count + 2] = one, two
end

count = function(kind, counter, by)
  local counters = within(tally, kind)
  counters[counter] = (counters[counter] or 0) + by
end
index = function(key, score, id) add(within(entering, key), score, id) end
unindex = function(key, id) add(within(leaving, key), id) end
keep = function(key, value) add(kept, key, value) end

local function write_counters()
  for kind, counters in pairs(tally) do
    for counter, by in pairs(counters) do
      if by ~= 0 then redis.call('HINCRBY', K.counts(kind), counter, by) end
    end
  end
end

local function write_gathered()
  if #kept > 0 then redis.call('MSET', unpack(kept)) end
  for key, ids in pairs(leaving) do redis.call('ZREM', key, unpack(ids)) end
  for key, entries in pairs(entering) do redis.call('ZADD', key, unpack(entries)) end
  write_counters()
end

-- Run `work(i)` for each job whose arguments begin at ARGV[i], and return what it returns, in order; 'failed' for one
-- that met an error, such as a key of another type, so that it costs no other job anything.
local function each(first, width, work)
  local answers = {}
  for i = first, #ARGV, width do
    local ok, answer = pcall(work, i)
    answers[#answers + 1] = ok and answer or 'failed'
  end
  write_gathered()
  return answers
end
