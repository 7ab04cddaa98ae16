-- Twin of src/limits/algorithms/sliding-log.ts; a function body, its arguments in lua/prelude.lua.
-- State: 'L', oldest stamp (6), newest stamp (6), then for each stamp after the oldest its distance to the
-- one before, in 2, 3 or 6 bytes as the window needs; little endian. Never more than `limit` stamps.
-- Stale stamps leave at the front and new ones come at the end, so nothing is unpacked that need not be.
local width = window <= 65536 and 2 or (window <= 16777216 and 3 or 6)
local step = '<I' .. width
local count, oldest, newest, first = 0, clock, clock, 14
if #value >= 13 and byte(value) == 76 and (#value - 13) % width == 0 then
  oldest, newest = unpack('<I6I6', value, 2)
  count = (#value - 13) / width + 1
  if newest < oldest then
    count, oldest, newest = 0, clock, clock
  end
end
local known = count > 0
local now = max(clock, newest)
while count > 0 and oldest <= now - window do
  count = count - 1
  if count > 0 then
    oldest = oldest + unpack(step, value, first)
    first = first + width
  end
end

if op == 2 then
  local left = max(0, count - cost)
  if left == 0 then
    return 1, limit, 0, 0, 0, known and '' or nil, clock
  end
  local last = first + (left - 1) * width
  for at = last, first + (count - 2) * width, width do
    newest = newest - unpack(step, value, at)
  end
  local kept = 'L' .. pack('<I6I6', oldest, newest) .. sub(value, first, last - 1)
  return 1, limit - left, newest + window - now, 0, 0, kept, newest + window
end

if count + cost > limit then
  if count == 0 then
    return 0, limit, window, window, 0
  end
  -- The stamp whose end makes room.
  local frees = oldest
  for at = 0, min(count - 1, count + cost - limit - 1) - 1 do
    frees = frees + unpack(step, value, first + at * width)
  end
  return 0, limit - count, newest + window - now, frees + window - now, 0
end

local kept = ''
local added = cost
if count == 0 then
  oldest, newest, added = now, now, cost - 1
else
  kept = sub(value, first)
end
if added > 0 then
  kept = kept .. pack(step, now - newest) .. rep(rep('\0', width), added - 1)
end
return 1, limit - count - cost, window, 0, 0,
  'L' .. pack('<I6I6', oldest, now) .. kept, now + window
