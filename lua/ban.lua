-- Asks for one ban: the twin of src/controls/judge-ask.ts.
-- ARGV   [9] subject, [10] rank (0 watch, 1 observe, 2 enforce), [11] duration in ms, 0 from a detector,
--        [12] first and [13] last seen (the evidence's, ms; 0 for now), [14] base, [15] factor, [16] longest,
--        [17] the ban's JSON up to its times, [18] the rest of it, [19] head of the audit entry
-- Reply  result, the ban in force as JSON ('' for none), whoever gave way ('' for nobody)
local subject, rank, duration = ARGV[9], tonumber(ARGV[10]), tonumber(ARGV[11])
local first, last = tonumber(ARGV[12]), tonumber(ARGV[13])
prepare()
sweep(SWEEP)
local entry = entry_of(subject)
local held, held_class = in_force(subject)
local held_rank = held and held_class % OPERATOR
local strikes, ends = 0, now + duration
if duration == 0 then
  if last == 0 then
    first, last = now, now
  end
  local seen = 0
  for at = 3 + rank, 5 do
    seen = math.max(seen, entry[at])
  end
  if last <= seen then
    keep_entry(subject, entry, now)
    return { 'same', held or '', '' }
  end
  local pardon = entry[6]
  entry[3 + rank] = last
  if held and held_class >= rank then
    keep_entry(subject, entry, now)
    return { 'same', held, '' }
  end
  if first < pardon then
    keep_entry(subject, entry, now)
    return { 'pardoned', held or '', '' }
  end
  local before = entry[2] + memory > now and entry[1] or 0
  local counts = rank > 0 and (not held or held_rank == 0) and 1 or 0
  strikes = math.max(1, before + counts)
  local base, factor, longest = tonumber(ARGV[14]), tonumber(ARGV[15]), tonumber(ARGV[16])
  ends = now + math.floor(math.min(longest, base * factor ^ (strikes - 1)) + 0.5)
  if rank > 0 then
    entry[1], entry[2] = strikes, now
  end
end
local class = rank + (strikes == 0 and OPERATOR or 0)
local gave_way = ''
if not held then
  local room, gone = make_room(class)
  if not room then
    return { 'full', '', '' }
  end
  gave_way = gone or ''
end
entry[7] = now
keep_entry(subject, entry, ends)
local ban = ARGV[17] .. ',"sinceMs":' .. whole(now) .. ',"untilMs":' .. whole(ends) .. ',"strikes":'
  .. whole(strikes) .. ARGV[18]
hold(subject, ban, { ends = ends, class = class, since = now })
write(ARGV[19], ban)
return { held and 'replaced' or 'made', ban, gave_way }
