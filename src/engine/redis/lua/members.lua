-- Ending a membership, and creating a queue.

local function without(heirs, node)
  local kept = {}
  for heir in string.gmatch(heirs, '%S+') do
    if heir ~= node then kept[#kept + 1] = heir end
  end
  return table.concat(kept, ' ')
end

-- Ends a membership: the node moves from `nodes` to `dead`, its lanes are closed, their counts added to those of the queue. Returns
-- how many messages it still holds, and whether it was the generator.
local function depose(meta, nodes, dead, taken, node)
  local m = redis.call('HMGET', meta, 'generator', 'heirs', 'done', 'failed', 'crown')
  local done, failed, held, lanes, places = m[3], m[4], 0, {'suspects', 'report', 'report_number', 'report_ms'}, {}
  -- Lanes are numbered from 0, and one may have a pack in its place.
  local number, record = '0', redis.call('HGET', taken, 'lane:0')
  while record do
    local lane = cmsgpack.unpack(record)
    done, failed, held = done + lane[2], failed + lane[3], held + lane[4]
    lanes[#lanes + 1] = 'lane:' .. number
    if redis.call('HEXISTS', taken, 'pack:' .. number) == 1 then places[#places + 1] = 'pack:' .. number end
    number = num(number + 1)
    record = redis.call('HGET', taken, 'lane:' .. number)
  end
  -- The first write is one that Redis does not refuse when memory is full; after it, it refuses none.
  redis.call('ZREM', nodes, node)
  redis.call('HDEL', taken, unpack(lanes)) -- guard: depose-lanes
  -- A pack in the place of a lane gets the name that all others have: its first number.
  for _, place in ipairs(places) do
    local pack = redis.call('HGET', taken, place)
    redis.call('HDEL', taken, place)
    redis.call('HSET', taken, num((select(6, head(pack)))), pack)
  end
  redis.call('HSET', taken, 'held', num(held))
  redis.call('RPUSH', dead, node)
  local ruled = m[1] == node
  redis.call('HSET', meta, 'done', num(done), 'failed', num(failed), 'heirs', without(m[2], node),
    'generator', ruled and '' or m[1], 'crown', ruled and '0' or m[5])
  return held, ruled
end

-- Creates a queue. Redis searches small hashes from their start: the fields that every call reads come first.
local function found_queue(meta, birth, names, step, wall)
  redis.call('HSET', meta, 'shortcut', '', 'grain', $GRAIN_START, 'again', '0', 'paused', '0', 'birth', birth, 'layout', $LAYOUT,
    'names', names, 'clock', '0', 'wall', num(wall), 'step', step, 'generator', '', 'epoch', '0', 'crown', '0', 'heirs', '',
    'seq', '0', 'made', '0', 'due', '0', 'head', '0', 'done', '0', 'failed', '0', 'requeued', '0', 'rewinds', '0',
    'skipped', '0', 'trimmed', '0', 'clearing', '0', 'chosen', '', 'rank', '0', 'ruled', '0')
end
