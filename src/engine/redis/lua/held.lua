-- held: what a node has in hand, the smallest numbers first. Writes nothing.
-- KEYS  1 taken:NODE 2 bodies
-- ARGV  1 most, then the fields of pieces: all that are named after a lane, and as many others as are wanted
-- Returns  of each piece, by name: first count deliveries failures published_ms start (of the first payload)
-- The fields are found by a plain command before this: a node may hold very many. What was settled meanwhile is left out.
--+ common
--+ packs
local firsts, fields, bytes, held = {}, {}, 0, {}
for i = 2, #ARGV do
  local first, pack = tonumber(ARGV[i]), nil
  if not first then
    pack = redis.call('HGET', KEYS[1], ARGV[i])
    first = pack and select(2, sound(pack))
  end
  if first then firsts[#firsts + 1], fields[first] = first, ARGV[i] end
end
table.sort(firsts)
for i = 1, math.min(#firsts, tonumber(ARGV[1])) do
  local length, field = redis.call('HSTRLEN', KEYS[1], fields[firsts[i]]), fields[firsts[i]]
  if #held > 0 and bytes + length > $COLLECT_BYTES_MAX then break end
  local pack = redis.call('HGET', KEYS[1], field)
  if pack and sound(pack) then
    bytes = bytes + size(pack)
    if #held > 0 and bytes > $COLLECT_BYTES_MAX then break end
    pack = whole(KEYS[2], pack) or pack
    local _, flags, deliveries, failures, _, first, _, published, count = head(pack)
    local from, to = 1, 0
    if flags == 0 then from, to = offset(pack, count, 0), offset(pack, count, 1) - 1 end
    if string.byte(pack) == 2 then from = inside(pack, from) end
    local start = string.sub(pack, from, math.min(to, from + $HELD_START_BYTES - 1))
    held[#held + 1] = {'first', first, 'count', count, 'deliveries', deliveries, 'failures', failures, 'published_ms', published,
      'start', start}
  end
end
return held
