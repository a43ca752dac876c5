-- discard: removes errors for good.
-- KEYS  1 errors 2 errors:records
-- ARGV  the numbers
-- Returns  those that were there
--+ common
--+ rights
--+ foreign
lack = lacks('HDEL') -- guard: rights
lack = lack or foreign({'zset', 'hash'}) -- guard: foreign
if lack then return lack end
local found = {}
for i = 1, #ARGV do
  if redis.call('ZREM', KEYS[1], ARGV[i]) == 1 then
    redis.call('HDEL', KEYS[2], ARGV[i])
    found[#found + 1] = tonumber(ARGV[i])
  end
end
return found
