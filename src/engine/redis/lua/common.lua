-- In every script: numbers, the hive clock, heads of packs, bells.
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

-- version, flags, attempt, failures, unordered, first, epoch, published, count
local function head(pack)
  return struct.unpack(HEADER, pack)
end

local function ring(bell)
  if redis.call('LLEN', bell) == 0 then redis.call('RPUSH', bell, '1') end
end
