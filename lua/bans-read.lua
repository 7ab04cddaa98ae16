-- How the book stands; writes nothing, so that it answers from a Redis that is full, too.
-- ARGV   [9] 1 for all bans, 0 without them
-- Reply  now, epoch of the bans ('' for none), version, epoch of the ledger, then bans as JSON
local reply = {
  whole(now),
  call('HGET', HELD, '#epoch') or '',
  call('HGET', HELD, '#version') or '0',
  call('HGET', LEDGER, '#epoch') or '',
}
if ARGV[9] == '1' then
  local all = call('HGETALL', HELD)
  for at = 1, #all, 2 do
    if string.sub(all[at], 1, 1) ~= '#' then
      reply[#reply + 1] = all[at + 1]
    end
  end
end
return reply
