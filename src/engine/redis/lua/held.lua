-- held: what a node has in hand, the smallest numbers first. Writes nothing.
-- KEYS  1 taken:NODE 2 bodies
-- ARGV  1 most
-- Returns  of each piece, by name: first count attempt failures published_ms start (of the first payload)
--+ common
--+ packs
local firsts, fields = {}, {}
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  local first = tonumber(field)
  if string.sub(field, 1, 5) == 'pack:' then first = select(6, head(redis.call('HGET', KEYS[1], field))) end
  if first then firsts[#firsts + 1], fields[first] = first, field end
end
table.sort(firsts)
local held = {}
for i = 1, math.min(#firsts, tonumber(ARGV[1])) do
  local pack = redis.call('HGET', KEYS[1], fields[firsts[i]])
  pack = whole(KEYS[2], pack) or pack
  local _, flags, attempt, failures, _, first, _, published, count = head(pack)
  local from, to = 1, 0
  if flags == 0 then from, to = offset(pack, count, 0), offset(pack, count, 1) - 1 end
  local start = string.sub(pack, from, math.min(to, from + $HELD_START_BYTES - 1))
  held[i] = {'first', first, 'count', count, 'attempt', attempt, 'failures', failures, 'published_ms', published, 'start', start}
end
return held
