-- beat: "I am alive". Advances the hive clock, renews the node's lease, and elects.
-- KEYS  1 meta 2 nodes 3 queue 4 again 5 dead 6 bell 7 crown 8 later 9 reigns 10 unheard
-- ARGV  1 node 2 lease 3 crown's lease 4 rank (0: not to be crowned, a generator resigns) 5 seen seq 6 seen epoch
--       7 seen made 8 server 9 the last epoch in which its process reigned (0: none)
-- Returns  ok and by name: generator epoch seq made grain due_in_ms crown_in_ms heir wall_ms more_due rewound paused, maybe victim
--          cursor and made_before | deposed
-- Begins with a write that does nothing: when memory is full, Redis refuses the first write of a script, but not HDEL, and
-- after that none of the later ones. Without it a full Redis would depose the whole fleet.
--+ common
--+ members
redis.call('HDEL', KEYS[1], '') -- guard: opener-beat
local node = ARGV[1]
if not redis.call('ZSCORE', KEYS[2], node) then return {'deposed'} end -- guard: beat-member
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step', 'generator', 'epoch', 'crown', 'heirs', 'seq', 'made',
  'due', 'grain', 'rewinds', 'skipped', 'paused', 'chosen', 'rank', 'ruled', 'steps', 'server')
if not m[1] then return {'deposed'} end
local clock, wall = hive(m[1], m[2], m[3])
local generator, epoch, crown, heirs, seq = m[4], tonumber(m[5]), tonumber(m[6]), m[7], tonumber(m[8])

local made = tonumber(m[9])
local rewound = tonumber(ARGV[5]) > seq or tonumber(ARGV[6]) > epoch
rewound = rewound or tonumber(ARGV[7]) > made -- guard: rewind-made
if rewound then
  redis.call('HSET', KEYS[1], 'skipped', num(m[13] + math.max(ARGV[5] - seq, 0))) -- guard: rewind-beat
  seq, epoch = math.max(seq, ARGV[5]), math.max(epoch, ARGV[6]) -- guard: rewind-beat
  generator, crown, made = '', 0, math.max(made, ARGV[7]) -- guard: rewind-beat
  redis.call('HSET', KEYS[1], 'rewinds', num(m[12] + 1))
end

redis.call('ZADD', KEYS[2], num(clock + ARGV[2]), node)
notice_server(KEYS[1], KEYS[2], KEYS[10], m[19], ARGV[8], wall)
redis.call('LREM', KEYS[10], 0, node)
local mine, chosen, reigning, rank = generator == node, m[15], tonumber(m[16]), tonumber(ARGV[4])
local may = crown <= clock
local called = false
called = chosen == node or chosen == '*' -- guard: chosen
may = may or called
may = may or rank > reigning -- guard: rank
if not mine and rank > 0 and may then
  -- A node that was chosen takes the crown also from a generator of a higher rank.
  if not called then reigning = rank end
  mine, generator, epoch, chosen, reigning = true, node, epoch + 1, '', math.max(reigning, rank)
  redis.call('LPUSH', KEYS[9], cmsgpack.pack({epoch, node, wall, tonumber(m[17]), made}))
  redis.call('LTRIM', KEYS[9], 0, $REIGNS_MAX - 1)
end
if mine and rank == 0 then
  mine, generator, crown = false, '', 0
  ring(KEYS[7])
end
if mine then crown = clock + ARGV[3] end

-- A pause of Redis must end no lease that is in use: the crown's of this generator, and those of all members. One that is not in
-- use slows nothing down.
local pace, least = m[3], tonumber(string.match(m[18], '^%d+') or m[3])
if crown <= clock then pace = num(least) end -- guard: step-vacant
if mine then pace = num(math.min(least, math.floor(ARGV[3] / 2))) end -- guard: step-crown

local heir = string.find(' ' .. heirs .. ' ', ' ' .. node .. ' ', 1, true) ~= nil
if heir and (mine or rank == 0) then
  heirs, heir = without(heirs, node), false
elseif not heir and not mine and rank > 0 then
  local _, count = string.gsub(heirs, '%S+', '')
  if count < $HEIRS_MAX then heirs, heir = count == 0 and node or heirs .. ' ' .. node, true end
end
redis.call('HSET', KEYS[1], 'clock', num(clock), 'wall', num(wall), 'step', pace, 'generator', generator, 'epoch', num(epoch),
  'crown', num(crown), 'heirs', heirs, 'seq', num(seq), 'made', num(made), 'chosen', chosen, 'rank', num(reigning), 'ruled', mine and num(wall) or m[17])

-- The generator keeps house: it moves what is due, rings for work that waits and names a node to reap. While there is no
-- generator, every member that beats does so.
local keeps, victim, more = mine, nil, 0
keeps = keeps or crown <= clock -- guard: vacant
if keeps then
  -- Messages that are due go back to be taken, a bounded number a beat. They are read one by one: how long an element of a
  -- sorted set is, no command tells.
  local now, due, bytes = '+inf', {}, 0
  now = num(wall) -- guard: due
  local count = redis.call('ZCOUNT', KEYS[8], '-inf', now)
  more = 1
  while #due < $DUE_MAX and bytes < $DUE_BYTES_MAX do
    if #due == count then more = 0; break end
    local entry = redis.call('ZRANGE', KEYS[8], #due, #due)[1]
    due[#due + 1] = string.sub(entry, 9)
    bytes = bytes + #due[#due]
  end
  if #due > 0 then
    redis.call('ZREMRANGEBYRANK', KEYS[8], 0, #due - 1)
    redis.call('RPUSH', KEYS[4], unpack(due))
    redis.call('HSET', KEYS[1], 'again', '1', 'shortcut', '')
  end
  local waits = m[14] < '2' and redis.call('LLEN', KEYS[3]) + redis.call('LLEN', KEYS[4]) > 0
  if waits then ring(KEYS[6]) end -- guard: second-bell
  victim = redis.call('LINDEX', KEYS[5], 0)
  if not victim then
    local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    victim = tonumber(first[2]) <= clock and first[1]
  end
end
local answer = {'ok', 'generator', mine and 1 or 0, 'epoch', epoch, 'seq', seq, 'made', made, 'grain', m[11],
  'due_in_ms', math.max(m[10] - clock, 0), 'crown_in_ms', math.max(crown - clock, 0), 'heir', heir and 1 or 0, 'wall_ms', wall,
  'more_due', more, 'rewound', rewound and 1 or 0, 'paused', m[14]}
local function tell(name, value)
  answer[#answer + 1] = name
  answer[#answer + 1] = value
end
if victim then tell('victim', victim) end
-- A generator is given the cursor until its beats show that it has seen this reign.
if mine and tonumber(ARGV[6]) < epoch then
  tell('cursor', redis.call('HGET', KEYS[1], 'cursor') or '')
  -- And how many messages had been made when another reign followed the last one of its process: so it knows what arrived. If
  -- that reign itself is forgotten, so may be the one that followed it.
  local reigned, followed, is_known = tonumber(ARGV[9]), nil, false
  for _, record in ipairs(redis.call('LRANGE', KEYS[9], 0, -1)) do
    local reign = cmsgpack.unpack(record)
    if reign[1] <= reigned then is_known = true; break end
    followed = reign[5] or 0
  end
  if reigned > 0 and is_known and followed then tell('made_before', followed) end -- guard: made-before
end
return answer
