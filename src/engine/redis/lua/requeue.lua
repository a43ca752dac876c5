-- requeue: withdraws errors and puts their messages in again: a new life, attempts and failures from the start.
-- KEYS  1 meta 2 errors 3 errors:records 4 again 5 bell
-- ARGV  the numbers
-- Returns  by name: looked (how many of the given numbers), numbers (of those that are in the queue again)
-- Its first write is a ZREM, which Redis does not refuse when memory is full.
--+ common
--+ records
--+ rights
if redis.call('HEXISTS', KEYS[1], 'birth') == 0 then return {'looked', #ARGV, 'numbers', {}} end
-- All records are read before anything is written. One that cannot be read stays where it is: whoever collects sets it aside.
local looked, bytes, numbers, packs, named = 0, 0, {}, {}, {}
for i = 1, #ARGV do
  local length = named[ARGV[i]] and 0 or redis.call('HSTRLEN', KEYS[3], ARGV[i])
  bytes = bytes + length
  if #packs > 0 and bytes > $COLLECT_BYTES_MAX then break end
  looked = i
  local fields = length > 0 and fields_of(redis.call('HGET', KEYS[3], ARGV[i]))
  if fields and num(fields[1]) == ARGV[i] then
    named[ARGV[i]] = true
    local number, _, epoch, published, _, _, _, payload = unpack(fields)
    local pack = struct.pack(HEADER, 1, 0, 1, 0, 1, number, epoch, published, 1)
      .. struct.pack('<I4I4', 0, #payload) .. payload
    numbers[#numbers + 1] = num(number)
    packs[#packs + 1] = pack
  end
end
if #packs > 0 then
  lack = lacks('HDEL', 'RPUSH', 'HINCRBY', 'HSET') -- guard: rights
  if lack then return lack end
  redis.call('ZREM', KEYS[2], unpack(numbers)) -- guard: requeue-withdraws
  redis.call('HDEL', KEYS[3], unpack(numbers)) -- guard: requeue-withdraws
  redis.call('RPUSH', KEYS[4], unpack(packs))
  redis.call('HINCRBY', KEYS[1], 'requeued', num(#packs))
  redis.call('HSET', KEYS[1], 'again', '1', 'shortcut', '')
  ring(KEYS[5])
end
for i = 1, #numbers do numbers[i] = tonumber(numbers[i]) end
return {'looked', looked, 'numbers', numbers}
