-- requeue: withdraws errors and puts their messages in again: a new life, attempts and failures from the start.
-- KEYS  1 meta 2 errors 3 errors:records 4 again 5 bell 6 lines 7 ready 8 turns 9 groups 10 asked 11 endings
-- ARGV  the numbers
-- Returns  by name: looked (how many of the given numbers), numbers (of those that are in the queue again)
-- Its first write is a ZREM, which Redis does not refuse when memory is full.
--+ common
--+ records
--+ rights
--+ foreign
local m = redis.call('HMGET', KEYS[1], 'birth', 'again', 'paused')
if not m[1] then return {'looked', #ARGV, 'numbers', {}} end
-- All records are read before anything is written. One that cannot be read stays where it is: whoever collects sets it aside.
local at = 6
--+ groups
--+ asked
local told, ended = asking(KEYS[10], KEYS[11]), {}
local looked, bytes, numbers, packs, grouped, named = 0, 0, {}, {}, {}, {}
for i = 1, #ARGV do
  local length = named[ARGV[i]] and 0 or redis.call('HSTRLEN', KEYS[3], ARGV[i])
  bytes = bytes + length
  if #numbers > 0 and bytes > $COLLECT_BYTES_MAX then break end
  looked = i
  local fields = length > 0 and fields_of(redis.call('HGET', KEYS[3], ARGV[i]))
  if fields and num(fields[1]) == ARGV[i] then
    named[ARGV[i]] = true
    local number, _, epoch, published, _, _, _, payload, _, envelope = unpack(fields)
    local body = (envelope or '') .. payload
    local function pack(unordered)
      return struct.pack(HEADER, envelope and 2 or 1, 0, 1, 0, unordered, number, epoch, published, 1) .. struct.pack('<I4I4', 0, #body) .. body
    end
    local back = pack(1)
    local group = sound(back) and group_of(back)
    local in_line = false
    -- Its number puts it at the head of its line.
    in_line = group -- guard: group-requeue
    if in_line then grouped[#grouped + 1] = pack(0) elseif sound(back) then packs[#packs + 1] = back end
    if sound(back) then numbers[#numbers + 1] = num(number) end
    -- How its last life ended says nothing about the next one.
    if sound(back) and is_asked(back) then
      told.waits(back, 0)
      ended[#ended + 1] = struct.pack('>I8', number)
    end
  end
end
if #numbers > 0 then
  lack = lacks('HDEL', 'RPUSH', 'HINCRBY', 'HSET') -- guard: rights
  lack = lack or foreign({[2] = 'zset', [3] = 'hash', [4] = 'list'}) -- guard: foreign
  lack = lack or #grouped > 0 and misplaced() or told.misplaced()
  if lack then return lack end
  redis.call('ZREM', KEYS[2], unpack(numbers)) -- guard: requeue-withdraws
  redis.call('HDEL', KEYS[3], unpack(numbers)) -- guard: requeue-withdraws
  if #ended > 0 then redis.call('ZREM', KEYS[11], unpack(ended)) end -- guard: ending-requeue
  told.write() -- guard: ending-requeue
  redis.call('HINCRBY', KEYS[1], 'requeued', num(#numbers))
  -- A new life, which nobody has cancelled.
  if (m[3] or '0') >= '$CANCELS_BIT' then
    --+ cancels
    local c = cancels_read(redis.call('HGET', KEYS[1], 'cancels'))
    for _, n in ipairs(numbers) do
      if c.numbers[tonumber(n)] then c.numbers[tonumber(n)], c.changed = nil, true end -- guard: cancel-requeue
    end
    local room = $CANCELS_MAX - cancels_size(c.spared)
    for _, pack in ipairs(grouped) do
      local n, group = (select(6, head(pack))), group_of(pack)
      local of = c.groups[group]
      if of and n <= of[1] and room > 0 then c.spared[n], c.changed, room = group, true, room - 1 end -- guard: cancel-requeue
    end
    if c.changed then cancels_write(KEYS[1], c, tonumber(m[3])) end
  end
  local again = m[2] or '0'
  if #packs > 0 then
    redis.call('RPUSH', KEYS[4], unpack(packs))
    again = again >= '2' and '3' or '1'
    redis.call('HSET', KEYS[1], 'again', again, 'shortcut', '')
  end
  if #grouped > 0 then
    line_up(grouped)
    mark_ready(KEYS[1], again)
  end
  ring(KEYS[5])
end
for i = 1, #numbers do numbers[i] = tonumber(numbers[i]) end
return {'looked', looked, 'numbers', numbers}
