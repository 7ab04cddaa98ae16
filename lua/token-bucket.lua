-- Twin of src/limits/algorithms/token-bucket.ts; a function body of (value, check, clock).
-- State, 15 bytes: 'T', tokens in units of 1/windowMs (double), time of that count (6), little endian.
local window, limit = check.window, check.limit
local full, price = check.burst * window, check.cost * window
local tokens, at = full, clock
local known = #value == 15 and string.byte(value) == 84
if known then
  tokens, at = struct.unpack('<dI6', value, 2)
  if not (tokens >= 0 and tokens < 2 ^ 53) then
    tokens, at, known = full, clock, false
  end
end
local now = math.max(clock, at)
tokens = math.min(full, tokens + (now - at) * limit)
local given = check.op == 2
if not given and price > tokens then
  local wait = check.cost > check.burst and window or (price - tokens) / limit
  return 0, math.floor(tokens / window), math.ceil((full - tokens) / limit), wait, 0
end
local left = given and math.min(full, tokens + price) or tokens - price
local reset = math.ceil((full - left) / limit)
local kept = (known or not given) and 'T' .. struct.pack('<dI6', left, now) or nil
return 1, math.floor(left / window), reset, 0, 0, kept, now + reset
