-- Stands before every script: numbers, the hive clock, packs, leaving.
-- A line that ends in a "guard" mark holds a promise; a test strips each in turn and must see it fail.

-- Digits only: tostring(1e14) would be '1e+14'.
local function num(n)
  local text = nil
  text = string.format('%d', n) -- guard: digits
  return text or tostring(n)
end

-- Leases run on a clock that never goes back and never jumps, whatever TIME does:
-- it moves by what TIME moved since the last look, within 0 .. step.
local function hive(clock, seen, step)
  local time = redis.call('TIME')
  local wall = time[1] * 1000 + math.floor(time[2] / 1000)
  local moved = wall - seen
  if moved < 0 then moved = 0 end -- guard: clock-back
  if moved > tonumber(step) then moved = tonumber(step) end -- guard: clock-step
  return clock + moved, wall
end

local HEADER = '<BBHHHI8I8I8I4'

-- Beside a pack in hand: count, attempt, astray.
local TAG, TAGGED = 'h', '<I4HH'

-- version, flags, attempt, failures, astray, first, epoch, published, count
local function head(pack)
  return struct.unpack(HEADER, pack)
end

-- Where the payload of the message at an index begins in the pack's bytes; that of `count` is where the last one ends.
local function offset(pack, count, index)
  local base = struct.unpack('<I4', pack, 37)
  return 41 + 4 * count - base + struct.unpack('<I4', pack, 37 + 4 * index)
end

-- The messages from .. from + n of a pack as a pack of their own: no loop, the offsets stay as they are.
local function piece(pack, from, n)
  local version, flags, attempt, failures, astray, first, epoch, published, count = head(pack)
  if n == count then return pack end
  return struct.pack(HEADER, version, flags, attempt, failures, astray, first + from, epoch, published, n)
    .. string.sub(pack, 37 + 4 * from, 40 + 4 * (from + n))
    .. string.sub(pack, offset(pack, count, from), offset(pack, count, from + n) - 1)
end

-- What is kept of a failed message.
local function failure(pack, index, time, node, text)
  local _, _, attempt, failures, _, first, epoch, published, count = head(pack)
  local payload = string.sub(pack, offset(pack, count, index), offset(pack, count, index + 1) - 1)
  return first + index, cmsgpack.pack({first + index, attempt, epoch, published, time, node, text, payload, failures})
end

-- A message in `later`: its number stands before it, so that of two that are due together the older one is first.
local function later_entry(number, pack)
  return struct.pack('>I8', number) .. pack
end

local function without(heirs, node)
  local kept = {}
  for heir in string.gmatch(heirs, '%S+') do
    if heir ~= node then kept[#kept + 1] = heir end
  end
  return table.concat(kept, ' ')
end

-- Ends a membership: from `nodes` to `dead`, lanes closed, counts kept. Returns how many messages it still holds.
local function depose(meta, nodes, dead, taken, node)
  local m = redis.call('HMGET', meta, 'generator', 'heirs', 'done', 'failed', 'crown')
  local done, failed, held, lanes = m[3], m[4], 0, {'worn', 'told', 'told-at', 'report'}
  for _, field in ipairs(redis.call('HKEYS', taken)) do
    if string.sub(field, 1, 5) == 'lane:' then lanes[#lanes + 1] = field end
  end
  for i = 5, #lanes do
    local lane = cmsgpack.unpack(redis.call('HGET', taken, lanes[i]))
    done, failed, held = done + lane[2], failed + lane[3], held + lane[4]
  end
  -- The first write must be one that full memory does not refuse; after it none is.
  redis.call('ZREM', nodes, node)
  redis.call('HDEL', taken, unpack(lanes)) -- guard: depose-lanes
  redis.call('HSET', taken, 'held', num(held))
  redis.call('RPUSH', dead, node)
  local ruled = m[1] == node
  redis.call('HSET', meta, 'done', num(done), 'failed', num(failed), 'heirs', without(m[2], node),
    'generator', ruled and '' or m[1], 'crown', ruled and '0' or m[5])
  return held, ruled
end

-- Writes what a new queue knows of itself.
local function found_queue(meta, birth, layout, names, step, grain, wall)
  redis.call('HSET', meta, 'birth', birth, 'layout', layout, 'names', names, 'clock', '0', 'wall', num(wall),
    'step', step, 'generator', '', 'epoch', '0', 'crown', '0', 'heirs', '', 'seq', '0', 'made', '0', 'due', '0',
    'grain', grain, 'again', '0', 'head', '0', 'done', '0', 'failed', '0', 'requeued', '0', 'rewinds', '0', 'skipped', '0')
end

local function ring(bell)
  if redis.call('LLEN', bell) == 0 then redis.call('RPUSH', bell, '1') end
end
