-- reap: deposes a member whose lease has run out, or whose connection was closed, and hands on what it held, a bounded number of packs a call.
-- KEYS  1 meta 2 nodes 3 dead 4 taken:VICTIM 5 again 6 errors 7 errors:records 8 bell 9 bodies 10 damaged 11 lines 12 ready 13 turns 14 groups 15 asked 16 endings
-- ARGV  1 victim 2 its channel, if its connection was seen and is seen no more (or nothing)
-- Returns  by name: redelivered failed more deposed
-- Deposes before it moves anything: from then on the calls of the victim are refused.
-- Its first write is always one that full memory does not refuse: depose's ZREM, or the HDEL or LREM below.
--+ common
--+ packs
--+ deliveries
--+ aside
--+ members
--+ rights
--+ foreign
--+ alive
local at = 11
--+ groups
--+ asked
local victim = ARGV[1]
local function answer(redelivered, failed, more, deposed)
  return {'redelivered', redelivered, 'failed', failed, 'more', more, 'deposed', deposed}
end
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step', 'again', 'paused')
if not m[1] then return answer(0, 0, 0, 0) end
local clock, wall = hive(m[1], m[2], m[3])
local deadline, deposed = redis.call('ZSCORE', KEYS[2], victim), 0
local kind = redis.call('TYPE', KEYS[4]).ok
local told = asking(KEYS[15], KEYS[16], function() return wall end)
lack = misplaced() or told.misplaced(true)
lack = lack or lacks('ZREM', 'HDEL', 'HSET', 'HGET', 'HKEYS', 'HINCRBY', 'RPUSH', 'LREM', 'LPOS', 'ZADD', 'DEL', 'HSTRLEN', 'LLEN') -- guard: rights
lack = lack or foreign({[3] = 'list', [5] = 'list', [6] = 'zset', [7] = 'hash', [9] = 'hash'}) -- guard: foreign
if lack then return lack end
local gone = ARGV[2] ~= ''
if gone and is_connected(ARGV[2]) then gone = false end -- guard: reap-look
if deadline and tonumber(deadline) > clock and not gone then return answer(0, 0, 0, 0) end -- guard: reap-expired
if kind ~= 'hash' and kind ~= 'none' then
  -- Whatever it held is gone, and what stands there is not ours. The dead behind it must not wait for it.
  if redis.call('ZREM', KEYS[2], victim) + redis.call('LREM', KEYS[3], 0, victim) > 0 then
    set_aside(KEYS[1], KEYS[10], 'hand', victim)
  end
  return answer(0, 0, 0, 1)
end
if deadline then
  depose(KEYS[1], KEYS[2], KEYS[3], KEYS[4], victim, KEYS[10])
  deposed = 1
elseif not redis.call('LPOS', KEYS[3], victim) then
  return answer(0, 0, 0, 0)
end

local most, pieces = deliveries(KEYS[4]), {}
for _, field in ipairs(redis.call('HKEYS', KEYS[4])) do
  if string.match(field, '^%d+$') then pieces[#pieces + 1] = field end
end
table.sort(pieces, function(a, b) return tonumber(a) < tonumber(b) end)
local moved, redelivered, failed, bytes, again, errors, records, spent_stubs, spoilt, over = {}, 0, 0, 0, {}, {}, {}, {}, {}, {}
for i = 1, math.min(#pieces, $REAP_PACKS_MAX) do
  -- What does not fit is not read: a stub is short, but what it stands for may have to be brought.
  local field = pieces[i]
  local fits = bytes + redis.call('HSTRLEN', KEYS[4], field) <= $REAP_BYTES_MAX
  local pack = (i == 1 or fits) and redis.call('HGET', KEYS[4], field)
  local count = pack and sound(pack)
  local length = count and size(pack) or #(pack or '')
  if i > 1 and (not pack or failed >= $REAP_FAILED_MAX or bytes + length > $REAP_BYTES_MAX) then break end
  moved[i] = field
  local attempt, spent = count and select(3, head(pack)), false
  bytes = bytes + length
  spent = count and attempt >= most -- guard: deliveries
  if not count then
    spoilt[#spoilt + 1] = pack
  elseif spent then
    -- A message whose bytes someone has removed is an error all the same, with an empty payload.
    local full = whole(KEYS[9], pack) or pack
    if is_stub(pack) then spent_stubs[#spent_stubs + 1] = pack end
    for index = 0, count - 1 do
      local number, kept = failure(full, index, wall, victim, 'delivered ' .. num(attempt) .. ' times without an outcome')
      errors[#errors + 1] = num(number); errors[#errors + 1] = num(number)
      records[#records + 1] = num(number); records[#records + 1] = kept
    end
    if is_asked(pack) then told.failed(pack, victim, 'delivered ' .. num(attempt) .. ' times without an outcome') end -- guard: ending-reaped
    failed = failed + count
    local group = group_of(pack)
    if group and select(5, head(pack)) ~= 2 then over[#over + 1] = group end -- guard: group-reaped
  else
    again[#again + 1] = string.sub(pack, 1, 2) .. struct.pack('<H', attempt + 1) .. string.sub(pack, 5)
    redelivered = redelivered + count
  end
end
if #moved > 0 then redis.call('HDEL', KEYS[4], unpack(moved)) end
for _, pack in ipairs(spoilt) do set_aside(KEYS[1], KEYS[10], 'hand', pack) end
for _, stub in ipairs(spent_stubs) do let_go(KEYS[9], stub, (select(9, head(stub)))) end
for i = 1, #errors, $UNPACK_MAX do
  redis.call('ZADD', KEYS[6], unpack(errors, i, math.min(i + ($UNPACK_MAX - 1), #errors)))
  redis.call('HSET', KEYS[7], unpack(records, i, math.min(i + ($UNPACK_MAX - 1), #records)))
end
told.write()
if #errors > 0 and (m[5] or '0') >= '$CANCELS_BIT' then
  --+ cancels
  local c = cancels_read(redis.call('HGET', KEYS[1], 'cancels'))
  for i = 1, #errors, 2 do cancels_ended(c, tonumber(errors[i]), 1) end -- guard: cancel-reaped
  if c.changed then cancels_write(KEYS[1], c, tonumber(m[5])) end
end
local flag = m[4] or '0'
if #again > 0 then
  redis.call('RPUSH', KEYS[5], unpack(again))
  flag = flag >= '2' and '3' or '1'
  redis.call('HSET', KEYS[1], 'again', flag, 'shortcut', '')
end
-- A message that became an error lets its group go on.
local goes_on = ended(over)
if goes_on then mark_ready(KEYS[1], flag) end
if goes_on or #again > 0 then ring(KEYS[8]) end
if failed > 0 then redis.pcall('HINCRBY', KEYS[1], 'failed', num(failed)) end
if #moved == #pieces then
  redis.call('LREM', KEYS[3], 0, victim)
  redis.call('DEL', KEYS[4])
  return answer(redelivered, failed, 0, deposed)
end
redis.pcall('HINCRBY', KEYS[4], 'held', num(-redelivered - failed))
return answer(redelivered, failed, 1, deposed)
