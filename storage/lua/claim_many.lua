--! include _many
--! include _claim
-- Take the lease of each attempt that is due and not leased.
-- KEYS[1]  namespace
-- ARGV     1 owner  2 token  3 lease (ms)  and for each job: id, attempt
-- Returns  {now, answers}; for each job {'claimed', packed row, payload} | {'not_due', remaining_ms} | {'refused', why} |
--          {'no_payload'} | 'failed'
-- Types    job STRING, payload STRING, outstanding ZSET, leased ZSET, parked ZSET, counts HASH

local first, width = 4, 2
local payloads = read(function(id) return K.payload(id) end, first, width)
payload_of = function(id) return payloads[id] end
read_rows(first, width)

local now, lease = now_ms(), {owner = ARGV[1], token = ARGV[2], ms = ARGV[3]}
return {now, each(first, width, function(i) return claim(ARGV[i], ARGV[i + 1], lease, now) end)}
