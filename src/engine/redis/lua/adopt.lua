-- adopt: takes a queue over from an older program. Its members are deposed: they would misread what is stored from now on. At their
-- next join they are told that the layout is newer.
-- KEYS  1 meta 2 nodes 3 dead 4.. taken:NODE of every member
-- ARGV  1.. their names
-- Returns  1, or 0 (someone came or went meanwhile: look again)
--+ common
--+ members
local layout = redis.call('HGET', KEYS[1], 'layout')
if not layout or tonumber(layout) >= $LAYOUT then return 1 end
if redis.call('ZCARD', KEYS[2]) ~= #ARGV then return 0 end
for _, node in ipairs(ARGV) do
  if not redis.call('ZSCORE', KEYS[2], node) then return 0 end
end
-- Full memory refuses neither this nor what comes after it.
redis.call('HDEL', KEYS[1], 'steps')
for i, node in ipairs(ARGV) do depose(KEYS[1], KEYS[2], KEYS[3], KEYS[3 + i], node) end
redis.call('HSET', KEYS[1], 'layout', $LAYOUT, 'steps', '', 'clearing', '0', 'server', '', 'heard', '', 'waited', '0', 'waited_at', '0')
return 1
