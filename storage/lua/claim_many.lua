--! include _many
--! include _claim
-- Take the lease of each attempt that is due and not leased.
-- KEYS[1]  namespace
-- ARGV     1 owner  2 token  3 lease (ms)  4 number of the first job's token  and for each job: id, attempt
-- Returns  {now, lease_until, answers}; for each job {'claimed', facts, payload} | {'not_due', remaining_ms} |
--          {'refused', why} | {'no_payload'} | 'failed'; facts: kind, version, finalized, admitted, first, cause and
--          queue, with NUL between them
-- Types    job STRING, payload STRING, outstanding ZSET, leased ZSET, parked ZSET, counts HASH

local first, width = 5, 2

local payloads = read(function(id) return K.payload(id) end, first, width)
payload_of = function(id) return payloads[id] end
read_rows(first, width)

local now, number, lease = now_ms(), tonumber(ARGV[4]), {owner = ARGV[1], ms = ARGV[3]}
local written = {}

-- Versions and instants are nearly always the same ones.
local function whole(value)
  written[value] = written[value] or string.format('%d', value)
  return written[value]
end

local answers = each(first, width, function(i)
  lease.token, number = ARGV[2] .. string.format('%d', number), number + 1
  local reply = claim(ARGV[i], ARGV[i + 1], lease, now)
  if reply[1] ~= 'claimed' then return reply end
  local facts = {reply[2], whole(reply[5]), reply[8], whole(reply[9]), whole(reply[10]), reply[11], reply[3]}
  return {'claimed', table.concat(facts, '\0'), reply[7]}
end)
return {now, now + ARGV[3], answers}
