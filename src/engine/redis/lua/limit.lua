-- limit: sets how fast messages may be taken.
-- KEYS  1 meta 2 bell
-- ARGV  1 messages (0: no limit) 2 in so many milliseconds 3 how many at once 4 messages of each group (0: no limit) 5 in so many milliseconds
-- Returns  ok | none
--+ common
--+ limits
redis.call('HDEL', KEYS[1], '') -- guard: opener-pause
local m = redis.call('HMGET', KEYS[1], 'birth', 'limit', 'paused')
if not m[1] then return {'none'} end
local _, wall = hive(0, 0, 0)
local before, l = limit_read(m[2], wall), {}
for i = 1, 5 do l[i] = tonumber(ARGV[i]) end
local same = before ~= nil
for i = 1, 5 do same = same and before[i] == l[i] end
if same then return {'ok'} end
for i = 6, 10 do l[i] = before and before[i] or 0 end
l[7] = wall
-- Whoever rests by the old limit is called by the new one.
if before and before[4] > 0 then l[6] = l[6] + math.ceil(limit_apart(before) / $MS_US) end
local messages = l[3]
if before and before[1] > 0 then messages = math.min(math.floor(before[8] / before[2]), l[3]) end
l[8] = l[1] > 0 and messages * l[2] or 0
local bits = tonumber(m[3])
bits = bits - 4 * (math.floor(bits / 4) % 2)
if l[1] > 0 or l[4] > 0 or l[10] == 1 then
  redis.call('HSET', KEYS[1], 'limit', limit_text(l), 'paused', num(bits + 4), 'shortcut', '')
else
  redis.call('HDEL', KEYS[1], 'limit')
  redis.call('HSET', KEYS[1], 'paused', num(bits))
end
ring(KEYS[2]) -- guard: limit-bell
return {'ok'}
