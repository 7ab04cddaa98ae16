-- Asks and counts all checks of one request, all or nothing: when one is refused, none is counted (`give`
-- always is), and a refused one is never written. The five algorithm files stand before this text as
-- `steps[1]` to `steps[5]`; src/redis/scripts.ts joins them.
-- KEYS   one per check, no key twice; in Cluster all of one slot. No other key is touched.
-- ARGV   [1] the time in ms, 0 for Redis' own clock (only tests give another), then per check seven whole
--        numbers: algorithm (1 to 5), op (0 take, 1 peek, 2 give), limit, windowMs, burst, cost, delayMaxMs.
-- Reply  five whole numbers per check: allowed (1 or 0), remaining, resetMs, retryAfterMs, delayMs.
-- Cost   one GET per check, one SET with PX per counted check. No key is left without a TTL.
-- Errors WRONGTYPE where a key holds no string: nothing is counted then. A string that no algorithm wrote
--        counts as no state and is overwritten by the next counted hit.
local now = tonumber(ARGV[1])
-- Keys of tests outlive the test: its clock is not Redis'.
local linger = 600000
if now == 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
  linger = 0
end

local reply, ops, values, expiries = {}, {}, {}, {}
local refused = false
for at = 1, #KEYS do
  local arg = at * 7 - 5
  local op = tonumber(ARGV[arg + 1])
  local check = {
    op = op,
    limit = tonumber(ARGV[arg + 2]),
    window = tonumber(ARGV[arg + 3]),
    burst = tonumber(ARGV[arg + 4]),
    cost = tonumber(ARGV[arg + 5]),
    delay_max = tonumber(ARGV[arg + 6])
  }
  local value = redis.call('GET', KEYS[at]) or ''
  local allowed, remaining, reset, retry, delay, next_value, expiry =
    steps[tonumber(ARGV[arg])](value, check, now)
  if allowed == 0 then
    refused = true
    retry = math.max(1, math.ceil(retry))
  end
  local to = at * 5 - 4
  reply[to] = allowed
  reply[to + 1] = math.max(0, remaining)
  reply[to + 2] = reset
  reply[to + 3] = retry
  reply[to + 4] = delay
  ops[at] = op
  values[at] = next_value
  expiries[at] = expiry
end

for at = 1, #KEYS do
  if values[at] and (ops[at] == 2 or (ops[at] == 0 and not refused)) then
    local ttl = expiries[at] - now
    if ttl > 0 then
      redis.call('SET', KEYS[at], values[at], 'PX', string.format('%.0f', ttl + linger))
    else
      redis.call('DEL', KEYS[at])
    end
  end
end
return reply
