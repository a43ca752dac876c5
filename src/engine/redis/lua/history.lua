-- history: sums over time, and the last reigns. Writes nothing.
-- KEYS  1 meta 2 history 3 reigns
-- ARGV  1 ring 2 number of its steps
-- Returns  ok and by name: now_ms, ruled_ms (last beat of a generator), reigns, slots | none
--+ common
local m = redis.call('HMGET', KEYS[1], 'birth', 'ruled')
if not m[1] then return {'none'} end
local _, wall = hive(0, 0, 0)
local fields, slots = {}, {}
for slot = 0, ARGV[2] - 1 do fields[slot + 1] = ARGV[1] .. ':' .. num(slot) end
-- What someone else put there is no history.
for _, slot in ipairs(redis.pcall('HMGET', KEYS[2], unpack(fields))) do
  if slot then slots[#slots + 1] = slot end
end
local reigns = redis.pcall('LRANGE', KEYS[3], 0, -1)
return {'ok', 'now_ms', wall, 'ruled_ms', tonumber(m[2]) or 0, 'reigns', reigns.err and {} or reigns, 'slots', slots}
