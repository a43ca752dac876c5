-- What most scripts need: numbers, the hive clock, heads of packs, bells.
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

local function ring(bell)
  if redis.call('LLEN', bell) == 0 then redis.call('RPUSH', bell, '1') end
end
