-- release: puts back what a reader of errors took and did not confirm.
-- KEYS  1 meta 2 errors 3 errors:records 4 readers 5 errors:READER 6 damaged
-- ARGV  1 reader 2 only if its lease has run out
-- Returns  how many went back
--+ common
--+ aside
--+ rights
--+ foreign
lack = lacks('ZADD', 'HSET', 'DEL', 'ZREM') -- guard: rights
lack = lack or foreign({[2] = 'zset', [3] = 'hash', [4] = 'zset', [5] = 'list'}) -- guard: foreign
if lack then return lack end
redis.call('HDEL', KEYS[1], '') -- guard: opener-release
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step')
if not m[1] then return 0 end
if ARGV[2] == '1' then
  local clock = hive(m[1], m[2], m[3])
  local deadline = redis.call('ZSCORE', KEYS[4], ARGV[1])
  if not deadline or tonumber(deadline) > clock then return 0 end -- guard: reader-lease
end
local batch = redis.call('LRANGE', KEYS[5], 1, -1)
for _, record in ipairs(batch) do
  -- A record is an array of nine, or ten with an envelope. The number comes first in it, and the rest need not be read.
  local fine, _, number = pcall(cmsgpack.unpack_one, record, 1)
  if fine and type(number) == 'number' and (string.byte(record) == 9 * 16 + 9 or string.byte(record) == 9 * 16 + 10) then
    number = num(number)
    redis.call('ZADD', KEYS[2], number, number)
    redis.call('HSET', KEYS[3], number, record)
  else
    set_aside(KEYS[1], KEYS[6], 'errors', record)
  end
end
redis.call('DEL', KEYS[5])
redis.call('ZREM', KEYS[4], ARGV[1])
return #batch
