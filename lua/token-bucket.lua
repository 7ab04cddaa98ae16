-- Twin of src/limits/algorithms/token-bucket.ts; a function body, its arguments in lua/prelude.lua.
-- State, 15 bytes: 'T', tokens in units of 1/windowMs (double), time of that count (6), little endian.
local full, price = burst * window, cost * window
local tokens, at = full, clock
local known = #value == 15 and byte(value) == 84
if known then
  tokens, at = unpack('<dI6', value, 2)
  if not (tokens >= 0 and tokens < 2 ^ 53) then
    tokens, at, known = full, clock, false
  end
end
local now = max(clock, at)
tokens = min(full, tokens + (now - at) * limit)
local given = op == 2
if not given and price > tokens then
  local wait = cost > burst and window or (price - tokens) / limit
  return 0, floor(tokens / window), ceil((full - tokens) / limit), wait, 0
end
local left = given and min(full, tokens + price) or tokens - price
local reset = ceil((full - left) / limit)
local kept = (known or not given) and 'T' .. pack('<dI6', left, now) or nil
return 1, floor(left / window), reset, 0, 0, kept, now + reset
