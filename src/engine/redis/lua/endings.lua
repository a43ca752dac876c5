-- endings: how messages ended whose outcomes were asked for. Writes nothing.
-- KEYS  1 asked
-- ARGV  the numbers
-- Returns  of each its record, or nothing: it has not ended, was not asked for, or is not kept any more
--+ common
local _, wall = hive(0, 0, 0)
local found = redis.call('HMGET', KEYS[1], unpack(ARGV))
for i, record in ipairs(found) do
  local fine, fields = pcall(cmsgpack.unpack, record or '')
  local kept = fine and type(fields) == 'table' and (fields[1] == 1 or fields[1] == 2) and type(fields[2]) == 'number'
  if kept and fields[2] + $ENDING_MS <= wall then kept = false end -- guard: ending-until
  if not kept then found[i] = false end
end
return found
