--! include _row
-- List rows of a state in the order of its index.
-- KEYS[1]  namespace
-- ARGV     1 state  2 limit
-- Returns  list of {id, score, packed row}; rows of several queues one queue after the other
-- Types    job STRING, outstanding ZSET, leased ZSET, parked ZSET, awaiting ZSET, held ZSET, watermarks HASH

local state, rows = ARGV[1], {}

local function add(index)
  local found = redis.call('ZRANGE', index, 0, ARGV[2] - 1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local row = redis.call('GET', K.job(found[i]))
    if row then rows[#rows + 1] = {found[i], found[i + 1], row} end
  end
end

if state == 'outstanding' then
  for _, queue in ipairs(redis.call('HKEYS', K.watermarks())) do add(index_of(state, queue)) end
else
  add(index_of(state))
end
return rows
