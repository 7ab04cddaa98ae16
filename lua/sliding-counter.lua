-- Twin of src/limits/algorithms/sliding-counter.ts; a function body, its arguments in lua/prelude.lua.
-- State, 17 bytes: 'S', start of window (6), count (5), count before (5), little endian.
local start, count, before = clock, 0, 0
local known = #value == 17 and byte(value) == 83
if known then
  start, count, before = unpack('<I6I5I5', value, 2)
end
local now = max(clock, start)
local passed = floor((now - start) / window)
if passed == 1 then
  start, count, before = start + window, 0, count
elseif passed > 1 then
  start, count, before, known = now, 0, 0, false
end
local left = start + window - now
local given = op == 2
if given then
  count = max(0, count - cost)
end
local room = floor((limit * window - count * window - before * left) / window)
local expiry = start + 2 * window
if given then
  local reset = count > 0 and left + window or (before > 0 and left or 0)
  local kept = known and 'S' .. pack('<I6I5I5', start, count, before) or nil
  return 1, room, reset, 0, 0, kept, expiry
end
if cost > room then
  -- Until the weighed count is down to `target`, if nothing else comes.
  local target = limit - cost
  local wait
  if target < 0 then
    wait = left + window
  elseif count <= target then
    wait = left - floor(((target - count) * window) / max(1, before))
  else
    wait = left + window - floor((target * window) / count)
  end
  return 0, room, left + window, wait, 0
end
return 1, room - cost, left + window, 0, 0,
  'S' .. pack('<I6I5I5', start, count + cost, before), expiry
