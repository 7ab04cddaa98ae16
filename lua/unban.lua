-- Lifts a ban. The ledger remembers when, so that neither old evidence nor a gate that has not heard of it
-- brings it back.
-- ARGV   [9] subject, [10] head of the audit entry
-- Reply  the lifted ban as JSON, '' where there was none
local subject = ARGV[9]
prepare()
local held = in_force(subject)
local entry = entry_of(subject)
entry[6] = now
keep_entry(subject, entry, now)
if not held then
  forget_ban(subject)
  return { '' }
end
remove(subject, now)
write(ARGV[10], held)
return { held }
