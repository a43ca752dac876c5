-- join: becomes a member. Creates the queue if there is none.
-- KEYS  1 meta 2 nodes 3 taken:NODE 4 queue 5 again 6 later 7 dead, then the other keys, the last are turns groups groups:paused purged:
--       the types of all are checked
-- ARGV  1 node 2 lanes 3 lease 4 how far it lets one look move the hive clock 5 key names 6 token of this join, and the birth id
--       of a new queue 7 seen seq 8 seen epoch 9 seen made 10 seen birth 11 its process (msgpack) 12 how groups are served (as in groups.lua) 13 the first
--       number of a new queue 14.. the types that the keys must have
-- Returns  ok and by name: birth purged, maybe rewound | taken (another node has this id) | older (to be adopted first) | members (of a shard that was left over: they are to leave first)
--          | other layout names (not ours) | type key found
-- The types of all keys are checked once, here: a script that found a wrong one after some writes could not take them back.
--+ common
--+ members
--+ rights
for i, key in ipairs(KEYS) do
  local found = redis.call('TYPE', key).ok
  if found ~= 'none' and found ~= ARGV[13 + i] then return {'type', key, found} end -- guard: key-types
end
lack = lacks('HSET', 'ZADD') -- guard: rights
if lack then return lack end
redis.call('HDEL', KEYS[1], '') -- guard: opener-join
local node, seen_seq, seen_epoch, seen_made = ARGV[1], tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9])
local FIELDS = {'birth', 'layout', 'names', 'clock', 'wall', 'seq', 'epoch', 'rewinds', 'skipped', 'step', 'steps', 'made', 'generator', 'crown'}
local m = redis.call('HMGET', KEYS[1], unpack(FIELDS))
if m[1] and tonumber(m[2]) > $LAYOUT then return {'other', m[2], m[3]} end -- guard: layout
if m[1] and m[3] ~= ARGV[5] and tonumber(m[2]) <= $LAYOUT then
  --+ shards
  local left_over, has_members = is_left_over(KEYS[1], KEYS[2], m[3], ARGV[5])
  if left_over and has_members then return {'members'} end
  if left_over or goes_on(ARGV[5], m[3]) then
    note_shards(KEYS[1], m[3], ARGV[5]) -- guard: reshard-note
    m = redis.call('HMGET', KEYS[1], unpack(FIELDS))
  end
end
if m[1] and m[3] ~= ARGV[5] then return {'other', m[2], m[3]} end -- guard: names

if m[1] and tonumber(m[2]) < $LAYOUT then return {'older'} end -- guard: layout-older

-- A late copy of a join does not bring back a node that was deposed meanwhile.
local known = redis.call('ZSCORE', KEYS[2], node)
known = known or redis.call('LPOS', KEYS[7], node) -- guard: join-dead
if known and redis.call('HGET', KEYS[3], 'token') ~= ARGV[6] then return {'taken'} end -- guard: join-token

local birth = m[1]
if not birth then
  birth = ARGV[6]
  local _, wall = hive(0, 0, 0)
  found_queue(KEYS[1], birth, ARGV[5], ARGV[4], wall, ARGV[13])
  m = {birth, $LAYOUT, ARGV[5], 0, wall, ARGV[13], 0, 0, ARGV[13], ARGV[4], '', 0}
end
local clock, wall = hive(m[4], m[5], m[10])
redis.call('HSET', KEYS[1], 'clock', num(clock), 'wall', num(wall))

-- What was seen of a queue that was removed says nothing about this one.
local gone, purged = redis.call('HMGET', KEYS[#KEYS], 'births', 'until'), false
if ARGV[10] ~= '' and ARGV[10] ~= birth and gone[1] and tonumber(gone[2]) > wall then
  purged = string.find(' ' .. gone[1] .. ' ', ' ' .. ARGV[10] .. ' ', 1, true) ~= nil -- guard: purged
end
if purged then seen_seq, seen_epoch, seen_made = 0, 0, 0 end

local rewound = seen_seq > tonumber(m[6]) or seen_epoch > tonumber(m[7])
rewound = rewound or seen_made > tonumber(m[12]) -- guard: rewind-made
local left, passed = false, false
if rewound then
  local reigns = m[13] and m[13] ~= '' and (tonumber(m[14] or '') or 0) > clock and seen_epoch <= tonumber(m[7])
  left, passed = leaves_hole(KEYS[1], reigns, tonumber(m[7]), tonumber(m[6]), seen_seq)
  if left then rewound = passed end
end
if left and passed then
  redis.call('HSET', KEYS[1], 'seq', num(seen_seq), 'rewinds', num(m[8] + 1), 'skipped', num(m[9] + seen_seq - m[6]))
elseif rewound then
  redis.call('HSET', KEYS[1], 'seq', num(math.max(seen_seq, m[6])), 'epoch', num(math.max(seen_epoch, m[7])), -- guard: rewind-join
    'made', num(math.max(seen_made, m[12])), 'generator', '', 'crown', '0', 'rewinds', num(m[8] + 1), -- guard: rewind-join
    'skipped', num(m[9] + math.max(seen_seq - m[6], 0))) -- guard: rewind-join
end

if not known then
  local own, pace = tonumber(ARGV[4]), tonumber(m[10])
  if m[11] == '' then pace = own end
  pace = math.min(pace, own) -- guard: step-join
  redis.call('HSET', KEYS[1], 'step', num(pace), 'steps', counted(m[11], own, 1))
  local fields = {'process', ARGV[11], 'joined', num(clock), 'token', ARGV[6], 'step', ARGV[4], 'suspects', '0 0'}
  for lane = 0, tonumber(ARGV[2]) - 1 do
    fields[#fields + 1] = 'lane:' .. num(lane)
    fields[#fields + 1] = cmsgpack.pack({0, 0, 0, 0, {}, {}})
  end
  redis.call('HSET', KEYS[3], unpack(fields))
  redis.call('ZADD', KEYS[2], num(clock + ARGV[3]), node)
  -- The last that joins says how groups are served. Whose turn it is stays as it is.
  local rules = tonumber(redis.call('HGET', KEYS[#KEYS - 3], '') or 4) or 4
  if rules - rules % 2 ~= tonumber(ARGV[12]) then redis.call('HSET', KEYS[#KEYS - 3], '', num(ARGV[12] + rules % 2)) end
end
local answer = {'ok', 'birth', birth, 'purged', purged and 1 or 0}
if rewound then
  answer[6], answer[7] = 'rewound', math.max(seen_seq - m[6], 0)
end
return answer
