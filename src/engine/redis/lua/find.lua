-- find: where a message is. Writes nothing, and looks through no list of messages but what nodes have in hand.
-- KEYS  1 meta 2 asked 3 errors 4 queue 5 again 6 later 7 lines 8 nodes 9 dead, then taken:NODE of every member and of every dead node
-- ARGV  1 number 2 how many members 3 how many dead, then their names in the order of the keys
-- Returns  layout names, and then: unpublished | ended record | failed (it is among the errors) | held node | later until-when | queued | settled |
--          unknown; or: moved (someone came or went meanwhile: look again) | none
--+ common
local number, members, dead = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local m = redis.call('HMGET', KEYS[1], 'birth', 'layout', 'names', 'seq')
if not m[1] then return {'none'} end
if redis.call('ZCARD', KEYS[8]) ~= members or redis.call('LLEN', KEYS[9]) ~= dead then return {'moved'} end
local function answer(...) return {'ok', tonumber(m[2]) or 0, m[3] or '', ...} end
if number >= (tonumber(m[4] or '') or 0) then return answer('unpublished') end
local _, wall = hive(0, 0, 0)
local record = redis.pcall('HGET', KEYS[2], ARGV[1])
local fine, fields = pcall(cmsgpack.unpack, type(record) == 'string' and record or '')
fine = fine and type(fields) == 'table' and type(fields[1]) == 'number' and type(fields[2]) == 'number'
local ended = fine and fields[1] > 0
if ended and fields[2] + $ENDING_MS <= wall then ended = false end -- guard: ending-until
if ended then return answer('ended', record) end
local failed = redis.pcall('ZSCORE', KEYS[3], ARGV[1])
if type(failed) == 'string' then return answer('failed') end
-- Whether a pack has it.
local function has(pack)
  local count, first = nil, nil
  if type(pack) == 'string' then count, first = sound(pack) end
  return count and number >= first and number < first + count
end
for i = 1, members + dead do
  local taken, name, best = KEYS[9 + i], ARGV[3 + i], nil
  local is_there = nil
  if i <= members then is_there = redis.call('ZSCORE', KEYS[8], name) else is_there = redis.call('LPOS', KEYS[9], name) end
  if not is_there then return {'moved'} end
  local names = redis.pcall('HKEYS', taken)
  for _, field in ipairs(names.err and {} or names) do
    local first = tonumber(string.match(field, '^%d+$') or '')
    if first and first <= number and (not best or first > best) then best = first end
    if string.sub(field, 1, 5) == 'pack:' and has(redis.call('HGET', taken, field)) then return answer('held', name) end
  end
  if best and has(redis.call('HGET', taken, num(best))) then return answer('held', name) end
end
if fine and fields[1] == 0 then
  if fields[2] > wall then return answer('later', fields[2]) end
  return answer('queued')
end
local function length(command, key)
  local n = redis.pcall(command, key)
  return type(n) == 'number' and n or 1
end
-- Nobody asked for it. It has ended, if it can be nowhere.
local first = redis.pcall('LINDEX', KEYS[4], 0)
local begins = first == false or type(first) == 'string' and (select(2, sound(first)) or 0) > number
if begins and length('LLEN', KEYS[5]) + length('ZCARD', KEYS[6]) + length('ZCARD', KEYS[7]) == 0 then return answer('settled') end
return answer('unknown')
