-- beat: "I am alive". Advances the hive clock, renews the node's lease, and elects.
-- KEYS  1 meta 2 nodes 3 queue 4 again 5 dead 6 bell 7 crown 8 later 9 reigns 10 unheard 11 damaged, then all keys of the queue, the
--       last ones resting lines ready turns groups groups:paused purged
-- ARGV  1 node 2 lease 3 crown's lease 4 rank (0: not to be crowned, a generator resigns) 5 seen seq 6 seen epoch
--       7 seen made 8 server 9 the last epoch in which its process reigned (0: none) 10 as generator it keeps what replicas may lack, below this number
--       (or nothing)
--       11 a generator whose connection it has seen and sees no more (or nothing) 12 the channels of nodes without their ids
--       13 the epoch with which it claims a shard in which nobody is elected (0: none) 14 key names and shards 15.. the types that the keys from 12 on must have
-- For nearly all beats renew.lua will do: those of handlers under a generator, which renew a lease and move the clock.
-- Returns  ok and by name: generator epoch seq made grain due_in_ms crown_in_ms heir before crowned wall_ms more_due paused, maybe rewound victim
--          cursor, made_before, damaged, cancels, resharded (names and shards, if there was a reshard that the node does not know of) and wrong (a key of another type) | deposed
-- Begins with a write that does nothing: when memory is full, Redis refuses the first write of a script, but not HDEL, and
-- after that none of the later ones. Without it a full Redis would depose the whole fleet.
--+ common
--+ members
--+ rights
--+ alive
redis.call('HDEL', KEYS[1], '') -- guard: opener-beat
local node = ARGV[1]
if not redis.call('ZSCORE', KEYS[2], node) then return {'deposed'} end -- guard: beat-member
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step', 'generator', 'epoch', 'crown', 'heirs', 'seq', 'made',
  'due', 'grain', 'rewinds', 'skipped', 'paused', 'chosen', 'rank', 'ruled', 'steps', 'server', 'head', 'done', 'failed', 'requeued',
  'trimmed', 'damaged', 'again', 'heard', 'names')
if not m[1] then return {'deposed'} end
-- Fields that someone has changed into no numbers. What the queue cannot do without must be set right by hand. Hints and counts
-- begin anew: what is missing from the counts shows in `status`.
local function is_whole(text)
  local n = tonumber(text or '')
  return n and n >= 0 and n <= $COUNTER_MAX + 1 and n == math.floor(n)
end
if not (is_whole(m[1]) and is_whole(m[5]) and is_whole(m[8]) and is_whole(m[9])) then
  for i, field in pairs({[1] = 'clock', [5] = 'epoch', [8] = 'seq', [9] = 'made'}) do
    if not is_whole(m[i]) then
      return redis.error_reply('ERR queenright: the field ' .. field .. ' of ' .. KEYS[1] .. ' is no number: set it right')
    end
  end
end
-- They are looked at by who keeps house, and by all while the crown is no number. Others that meet one wait for that.
local looks = m[4] == node or not is_whole(m[6]) or tonumber(m[6]) <= tonumber(m[1])
lack = lacks('HSET', 'ZADD', 'ZINCRBY', 'ZREMRANGEBYRANK', 'RPUSH', 'LPUSH', 'LTRIM', 'LREM', 'DEL') -- guard: rights
if lack then return lack end
local OTHERS = looks and {[2] = 'wall', [3] = 'step', [6] = 'crown', [10] = 'due', [11] = 'grain', [12] = 'rewinds', [13] = 'skipped',
  [14] = 'paused', [16] = 'rank', [17] = 'ruled', [20] = 'head', [21] = 'done', [22] = 'failed', [23] = 'requeued', [24] = 'trimmed'}
for i, field in pairs(OTHERS or {}) do
  if not is_whole(m[i]) or (field == 'grain' and tonumber(m[i]) < 1) then
    --+ aside
    set_aside(KEYS[1], KEYS[11], field, m[i] or '')
    m[i] = field == 'grain' and '$GRAIN_START' or field == 'step' and ARGV[3] or '0'
    redis.call('HSET', KEYS[1], field, m[i])
  end
end
local clock, wall = hive(m[1], m[2], m[3])
local generator, epoch, crown, heirs, seq = m[4], tonumber(m[5]), tonumber(m[6]), m[7], tonumber(m[8])

local made, resharded = tonumber(m[9]), false
if m[28] and m[28] ~= ARGV[14] then
  --+ shards
  if goes_on(ARGV[14], m[28]) then
    note_shards(KEYS[1], m[28], ARGV[14]) -- guard: reshard-note
    local now = redis.call('HMGET', KEYS[1], 'generator', 'crown')
    generator, crown = now[1], tonumber(now[2])
  end
  resharded = goes_on(m[28], ARGV[14]) and m[28]
end
local rewound = tonumber(ARGV[5]) > seq or tonumber(ARGV[6]) > epoch
rewound = rewound or tonumber(ARGV[7]) > made -- guard: rewind-made
local left, passed = false, false
if rewound then
  local reigns = generator ~= '' and generator ~= node and crown > clock and tonumber(ARGV[6]) <= epoch
  left, passed = leaves_hole(KEYS[1], reigns, epoch, seq, tonumber(ARGV[5]))
  if left then rewound = passed end
end
if left and passed then
  redis.call('HSET', KEYS[1], 'skipped', num(m[13] + ARGV[5] - seq), 'rewinds', num(m[12] + 1))
  seq = tonumber(ARGV[5])
elseif rewound then
  redis.call('HSET', KEYS[1], 'skipped', num(m[13] + math.max(ARGV[5] - seq, 0))) -- guard: rewind-beat
  seq, epoch = math.max(seq, ARGV[5]), math.max(epoch, ARGV[6]) -- guard: rewind-beat
  generator, crown, made = '', 0, math.max(made, ARGV[7]) -- guard: rewind-beat
  redis.call('HSET', KEYS[1], 'rewinds', num(m[12] + 1))
end

redis.call('ZADD', KEYS[2], num(clock + ARGV[2]), node)
notice_server(KEYS[1], KEYS[2], KEYS[10], m[19] or '', ARGV[8], wall)
local spoke = redis.pcall('LREM', KEYS[10], 0, node)
-- The first word of a generator to a server that may lack its last messages: what it publishes again keeps its numbers, and whoever
-- pushes, which waits for this word, gets those behind them.
if generator == node and ARGV[10] ~= '' and type(spoke) == 'number' and spoke > 0 then
  left, passed = leaves_hole(KEYS[1], true, epoch, seq, tonumber(ARGV[10])) -- guard: hole-front
  if left and passed then
    redis.call('HSET', KEYS[1], 'skipped', num(m[13] + ARGV[10] - seq), 'rewinds', num(m[12] + 1))
    seq, rewound = tonumber(ARGV[10]), true
  end
end
local mine, chosen, reigning, rank = generator == node, m[15], tonumber(m[16]), tonumber(ARGV[4])
-- Who does not know all shards is not crowned: what others have published there would be published again.
if resharded then rank = 0 end -- guard: reshard-crown
local may = crown <= clock
local called = false
called = chosen == node or chosen == '*' -- guard: chosen
may = may or called
may = may or rank > reigning -- guard: rank
-- The connection of a generator that dies is closed at once. That its own was is told by who saw it before; here it is looked at again.
local gone = ARGV[11] ~= ''
if ARGV[11] ~= generator then gone = false end -- guard: gone-generator
if gone and is_connected(ARGV[12] .. generator) then gone = false end -- guard: gone-look
may = may or gone -- guard: gone
may = may and not mine
-- A shard takes a claim that is higher than all before; or the last one, if whoever had that is a member no more.
local claims = tonumber(ARGV[13])
if claims > 0 then
  may = true
  may = claims > epoch or (claims == epoch and generator == '') -- guard: claim-higher
  -- Who has lost a claim joins again first: calls that were sent under this id before the store went back must not count.
  if claims == tonumber(ARGV[9]) then may = false end -- guard: claim-once
end
if rank > 0 and may then
  -- A node that was chosen takes the crown also from a generator of a higher rank.
  if not called then reigning = rank end
  mine, generator, chosen, reigning = true, node, '', math.max(reigning, rank)
  epoch = claims > 0 and claims or epoch + 1
  redis.pcall('LPUSH', KEYS[9], cmsgpack.pack({epoch, node, wall, tonumber(m[17]), made}))
  redis.pcall('LTRIM', KEYS[9], 0, $REIGNS_MAX - 1)
  -- What another reign has published, this one cannot publish again.
  redis.call('HDEL', KEYS[1], 'hole') -- guard: hole-reign
  if ARGV[10] ~= '' then redis.call('HSET', KEYS[1], 'replays', num(epoch)) else redis.call('HDEL', KEYS[1], 'replays') end
end
if mine and rank == 0 then
  mine, generator, crown = false, '', 0
  ring(KEYS[7])
  redis.pcall('PUBLISH', KEYS[7], '1')
end
if mine then crown = clock + ARGV[3] end
-- All have spoken to this server: the first publish need not ask hear.lua, which takes two round trips.
if mine and ARGV[8] ~= '' and m[27] ~= ARGV[8] then
  local all = true
  all = redis.pcall('LLEN', KEYS[10]) == 0 -- guard: heard-beat
  if all then redis.call('HSET', KEYS[1], 'heard', ARGV[8]) end
end

-- A pause of Redis must end no lease that is in use: the crown's of this generator, and those of all members. One that is not in
-- use slows nothing down.
local pace, least = m[3], tonumber(string.match(m[18] or '', '^%d+') or m[3])
if crown <= clock then pace = num(least) end -- guard: step-vacant
if mine then pace = num(math.min(least, math.floor(ARGV[3] / 2))) end -- guard: step-crown

heirs, chosen = heirs or '', chosen or ''
local heir = string.find(' ' .. heirs .. ' ', ' ' .. node .. ' ', 1, true) ~= nil
if heir and (mine or rank == 0) then
  heirs, heir = without(heirs, node), false
elseif not heir and not mine and rank > 0 then
  local _, count = string.gsub(heirs, '%S+', '')
  if count < $HEIRS_MAX then heirs, heir = count == 0 and node or heirs .. ' ' .. node, true end
end
local before = 0
if heir then
  local at = string.find(' ' .. heirs .. ' ', ' ' .. node .. ' ', 1, true)
  before = select(2, string.gsub(string.sub(heirs, 1, at - 1), '%S+', ''))
end
redis.call('HSET', KEYS[1], 'clock', num(clock), 'wall', num(wall), 'step', pace, 'generator', generator, 'epoch', num(epoch),
  'crown', num(crown), 'heirs', heirs, 'seq', num(seq), 'made', num(made), 'chosen', chosen, 'rank', num(reigning), 'ruled', mine and num(wall) or m[17])

-- The generator keeps house: it moves what is due, rings for work that waits and names a node to reap. While there is no
-- generator, every member that beats does so.
local keeps, victim, more, wrong = mine, nil, 0, nil
keeps = keeps or crown <= clock -- guard: vacant
if keeps then
  for i = 12, #KEYS do
    local found = redis.call('TYPE', KEYS[i]).ok
    if found ~= 'none' and found ~= ARGV[i + 3] then wrong = KEYS[i] .. ' holds a ' .. found .. ', not a ' .. ARGV[i + 3] end
  end
end
if keeps and not wrong then
  -- Messages that are due go back to be taken, a bounded number a beat. They are read one by one: how long an element of a
  -- sorted set is, no command tells.
  local now, due, spoilt, lines, looked, bytes = '+inf', {}, {}, {}, 0, 0
  now = num(wall) -- guard: due
  local count = redis.call('ZCOUNT', KEYS[8], '-inf', now)
  more = 1
  while looked < $DUE_MAX and bytes < $DUE_BYTES_MAX do
    if looked == count then more = 0; break end
    local entry = redis.call('ZRANGE', KEYS[8], looked, looked)[1]
    local pack = string.sub(entry, 9)
    looked, bytes = looked + 1, bytes + #entry - 8
    local to = due
    if string.byte(pack) == 2 and sound(pack) and select(5, head(pack)) == 3 and string.byte(pack, 45) > 0 then to = lines end -- guard: group-due
    if sound(pack) then to[#to + 1] = pack else spoilt[#spoilt + 1] = entry end
  end
  if looked > 0 then redis.call('ZREMRANGEBYRANK', KEYS[8], 0, looked - 1) end
  for _, entry in ipairs(spoilt) do
    --+ aside
    set_aside(KEYS[1], KEYS[11], 'later', entry)
  end
  local again = m[26] or '0'
  if #due > 0 then
    redis.call('RPUSH', KEYS[4], unpack(due))
    again = again >= '2' and '3' or '1'
    redis.call('HSET', KEYS[1], 'again', again, 'shortcut', '')
  end
  -- What was pushed for later gets into the line of its group only now.
  if #lines > 0 then
    local at = #KEYS - 5
    --+ groups
    for i, pack in ipairs(lines) do lines[i] = string.sub(pack, 1, 6) .. '\0\0' .. string.sub(pack, 9) end
    line_up(lines)
    mark_ready(KEYS[1], again)
  end
  -- What can match nothing any more is not remembered for ever.
  if m[14] >= '$CANCELS_BIT' then
    --+ cancels
    local c, lines, turns = cancels_read(redis.call('HGET', KEYS[1], 'cancels')), KEYS[#KEYS - 5], KEYS[#KEYS - 3]
    local first = redis.call('LINDEX', KEYS[3], 0)
    first = first and (select(2, sound(first)) or 0)
    local none_waits = more == 0 and redis.call('LLEN', KEYS[4]) == 0 and redis.call('ZCARD', lines) == 0
    local function is_over(till, is_nowhere)
      local late = true
      late = clock >= till -- guard: cancel-kept
      return late and is_nowhere or clock >= till + $CANCEL_MS_MAX
    end
    for n, till in pairs(c.numbers) do
      local is_nowhere = true
      is_nowhere = none_waits and (not first or n < first) -- guard: cancel-waits
      if is_over(till, is_nowhere) then c.numbers[n], c.changed = nil, true end
    end
    for group, of in pairs(c.groups) do
      local entry, is_nowhere = redis.call('ZRANGEBYLEX', lines, '[' .. group .. '\0', '(' .. group .. '\1', 'LIMIT', 0, 1)[1], true
      local passed = not entry or struct.unpack('>I8', entry, #group + 2) > of[1]
      is_nowhere = passed and (tonumber(redis.call('HGET', turns, group) or 0) or 0) < 4 -- guard: cancel-waits
      if is_over(of[2], is_nowhere) then
        c.groups[group], c.changed = nil, true
        for n, its in pairs(c.spared) do
          if its == group then c.spared[n] = nil end
        end
      end
    end
    if c.changed then m[14] = num(cancels_write(KEYS[1], c, tonumber(m[14]))) end
  end
  local works, rested = math.floor(m[14] / 2) % 2 == 0, 0
  if works and m[14] >= '4' then
    --+ limits
    local l = limit_read(redis.call('HGET', KEYS[1], 'limit'), wall)
    if l then
      works = l[1] == 0 or l[8] >= l[2]
      rested = redis.call('ZCOUNT', KEYS[#KEYS - 6], '-inf', num(l[6] * $MS_US))
    end
  end
  local waits = works and rested + redis.call('LLEN', KEYS[3]) + redis.call('LLEN', KEYS[4]) + redis.call('LLEN', KEYS[#KEYS - 4]) > 0
  if waits then ring(KEYS[6]) end -- guard: second-bell
  victim = redis.call('LINDEX', KEYS[5], 0)
  if not victim then
    local first = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')
    victim = first[1] and tonumber(first[2]) <= clock and first[1]
  end
end
-- Of what an heir is told nothing is checked above.
local due = tonumber(m[10])
if not (due and due >= 0 and due <= $COUNTER_MAX and (mine or heir)) then due = 0 end
local answer = {'ok', 'generator', mine and 1 or 0, 'epoch', epoch, 'seq', seq, 'made', made, 'grain', mine and m[11] or 0,
  'due_in_ms', math.max(math.floor(due) - clock, 0), 'crown_in_ms', math.max(crown - clock, 0), 'heir', heir and 1 or 0, 'before', before, 'crowned', generator, 'wall_ms', wall,
  'more_due', more, 'paused', m[14]}
local function tell(name, value)
  answer[#answer + 1] = name
  answer[#answer + 1] = value
end
if victim then tell('victim', victim) end
if rewound then tell('rewound', seq - m[8]) end
if keeps then tell('damaged', is_whole(m[25]) and m[25] or 0) end
if wrong then tell('wrong', wrong) end
if resharded then tell('resharded', resharded) end
if m[14] >= '$CANCELS_BIT' then tell('cancels', redis.call('HGET', KEYS[1], 'cancels') or '') end -- guard: cancel-beat
-- A generator is given the cursor until its beats show that it knows of this reign.
if mine and tonumber(ARGV[9]) ~= epoch then
  tell('cursor', redis.call('HGET', KEYS[1], 'cursor') or '')
  -- And how many messages had been made when another reign followed the last one of its process: so it knows what arrived. If
  -- that reign itself is forgotten, so may be the one that followed it.
  local reigned, followed, is_known = tonumber(ARGV[9]), nil, false
  local reigns = redis.pcall('LRANGE', KEYS[9], 0, -1)
  for _, record in ipairs(reigns.err and {} or reigns) do
    local fine, reign = pcall(cmsgpack.unpack, record)
    -- What cannot be read says nothing of what came before it.
    if not fine or type(reign) ~= 'table' or type(reign[1]) ~= 'number' then break end
    if reign[1] <= reigned then is_known = true; break end
    followed = reign[5] or 0
  end
  if reigned > 0 and is_known and followed then tell('made_before', followed) end -- guard: made-before
end
return answer
