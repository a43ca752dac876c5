-- join: becomes a member. Creates the queue if there is none.
-- KEYS  1 meta 2 nodes 3 taken:NODE 4 queue 5 again 6 later 7 dead, then the other keys: the types of all are checked
-- ARGV  1 node 2 lanes 3 lease 4 step 5 key names 6 birth id for a new queue 7 seen seq 8 seen epoch 9 its process (msgpack)
--       10.. the types that the keys must have
-- Returns  ok and by name: birth rewound | other layout names (not ours) | type key found
-- The types of all keys are checked once, here: a script that found a wrong one after some writes could not take them back.
--+ common
--+ members
for i, key in ipairs(KEYS) do
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= ARGV[9 + i] then return {'type', key, found} end -- guard: key-types
end
redis.call('HDEL', KEYS[1], '') -- guard: opener-join
local node, seen_seq, seen_epoch = ARGV[1], tonumber(ARGV[7]), tonumber(ARGV[8])
local m = redis.call('HMGET', KEYS[1], 'birth', 'layout', 'names', 'clock', 'wall', 'seq', 'epoch', 'rewinds', 'skipped')
if m[1] and tonumber(m[2]) > $LAYOUT then return {'other', m[2], m[3]} end -- guard: layout
if m[1] and m[3] ~= ARGV[5] then return {'other', m[2], m[3]} end -- guard: names

local birth = m[1]
if not birth then
  birth = ARGV[6]
  local _, wall = hive(0, 0, 0)
  found_queue(KEYS[1], birth, ARGV[5], ARGV[4], wall)
  m = {birth, $LAYOUT, ARGV[5], 0, wall, 0, 0, 0, 0}
end
local clock, wall = hive(m[4], m[5], ARGV[4])
redis.call('HSET', KEYS[1], 'clock', num(clock), 'wall', num(wall), 'step', ARGV[4])

local rewound = seen_seq > tonumber(m[6]) or seen_epoch > tonumber(m[7])
if rewound then
  redis.call('HSET', KEYS[1], 'seq', num(math.max(seen_seq, m[6])), 'epoch', num(math.max(seen_epoch, m[7])), -- guard: rewind-join
    'generator', '', 'crown', '0', 'rewinds', num(m[8] + 1), 'skipped', num(m[9] + math.max(seen_seq - m[6], 0))) -- guard: rewind-join
end

-- A late copy of a join does not bring back a node that was deposed meanwhile.
local known = redis.call('ZSCORE', KEYS[2], node)
known = known or redis.call('LPOS', KEYS[7], node) -- guard: join-dead
if not known then
  local fields = {'process', ARGV[9], 'joined', num(clock), 'suspects', '0 0'}
  for lane = 0, tonumber(ARGV[2]) - 1 do
    fields[#fields + 1] = 'lane:' .. num(lane)
    fields[#fields + 1] = cmsgpack.pack({0, 0, 0, 0, {}, {}})
  end
  redis.call('HSET', KEYS[3], unpack(fields))
  redis.call('ZADD', KEYS[2], num(clock + ARGV[3]), node)
end
return {'ok', 'birth', birth, 'rewound', rewound and 1 or 0}
