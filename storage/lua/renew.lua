--! include _ending
-- Extend leases that still hold.
-- KEYS[1]  namespace
-- ARGV     1 lease (ms), then for each claim: id, version, token
-- Returns  for each claim 1, or 0 where it no longer holds
-- Types    job STRING, leased ZSET

local now, renewed = now_ms(), {}
local until_ms = now + ARGV[1]
for i = 2, #ARGV, 3 do
  local row = holding(ARGV[i], ARGV[i + 1], ARGV[i + 2], now)
  if row then
    row[LEASE] = until_ms
    move(ARGV[i], row, 'leased', until_ms)
  end
  renewed[#renewed + 1] = row and 1 or 0
end
return renewed
