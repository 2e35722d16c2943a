--! include _many
-- Tell when jobs were finalised.
-- KEYS[1]  namespace
-- ARGV     ids
-- Returns  for each id its finalized_at (s), or nil where there is no row | 'failed'
-- Types    job STRING

read_rows(1, 1)
return each(1, 1, function(i)
  local row = row_of(ARGV[i])
  return row and row[FINALIZED] or false
end)
