-- leave: ends a membership in good order. What the node still holds is handed on by reap; the crown is free at once.
-- KEYS  1 meta 2 nodes 3 dead 4 taken:NODE 5 crown 6 damaged
-- ARGV  1 node
-- Returns  1, or 0 if it was no member
-- Its first write is depose's ZREM, which Redis does not refuse when memory is full.
--+ common
--+ aside
--+ members
--+ rights
--+ foreign
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end
lack = lacks('HDEL', 'HSET', 'RPUSH', 'LREM', 'DEL') -- guard: rights
lack = lack or foreign({[3] = 'list'}) -- guard: foreign
if lack then return lack end
local held, ruled = depose(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], KEYS[6])
if held == 0 then
  redis.call('LREM', KEYS[3], 0, ARGV[1])
  redis.call('DEL', KEYS[4])
end
if ruled then
  ring(KEYS[5])
  redis.pcall('PUBLISH', KEYS[5], '1')
end
return 1
