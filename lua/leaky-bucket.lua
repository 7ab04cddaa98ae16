-- Twin of src/limits/algorithms/leaky-bucket.ts; a function body, its arguments in lua/prelude.lua.
-- State, 15 bytes: 'B', level in units of 1/windowMs (double), time of that level (6), little endian.
local held, price = burst * window, cost * window
local level, at = 0, clock
local known = #value == 15 and byte(value) == 66
if known then
  level, at = unpack('<dI6', value, 2)
  if not (level >= 0 and level < 2 ^ 53) then
    level, at, known = 0, clock, false
  end
end
local now = max(clock, at)
level = max(0, level - (now - at) * limit)

-- How many requests of cost 1 would be admitted at once.
local function room(from)
  local free = max(0, floor((held - from) / window))
  if delay_max == 0 then
    return free
  end
  local slack = delay_max * limit - from
  return slack < 0 and 0 or min(free, floor(slack / window) + 1)
end

if op == 2 then
  local left = max(0, level - price)
  local empty = ceil(left / limit)
  local kept = known and 'B' .. pack('<dI6', left, now) or nil
  return 1, room(left), empty, 0, 0, kept, now + empty
end
local spills = level + price - held
local delay = delay_max > 0 and ceil(level / limit) or 0
if spills > 0 or delay > delay_max then
  local wait = cost > burst and window or spills / limit
  return 0, room(level), ceil(level / limit), max(wait, delay - delay_max), 0
end
level = level + price
local reset = ceil(level / limit)
return 1, room(level), reset, 0, delay, 'B' .. pack('<dI6', level, now), now + reset
