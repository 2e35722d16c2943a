--! include _dead
-- Remove a dead letter with its payload and dedup mark; a job in the ledger under the same id keeps both.
-- KEYS[1]  namespace
-- ARGV     1 id
-- Returns  1 | 0 when there was none
-- Types    dead HASH, dead_index ZSET, dead_unpublished ZSET, dead_job STRING, job STRING, payload STRING, seen STRING

local id = ARGV[1]
if not remove_record(id) then return 0 end
if redis.call('EXISTS', K.job(id)) == 0 then redis.call('DEL', K.payload(id), K.seen(id)) end
return 1
