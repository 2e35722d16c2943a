--! include _row
-- Show a row.
-- KEYS[1]  namespace
-- ARGV     1 id
-- Returns  the fields in the order of their places in `_row`, nil for one that it has not | nil when there is no row
-- Types    job STRING

return row_of(ARGV[1])
