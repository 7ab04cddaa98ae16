-- What the algorithm files and check-all.lua use; src/redis/scripts.ts puts it first. Short names: a script
-- runs once a request, and each look into a global table counts.
-- An algorithm is a function body with these arguments:
--   value      the state as last written, '' where there is none
--   op         0 take, 1 peek (reckoned like a take, never written), 2 give
--   limit, window, burst, cost, delay_max  of the check, whole numbers, times in ms
--   clock      now, in ms
-- It returns allowed (1 or 0), remaining, reset, retry, delay, and where there is something to write the
-- next state and the time from which that is worth nothing. Remaining may be below 0 and retry a fraction.
local call = redis.call
local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local byte, sub, rep = string.byte, string.sub, string.rep
local pack, unpack = struct.pack, struct.unpack
local steps = {}
