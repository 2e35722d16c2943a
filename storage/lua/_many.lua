--! include _row
-- Part: many jobs with one call, each on its own. Their rows are read with one command. What they write is gathered and
-- written with one command for each key, or for all: nothing but rows is read again before the call ends. A job that
-- fails must not have gathered anything, for that is written all the same.

local rows, tally, entering, leaving, kept, dropped, marks = {}, {}, {}, {}, {}, {}, {}

local function within(gathered, key)
  local found = gathered[key] or {}
  gathered[key] = found
  return found
end

local function add(list, one, two)
  local count = #list
  list[count + 1], list[count + 2] = one, two
end

-- A row is unpacked when its job's turn comes: one that cannot be costs no other job anything.
row_of = function(id)
  if type(rows[id]) == 'string' then rows[id] = unpacked(rows[id]) end
  return rows[id]
end
keep_row = function(id, row)
  local written = packed(row)
  rows[id] = row
  add(kept, K.job(id), written)
  return written
end
drop_row = function(id)
  rows[id] = nil
  dropped[#dropped + 1] = K.job(id)
end
keep = function(key, value) add(kept, key, value) end
drop = function(key) dropped[#dropped + 1] = key end
remember = function(id, mark, ttl_s) marks[#marks + 1] = {K.seen(id), mark, ttl_s} end
index = function(key, score, id) add(within(entering, key), score, id) end
unindex = function(key, id) add(within(leaving, key), id) end
count = function(kind, counter, by)
  local counters = within(tally, kind)
  counters[counter] = (counters[counter] or 0) + by
end

local function write_counters()
  for kind, counters in pairs(tally) do
    for counter, by in pairs(counters) do
      if by ~= 0 then redis.call('HINCRBY', K.counts(kind), counter, by) end
    end
  end
end

local function write_gathered()
  if #dropped > 0 then redis.call('DEL', unpack(dropped)) end
  if #kept > 0 then redis.call('MSET', unpack(kept)) end
  for _, mark in ipairs(marks) do redis.call('SET', mark[1], mark[2], 'EX', mark[3]) end
  for key, ids in pairs(leaving) do redis.call('ZREM', key, unpack(ids)) end
  for key, entries in pairs(entering) do redis.call('ZADD', key, unpack(entries)) end
  write_counters()
end

-- Read the values that belong to the ids at ARGV[first] and every `width` after it, with one command.
local function read(key_of, first, width)
  local ids, keys, found = {}, {}, {}
  for i = first, #ARGV, width do
    ids[#ids + 1], keys[#keys + 1] = ARGV[i], key_of(ARGV[i])
  end
  for place, value in ipairs(redis.call('MGET', unpack(keys))) do found[ids[place]] = value end
  return found
end

local function read_rows(first, width)
  rows = read(function(id) return K.job(id) end, first, width)
end

-- Run `work(i)` for each job whose arguments begin at ARGV[i], and return what it returns, in order; 'failed' for one
-- that met an error, such as a key of another type, so that it costs no other job anything.
local function each(first, width, work)
  local answers = {}
  for i = first, #ARGV, width do
    local ok, answer = pcall(work, i)
    if not ok then answer = 'failed' end
    answers[#answers + 1] = answer
  end
  write_gathered()
  return answers
end
