--! include _ending
-- Take back the lease of a claim that ran out, if nobody has claimed the job since; a message that wakes the job
-- meanwhile finds nothing to claim.
-- KEYS[1]  namespace
-- ARGV     1 id  2 version  3 token  4 lease (ms)
-- Returns  1 | 0 when somebody claimed the job since, or it is gone
-- Types    job STRING, outstanding ZSET, leased ZSET, parked ZSET, held ZSET, counts HASH

local id = ARGV[1]
local row, until_ms = row_of(id), now_ms() + ARGV[4]
if not row or row[VERSION] ~= tonumber(ARGV[2]) or row[TOKEN] ~= ARGV[3] then return 0 end
-- A hold that took effect when the lease ran out takes effect again when the outcome is recorded.
if row[STATE] == 'held' then row[HOLD] = 1 end
row[LEASE], row[CAUSE] = until_ms, 'due'
move(id, row, 'leased', until_ms)
return 1
