-- Remembers anew that an operator has lifted a ban, where the book has lost that.
-- ARGV   [9] subject, [10] when, ms
-- Reply  1 where a ban from before that was put back meanwhile and goes now, else 0
local subject, lifted = ARGV[9], tonumber(ARGV[10])
prepare()
local entry = entry_of(subject)
entry[6] = math.max(entry[6], lifted)
keep_entry(subject, entry, now)
local held, _, since = in_force(subject)
if not held or since > lifted then
  return { 0 }
end
remove(subject, lifted)
return { 1 }
