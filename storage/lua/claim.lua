--! include _claim
-- Take the lease of exactly this attempt if it is due and not leased.
-- KEYS[1]  namespace
-- ARGV     1 id  2 attempt  3 owner  4 token  5 lease (ms)
-- Returns  {now, answer}; answer: {'claimed', packed row, payload} | {'not_due', remaining_ms} | {'refused', why} |
--          {'no_payload'}
-- Types    job STRING, payload STRING, outstanding ZSET, leased ZSET, parked ZSET, counts HASH

local now = now_ms()
return {now, claim(ARGV[1], ARGV[2], {owner = ARGV[3], token = ARGV[4], ms = ARGV[5]}, now)}
