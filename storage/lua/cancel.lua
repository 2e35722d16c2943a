--! include _ending
-- End a job as cancelled unless an attempt of it is running.
-- KEYS[1]  namespace
-- ARGV     1 id  2 dedup ttl (s)  3 resolved ttl (s)  4.. reconciliation keys the job may have open
-- Returns  1 | 0 when it is gone or running
-- Types    job HASH, payload STRING, seen STRING, outstanding ZSET, leased ZSET, parked ZSET, awaiting ZSET, held ZSET,
--          counts HASH, reconcile HASH, reconcile_pending ZSET, reconcile_indeterminate ZSET, reconcile_resolved STRING

local id = ARGV[1]
local row = redis.call('HMGET', K.job(id), 'state', 'kind', 'queue', 'digest', 'lease')
if not row[1] or (row[1] == 'leased' and tonumber(row[5]) > now_ms()) then return 0 end
local ended = {kind = row[2], queue = row[3], digest = row[4]}
end_row(id, ended, row[1], 'cancelled', ARGV[2], ARGV[3], rest_of(ARGV, 4))
redis.call('DEL', K.payload(id))
return 1
