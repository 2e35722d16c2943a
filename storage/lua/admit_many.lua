--! include _many
--! include _admission
-- Admit each job unless its id is known.
-- KEYS[1]  namespace
-- ARGV     1 dedup ttl (s)  2 slack (ms)
--          and for each job: id, kind, queue, digest (32 bytes), payload, finalized_at (s)
-- Returns  for each job 'admitted' | 'in_ledger' | 'finished' | 'dead' | 'conflict' | 'failed'
-- Types    job STRING, payload STRING, seen STRING, outstanding ZSET, counts HASH, watermarks HASH, dead HASH,
--          dead_job STRING

local first, width = 3, 6

-- Whether no id is known and none comes twice: two commands then tell it of all, where each would take three.
local function all_are_new()
  local ids, keys, met = {}, {}, {}
  for i = first, #ARGV, width do
    local id = ARGV[i]
    if met[id] then return false end
    met[id] = true
    ids[#ids + 1] = id
    keys[#keys + 1], keys[#keys + 2] = K.job(id), K.seen(id)
  end
  if redis.call('EXISTS', unpack(keys)) > 0 then return false end
  for _, dead in ipairs(redis.call('HMGET', K.dead(), unpack(ids))) do
    if dead then return false end
  end
  return true
end

local now, are_new = now_ms(), all_are_new()
if not are_new then read_rows(first, width) end
return each(first, width, function(i)
  local job = {kind = ARGV[i + 1], queue = ARGV[i + 2], digest = ARGV[i + 3], finalized = ARGV[i + 5]}
  if not are_new then return admit(ARGV[i], job, ARGV[i + 4], now, ARGV[1], ARGV[2]) end
  admit_new(ARGV[i], job, ARGV[i + 4], now, ARGV[1], ARGV[2])
  return 'admitted'
end)
