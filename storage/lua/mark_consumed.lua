--! include _row
-- Raise a queue's watermark; never lower it, and never past now: a wrong mark must not call fresh messages lost.
-- KEYS[1]  namespace
-- ARGV     1 queue  2 published at (ms)
-- Returns  the watermark (ms)
-- Types    watermarks HASH

local kept = tonumber(redis.call('HGET', K.watermarks(), ARGV[1]) or 0)
local mark = math.max(kept, math.min(tonumber(ARGV[2]), now_ms()))
redis.call('HSET', K.watermarks(), ARGV[1], mark)
return mark
