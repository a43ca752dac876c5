-- What most scripts need: numbers, the hive clock, heads of packs, whether they are packs, bells.
-- A line that ends in a `guard` mark holds a promise: tests remove each in turn, and one must fail.

-- Digits only: tostring(1e14) would be '1e+14'.
local function num(n)
  local text = nil
  text = string.format('%d', n) -- guard: digits
  return text or tostring(n)
end

-- Leases run on a clock that never goes back and never jumps, whatever TIME does: it moves by as much as TIME has moved since
-- the last call, but never by less than 0 or more than `step`.
local function hive(clock, seen, step)
  local time = redis.call('TIME')
  local wall = time[1] * 1000 + math.floor(time[2] / 1000)
  local moved = wall - seen
  if moved < 0 then moved = 0 end -- guard: clock-back
  if moved > tonumber(step) then moved = tonumber(step) end -- guard: clock-step
  return clock + moved, wall
end

local HEADER = '<BBHHHI8I8I8I4'

-- version, flags, attempt, failures, unordered, first, epoch, published, count
local function head(pack)
  return struct.unpack(HEADER, pack)
end

-- How many messages a pack or a stub has, and its first number; nothing, if a script could not read all that it needs of it.
local function sound(pack)
  if #pack < 44 then return end
  local version, flags, _, _, _, first, _, _, count, base = struct.unpack('<BBHHHI8I8I8I4I4', pack)
  if version ~= 1 then
    -- A message with an envelope before its payload is a pack of its own: length of the group, the group, length of the attributes, these.
    if version ~= 2 or flags ~= 0 or count ~= 1 or #pack < 47 then return end
    local group = string.byte(pack, 45)
    if #pack < 47 + group or #pack < 47 + group + struct.unpack('<H', pack, 46 + group) then return end
  end
  if count < 1 or count > $PACK_MESSAGES_MAX or first + count > $COUNTER_MAX then return end
  if flags == 0 then
    local data = 40 + 4 * count
    if #pack < data or #pack - data ~= struct.unpack('<I4', pack, data - 3) - base then return end
  elseif flags == 1 and #pack == 52 then
    local all, of, bytes = struct.unpack('<I8I4I4', pack, 37)
    if of > $PACK_MESSAGES_MAX or first < all or first + count > all + of or bytes < 44 then return end
  else
    return
  end
  return count, first
end

-- Nothing is lost with a bell. So one that cannot be rung stops no script in its midst, and what someone else put in its place is
-- removed.
local function ring(bell)
  local rings = redis.pcall('LLEN', bell)
  if type(rings) == 'table' then redis.pcall('DEL', bell) end
  if rings == 0 or type(rings) == 'table' then redis.pcall('RPUSH', bell, '1') end
end
