-- collect: confirms the batch that a reader of errors has printed, and takes its next one.
-- KEYS  1 meta 2 errors 3 errors:records 4 readers 5 errors:READER 6 damaged
-- ARGV  1 reader 2 call 3 only numbers below 4 want (0: confirm and leave) 5 lease 6 numbers shown, with commas
-- Returns  ok and by name: others, failed (the records), maybe victim (a reader whose lease has run out) | deposed
-- The list of a reader begins with the number of the call that filled it: a repeated call gets the same batch, and a late copy
-- of an older call confirms nothing. A late copy of a first call may take a batch for a reader that has left; since a call must
-- name all that it confirms, no late copy of a second call confirms that batch. Readers move the hive clock themselves: there
-- may be no node to do it.
--+ common
--+ aside
--+ records
--+ rights
--+ foreign
lack = lacks('DEL', 'ZREM', 'ZRANGEBYSCORE', 'HSTRLEN', 'RPUSH', 'HSET', 'ZADD') -- guard: rights
lack = lack or foreign({[2] = 'zset', [3] = 'hash', [4] = 'zset', [5] = 'list'}) -- guard: foreign
if lack then return lack end
redis.call('HDEL', KEYS[1], '') -- guard: opener-collect
local reader, call, want = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4])
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step')
if not m[1] then return {'ok', 'others', 0, 'failed', {}} end
local clock, wall = hive(m[1], m[2], m[3])
local filled_by = redis.call('LINDEX', KEYS[5], 0)
local batch = {}
if filled_by and tonumber(filled_by) == call then
  batch = redis.call('LRANGE', KEYS[5], 1, -1)
else
  local held = redis.call('LRANGE', KEYS[5], 1, -1)
  -- A record is an array that begins with its number: the rest of it, which may be large, need not be read.
  for i, record in ipairs(held) do
    local fine, _, number = pcall(cmsgpack.unpack_one, record, 1)
    held[i] = fine and type(number) == 'number' and num(number) or ''
  end
  local late = (filled_by and tonumber(filled_by) or 0) ~= call - 1 or table.concat(held, ',') ~= ARGV[6]
  if late then return {'deposed'} end -- guard: collect-call
  redis.call('DEL', KEYS[5])
  if want == 0 then
    redis.call('ZREM', KEYS[4], reader)
  else
    -- How long a record is costs nothing to know: what does not fit is never read.
    local bytes, numbers = 0, {}
    for _, number in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', '(' .. ARGV[3], 'LIMIT', 0, math.min(want, $CHUNK_MAX))) do
      bytes = bytes + redis.call('HSTRLEN', KEYS[3], number)
      if #numbers > 0 and bytes > $COLLECT_BYTES_MAX then break end
      numbers[#numbers + 1] = number
    end
    if #numbers > 0 then
      local kept = redis.call('HMGET', KEYS[3], unpack(numbers))
      redis.call('ZREM', KEYS[2], unpack(numbers))
      redis.call('HDEL', KEYS[3], unpack(numbers))
      for i, record in ipairs(kept) do
        if record and fields_of(record) then batch[#batch + 1] = record
        else set_aside(KEYS[1], KEYS[6], 'errors', record or numbers[i]) end
      end
    end
    redis.call('RPUSH', KEYS[5], num(call))
    for i = 1, #batch, $UNPACK_MAX do redis.call('RPUSH', KEYS[5], unpack(batch, i, math.min(i + ($UNPACK_MAX - 1), #batch))) end
  end
end
redis.call('HSET', KEYS[1], 'clock', num(clock), 'wall', num(wall))
if want > 0 then redis.call('ZADD', KEYS[4], num(clock + ARGV[5]), reader) end
local first = redis.call('ZRANGE', KEYS[4], 0, 0, 'WITHSCORES')
local others = redis.call('ZCARD', KEYS[4]) - (want > 0 and 1 or 0)
local answer = {'ok', 'others', others, 'failed', batch}
if first[1] and first[1] ~= reader and tonumber(first[2]) <= clock then answer[6], answer[7] = 'victim', first[1] end
return answer
