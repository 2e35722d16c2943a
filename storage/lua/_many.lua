--! include _row
-- Part: many jobs with one call, each on its own; what they add to counters is added up first.

local tally = {}

count = function(kind, counter, by)
  local counters = tally[kind] or {}
  tally[kind] = counters
  counters[counter] = (counters[counter] or 0) + by
end

-- Run `work(i)` for each job whose arguments begin at ARGV[i], and return what it returns, in order; 'failed' for one
-- that met an error, such as a key of another type, so that it costs no other job anything.
local function each(first, width, work)
  local answers = {}
  for i = first, #ARGV, width do
    local ok, answer = pcall(work, i)
    answers[#answers + 1] = ok and answer or 'failed'
  end
  for kind, counters in pairs(tally) do
    for counter, by in pairs(counters) do
      if by ~= 0 then redis.call('HINCRBY', K.counts(kind), counter, by) end
    end
  end
  return answers
end
