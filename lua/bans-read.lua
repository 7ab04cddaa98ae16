-- How the book stands, and a page of it; writes nothing, so that it answers from a Redis that is full, too.
-- ARGV   [9] cursor of the page, '' for none ('0' begins), [10] about how many bans
-- Reply  now, epoch of the bans ('' for none), version, epoch of the ledger, next cursor ('0' after the last
--        page), then bans as JSON. A ban that is there all the time is on some page; on several, perhaps.
local reply = {
  whole(now),
  call('HGET', HELD, '#epoch') or '',
  call('HGET', HELD, '#version') or '0',
  call('HGET', LEDGER, '#epoch') or '',
  '0',
}
if ARGV[9] ~= '' then
  local page = call('HSCAN', HELD, ARGV[9], 'COUNT', ARGV[10])
  reply[5] = page[1]
  for at = 1, #page[2], 2 do
    if string.sub(page[2][at], 1, 1) ~= '#' then
      reply[#reply + 1] = page[2][at + 1]
    end
  end
end
return reply
