-- Asks and counts all checks of one request, all or nothing: when one is refused, none is counted (`give`
-- always is), and a refused one is never written. lua/prelude.lua and the five algorithm files stand before
-- this text, these as `steps[1]` to `steps[5]`; src/redis/scripts.ts joins them.
-- KEYS   one per check, no key twice; in Cluster all of one slot. No other key is touched.
-- ARGV   [1] the time in ms, 0 for Redis' own clock (only tests give another), then per check seven whole
--        numbers: algorithm (1 to 5), op, limit, windowMs, burst, cost, delayMaxMs. op: 0 take, 1 peek,
--        2 give, 3 forget (the key goes, whatever it holds; `remaining` is 1 where there was one).
-- Reply  five whole numbers per check: allowed (1 or 0), remaining, resetMs, retryAfterMs, delayMs.
-- Cost   one GET per check, one SET with PX per counted check. No key is left without a TTL.
-- Errors WRONGTYPE where a key holds no string: nothing is counted then. A string that no algorithm wrote
--        counts as no state and is overwritten by the next counted hit.
local now = tonumber(ARGV[1])
-- Keys of tests outlive the test: its clock is not Redis'.
local linger = 600000
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
  linger = 0
end

local reply, values, expiries = {}, {}, {}
local refused, gives = false, false
local arg, to = 2, 1
for at = 1, #KEYS do
  local op = tonumber(ARGV[arg + 1])
  local allowed, remaining, reset, retry, delay, value, expiry
  if op == 3 then
    allowed, remaining, reset, retry, delay = 1, call('DEL', KEYS[at]), 0, 0, 0
  else
    allowed, remaining, reset, retry, delay, value, expiry = steps[tonumber(ARGV[arg])](
      call('GET', KEYS[at]) or '', op, tonumber(ARGV[arg + 2]), tonumber(ARGV[arg + 3]),
      tonumber(ARGV[arg + 4]), tonumber(ARGV[arg + 5]), tonumber(ARGV[arg + 6]), now)
  end
  if allowed == 0 then
    refused = true
    retry = max(1, ceil(retry))
  end
  reply[to], reply[to + 1], reply[to + 2] = allowed, max(0, remaining), reset
  reply[to + 3], reply[to + 4] = retry, delay
  if op == 1 then
    value = nil
  elseif op == 2 then
    gives = true
  end
  values[at], expiries[at] = value, expiry
  arg, to = arg + 7, to + 5
end

if refused and not gives then
  return reply
end
for at = 1, #KEYS do
  local value = values[at]
  if value and (not refused or ARGV[at * 7 - 4] == '2') then
    local ttl = expiries[at] - now
    if ttl > 0 then
      call('SET', KEYS[at], value, 'PX', ttl + linger)
    else
      call('DEL', KEYS[at])
    end
  end
end
return reply
