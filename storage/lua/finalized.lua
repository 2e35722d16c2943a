-- Tell when jobs were finalised.
-- KEYS[1]  namespace
-- ARGV     ids
-- Returns  for each id its finalized_at (s), or nil where there is no row
-- Types    job HASH

local found = {}
for place, id in ipairs(ARGV) do found[place] = redis.call('HGET', K.job(id), 'finalized') end
return found
