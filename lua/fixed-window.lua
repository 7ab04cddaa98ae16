-- Twin of src/limits/algorithms/fixed-window.ts; a function body of (value, check, clock).
-- State, 12 bytes: 'F', end of window (6), count (5), little endian.
local window_end, count = 0, 0
if #value == 12 and string.byte(value) == 70 then
  window_end, count = struct.unpack('<I6I5', value, 2)
end
local live = clock < window_end
if not live then
  window_end, count = clock + check.window, 0
end
-- After the clock stepped back the end may lie further away than one window.
local reset = math.min(check.window, window_end - clock)
if check.op == 2 then
  local left = math.max(0, count - check.cost)
  local kept = live and 'F' .. struct.pack('<I6I5', window_end, left) or nil
  return 1, check.limit - left, left > 0 and reset or 0, 0, 0, kept, window_end
end
if count + check.cost > check.limit then
  return 0, check.limit - count, reset, reset, 0
end
count = count + check.cost
return 1, check.limit - count, reset, 0, 0, 'F' .. struct.pack('<I6I5', window_end, count), window_end
