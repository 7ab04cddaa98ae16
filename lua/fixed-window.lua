-- Twin of src/limits/algorithms/fixed-window.ts; a function body, its arguments in lua/prelude.lua.
-- State, 12 bytes: 'F', end of window (6), count (5), little endian.
local window_end, count = 0, 0
if #value == 12 and byte(value) == 70 then
  window_end, count = unpack('<I6I5', value, 2)
end
local live = clock < window_end
if not live then
  window_end, count = clock + window, 0
end
-- After the clock stepped back the end may lie further away than one window.
local reset = min(window, window_end - clock)
if op == 2 then
  local left = max(0, count - cost)
  local kept = live and 'F' .. pack('<I6I5', window_end, left) or nil
  return 1, limit - left, left > 0 and reset or 0, 0, 0, kept, window_end
end
if count + cost > limit then
  return 0, limit - count, reset, reset, 0
end
count = count + cost
return 1, limit - count, reset, 0, 0, 'F' .. pack('<I6I5', window_end, count), window_end
