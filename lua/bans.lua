-- What the operations on bans share; src/controls/ban-script.ts puts it first, then the files of the
-- operations (ban, unban, put-back, lift, bans-read), each as a function body, and then runs one of them.
-- KEYS   all of one slot:
--   [1] held    hash: a subject's key → its ban as JSON; `#epoch` and `#version` are its own
--   [2] ends    sorted set: subject by the end of its ban, ms
--   [3] order   sorted set: subject by class * CLASS + since: who gives way first
--   [4] ledger  hash: subject → `strikes,struckMs,watch,observe,enforce,pardonMs,madeMs`; and
--            `#epoch`. madeMs: when the last ban of any kind was made
--   [5] forget  sorted set: subject by when its entry is forgotten
--   [6] audit   stream, field `e`: an entry as JSON
-- ARGV   [1] operation, [2] the time in ms, 0 for Redis' own clock (only tests give another), [3] an epoch
--        for what has none yet, [4] channel, [5] most bans, [6] most ledger entries, [7] audit entries kept,
--        [8] memory in ms; from [9] on as the operation says
-- No key has a TTL, so that no volatile-* policy takes it for a counter; each is bounded by ARGV. Where a key
-- is lost nevertheless, sorted sets are rebuilt, and gates put back what they held (src/controls/follow.ts).
local call = redis.call
local HELD, ENDS, ORDER, LEDGER, FORGET, AUDIT = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local CLASS = 1e14
local OPERATOR = 3
local SWEEP = 20

local now = tonumber(ARGV[2])
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
local most, ledger_most, audit_most = tonumber(ARGV[5]), tonumber(ARGV[6]), tonumber(ARGV[7])
local memory = tonumber(ARGV[8])

local function whole(number)
  return string.format('%.0f', number)
end

local function forget_ban(subject)
  call('HDEL', HELD, subject)
  call('ZREM', ENDS, subject)
  call('ZREM', ORDER, subject)
end

local function rank_of(mode)
  return mode == 'enforce' and 2 or mode == 'observe' and 1 or 0
end

local function place(subject, ends, class, since)
  call('ZADD', ENDS, whole(ends), subject)
  call('ZADD', ORDER, whole(class * CLASS + since), subject)
end

-- Each key can be evicted by itself.
local function rebuild_order()
  call('DEL', ENDS, ORDER)
  local all = call('HGETALL', HELD)
  for at = 1, #all, 2 do
    if string.sub(all[at], 1, 1) ~= '#' then
      local ban = cjson.decode(all[at + 1])
      local class = rank_of(ban.mode) + (ban.strikes == 0 and OPERATOR or 0)
      place(all[at], ban.untilMs, class, ban.sinceMs)
    end
  end
end

local function rebuild_forget()
  call('DEL', FORGET)
  for _, subject in ipairs(call('HKEYS', LEDGER)) do
    if string.sub(subject, 1, 1) ~= '#' then
      call('ZADD', FORGET, whole(now + memory), subject)
    end
  end
end

-- Before anything is written.
local function prepare()
  if call('HEXISTS', HELD, '#epoch') == 0 then
    call('DEL', HELD, ENDS, ORDER)
    call('HSET', HELD, '#epoch', ARGV[3], '#version', '0')
  end
  if call('HEXISTS', LEDGER, '#epoch') == 0 then
    call('DEL', LEDGER, FORGET)
    call('HSET', LEDGER, '#epoch', ARGV[3])
  end
  local bans = call('HLEN', HELD) - 2
  if call('ZCARD', ENDS) ~= bans or call('ZCARD', ORDER) ~= bans then
    rebuild_order()
  end
  if call('ZCARD', FORGET) ~= call('HLEN', LEDGER) - 1 then
    rebuild_forget()
  end
end

local function sweep(limit)
  local ended = call('ZRANGEBYSCORE', ENDS, '-inf', whole(now), 'LIMIT', 0, limit)
  for _, subject in ipairs(ended) do
    forget_ban(subject)
  end
  local forgotten = call('ZRANGEBYSCORE', FORGET, '-inf', whole(now), 'LIMIT', 0, limit)
  for _, subject in ipairs(forgotten) do
    call('HDEL', LEDGER, subject)
    call('ZREM', FORGET, subject)
  end
  return #ended + #forgotten
end

-- Tells gates that follow; one that does not hear it polls.
local function tell(kind, what)
  local version = call('HINCRBY', HELD, '#version', 1)
  local message = '{"epoch":"' .. call('HGET', HELD, '#epoch') .. '","version":' .. whole(version)
    .. ',"kind":"' .. kind .. '",' .. what .. '}'
  redis.pcall('PUBLISH', ARGV[4], message)
end

local function remove(subject, lifted)
  forget_ban(subject)
  tell('removed', '"key":' .. cjson.encode(subject) .. ',"liftedMs":' .. whole(lifted))
end

local function write(head, ban)
  local entry = '{"timeMs":' .. whole(now) .. ',' .. head .. (ban and ',"ban":' .. ban or '') .. '}'
  call('XADD', AUDIT, 'MAXLEN', '~', audit_most, '*', 'e', entry)
end

local function entry_of(subject)
  local text = call('HGET', LEDGER, subject)
  local ends = text and call('ZSCORE', FORGET, subject)
  local entry = { 0, 0, 0, 0, 0, 0, 0 }
  if ends and tonumber(ends) > now then
    local at = 1
    for number in string.gmatch(text, '[^,]+') do
      entry[at] = tonumber(number) or 0
      at = at + 1
    end
  end
  return entry
end

local function keep_entry(subject, entry, ends)
  local parts = {}
  for at = 1, 7 do
    parts[at] = whole(entry[at])
  end
  call('HSET', LEDGER, subject, table.concat(parts, ','))
  call('ZADD', FORGET, whole(math.max(ends, now) + memory), subject)
  local over = call('HLEN', LEDGER) - 1 - ledger_most
  if over > 0 then
    for _, oldest in ipairs(call('ZRANGE', FORGET, 0, over - 1)) do
      call('HDEL', LEDGER, oldest)
      call('ZREM', FORGET, oldest)
    end
  end
end

-- The ban in force on a subject: its JSON, class, since and end; or nothing.
local function in_force(subject)
  local ban = call('HGET', HELD, subject)
  local ends = ban and tonumber(call('ZSCORE', ENDS, subject))
  if not ends or ends <= now then
    return nil
  end
  local order = tonumber(call('ZSCORE', ORDER, subject))
  local class = math.floor(order / CLASS)
  return ban, class, order - class * CLASS, ends
end

-- Whether there is room for one of this class, and who gave way for it.
local function make_room(class)
  if call('HLEN', HELD) - 2 < most or (sweep(SWEEP) > 0 and call('HLEN', HELD) - 2 < most) then
    return true
  end
  local least = call('ZRANGE', ORDER, 0, 0, 'WITHSCORES')
  if not least[1] or math.floor(tonumber(least[2]) / CLASS) >= class then
    return false
  end
  remove(least[1], 0)
  return true, least[1]
end

local function hold(subject, ban, about)
  call('HSET', HELD, subject, ban)
  place(subject, about.ends, about.class, about.since)
  tell('added', '"ban":' .. ban)
end

local operations = {}
