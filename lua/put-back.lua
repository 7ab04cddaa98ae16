-- Puts back a ban that a gate held and the book has lost.
-- ARGV   [9] subject, [10] the ban as JSON, [11] rank, [12] since, [13] until, [14] strikes, [15] last seen,
--        [16] head of the audit entry
-- Reply  `restored`; `held`: there is one on the subject; `lifted`, `ended`, `full`: it is over
local subject, ban, rank = ARGV[9], ARGV[10], tonumber(ARGV[11])
local since, ends, strikes = tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
prepare()
if ends <= now then
  return { 'ended' }
end
if in_force(subject) then
  return { 'held' }
end
local entry = entry_of(subject)
if entry[6] >= since then
  return { 'lifted' }
end
-- What replaced it is over by now.
if entry[7] > since then
  return { 'ended' }
end
entry[7] = since
local class = rank + (strikes == 0 and OPERATOR or 0)
if not make_room(class) then
  return { 'full' }
end
if rank > 0 and strikes > entry[1] then
  entry[1], entry[2] = strikes, math.max(entry[2], since)
end
entry[3 + rank] = math.max(entry[3 + rank], tonumber(ARGV[15]))
keep_entry(subject, entry, ends)
hold(subject, ban, { ends = ends, class = class, since = since })
write(ARGV[16], ban)
return { 'restored' }
