--! include _row
-- Part: making a job that waits for a receipt due, to be verified or sent again.

local function wake_awaiting(id)
  local row = row_of(id)
  if not row or row[STATE] ~= 'awaiting' then return end
  row[DUE], row[CAUSE] = now_ms(), 'escalated'
  move(id, row, 'parked', row[DUE])
end
