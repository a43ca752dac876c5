-- Ending a membership, and creating a queue.

local function without(heirs, node)
  local kept = {}
  for heir in string.gmatch(heirs, '%S+') do
    if heir ~= node then kept[#kept + 1] = heir end
  end
  return table.concat(kept, ' ')
end

-- How many members let one look move the hive clock by how much, the least first: `66=1 666=3`.
local function counted(steps, step, by)
  local kept, members = {}, by
  for other, count in string.gmatch(steps, '(%d+)=(%d+)') do
    if tonumber(other) == step then members = members + count else kept[#kept + 1] = {tonumber(other), tonumber(count)} end
  end
  if members > 0 then kept[#kept + 1] = {step, members} end
  table.sort(kept, function(a, b) return a[1] < b[1] end)
  for i, each in ipairs(kept) do kept[i] = num(each[1]) .. '=' .. num(each[2]) end
  return table.concat(kept, ' ')
end

-- A failover may leave a server without the numbers that someone has seen. A generator that waits for replicas (`replays`: its epoch) has kept what
-- they lack, and publishes it again while it reigns: then nothing is rewound. Numbers go on behind what was seen, and `hole`, two numbers,
-- says which ones it may fill.
-- Returns  whether it is so; and if so whether numbers were passed over
local function leaves_hole(meta, reigns, epoch, seq, seen_seq)
  local m = redis.call('HMGET', meta, 'replays', 'hole')
  if not (reigns and m[1] == num(epoch)) then return false end -- guard: replays
  if seen_seq <= seq then return true, false end
  local from, to = string.match(m[2] or '', '^(%d+) (%d+)$')
  if not from or tonumber(to) ~= seq then from = num(seq) end
  redis.call('HSET', meta, 'hole', from .. ' ' .. num(seen_seq))
  return true, true
end

-- A lane's {call, done, failed, held}; nothing, if its record cannot be read.
local function lane_counts(record)
  local fine, _, call, done, failed, held = pcall(cmsgpack.unpack_limit, record, 4, 1)
  for _, count in ipairs({call, done, failed, held}) do fine = fine and type(count) == 'number' end
  if fine and held then return {call, done, failed, held} end
end

-- Ends a membership: the node moves from `nodes` to `dead`, its lanes are closed, their counts added to those of the queue. Returns
-- how many messages it still holds, and whether it was the generator. Needs `aside`.
local function depose(meta, nodes, dead, taken, node, damaged)
  local m = redis.call('HMGET', meta, 'generator', 'heirs', 'done', 'failed', 'crown', 'steps')
  local done, failed, held, lanes, places = m[3] + 0, m[4] + 0, 0, {'suspects', 'report', 'report_number', 'report_ms'}, {}
  -- Lanes are numbered from 0, and one may have a pack in its place.
  local number, record, known = '0', redis.call('HGET', taken, 'lane:0'), true
  while record do
    local lane = lane_counts(record)
    if lane then done, failed, held = done + lane[2], failed + lane[3], held + lane[4] end
    known = known and lane
    lanes[#lanes + 1] = 'lane:' .. number
    if redis.call('HEXISTS', taken, 'pack:' .. number) == 1 then places[#places + 1] = 'pack:' .. number end
    number = num(number + 1)
    record = redis.call('HGET', taken, 'lane:' .. number)
  end
  -- The counts of a lane that cannot be read are gone; what is in the hand is counted anew.
  if not known or #lanes == 4 then
    held = 0
    for _, field in ipairs(redis.call('HKEYS', taken)) do
      local is_piece = string.match(field, '^%d+$') or string.sub(field, 1, 5) == 'pack:'
      if is_piece then held = held + (sound(redis.call('HGET', taken, field)) or 1) end
    end
  end
  local steps = m[6] or ''
  steps = counted(steps, tonumber(redis.call('HGET', taken, 'step') or 0) or 0, -1) -- guard: step-leave
  -- The first write is one that Redis does not refuse when memory is full; after it, it refuses none.
  redis.call('ZREM', nodes, node)
  redis.call('HDEL', taken, unpack(lanes)) -- guard: depose-lanes
  -- A pack in the place of a lane gets the name that all others have: its first number.
  for _, place in ipairs(places) do
    local pack = redis.call('HGET', taken, place)
    local _, first = sound(pack)
    redis.call('HDEL', taken, place)
    if first then redis.call('HSET', taken, num(first), pack) else set_aside(meta, damaged, 'hand', pack) end
  end
  redis.call('HSET', taken, 'held', num(held))
  redis.call('RPUSH', dead, node)
  local ruled = m[1] == node
  redis.call('HSET', meta, 'done', num(done), 'failed', num(failed), 'heirs', without(m[2] or '', node),
    'generator', ruled and '' or m[1] or '', 'crown', ruled and '0' or m[5] or '0', 'steps', steps)
  return held, ruled
end

-- Another server than before, or another run of it, may lack the last writes: all members are to speak to it before anyone numbers messages.
-- `heard` is the server that all have spoken to: publishes look at nothing else.
local function notice_server(meta, nodes, unheard, known, server, wall)
  if server == '' or known == server then return end
  if known ~= '' then
    redis.call('DEL', unheard)
    local members = redis.call('ZRANGE', nodes, 0, -1)
    for i = 1, #members, $UNPACK_MAX do redis.call('RPUSH', unheard, unpack(members, i, math.min(i + ($UNPACK_MAX - 1), #members))) end
    redis.call('HSET', meta, 'waited', '0', 'waited_at', num(wall))
    redis.call('HSET', meta, 'heard', '') -- guard: heard-anew
  end
  redis.call('HSET', meta, 'server', server)
end

-- Members may have seen numbers that this server does not know of, and not have said so yet. One that does not speak for its lease,
-- while someone wants to number messages, is dead. Returns whether there are such. Ends the list of those who need not be waited for.
local function awaits_members(meta, nodes, unheard, server, wall)
  local m = redis.call('HMGET', meta, 'server', 'steps', 'waited', 'waited_at')
  notice_server(meta, nodes, unheard, m[1] or '', server, wall)
  local silent, waits = redis.call('LRANGE', unheard, 0, -1), false
  if #silent == 0 then return false end
  local longest = 3 * (tonumber(string.match(m[2] or '', '(%d+)=%d+$') or -1) + 1)
  local waited, at = tonumber(m[3] or 0) or 0, tonumber(m[4] or 0) or 0
  if server ~= '' and m[1] ~= server then waited, at = 0, wall end
  waited = waited + math.min(math.max(wall - at, 0), $UNHEARD_STEP_MS)
  for _, node in ipairs(silent) do waits = waits or redis.call('ZSCORE', nodes, node) end
  waits = waits and waited < longest
  redis.call('HSET', meta, 'waited', num(waited), 'waited_at', num(wall))
  if not waits then redis.call('DEL', unheard) end
  return waits
end

-- Creates a queue. Redis searches small hashes from their start: the fields that every call reads come first.
local function found_queue(meta, birth, names, step, wall, first)
  redis.call('HSET', meta, 'shortcut', '', 'grain', $GRAIN_START, 'again', '0', 'paused', '0', 'clock', '0', 'wall', num(wall), 'step', step,
    'crown', '0', 'seq', first, 'made', '0', 'epoch', '0', 'generator', '', 'heirs', '', 'chosen', '', 'server', '', 'heard', '', 'due', '0', 'head', first,
    'birth', birth, 'layout', $LAYOUT, 'names', names, 'steps', '', 'rank', '0', 'ruled', '0', 'done', '0', 'failed', '0', 'requeued', '0',
    'rewinds', '0', 'skipped', first, 'trimmed', '0', 'clearing', '0', 'waited', '0', 'waited_at', '0')
end
