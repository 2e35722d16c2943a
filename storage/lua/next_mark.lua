--! include _row
-- Let one caller per period publish a queue's mark.
-- KEYS[1]  namespace
-- ARGV     1 queue  2 period (ms)
-- Returns  now (ms) | nil
-- Types    mark STRING

if redis.call('SET', K.mark(ARGV[1]), 1, 'NX', 'PX', ARGV[2]) then return now_ms() end
return false
