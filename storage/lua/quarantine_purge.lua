--! include _quarantine
-- Remove the oldest quarantined messages, at most a batch, so that the server is never held for long.
-- KEYS[1]  namespace
-- ARGV     1 most entries
-- Returns  number removed
-- Types    quarantine_entry HASH, quarantine_index ZSET, quarantine_counts HASH

local removed = 0
while removed < tonumber(ARGV[1]) do
  local id = oldest()
  if not id then break end
  discard(id)
  removed = removed + 1
end
return removed
