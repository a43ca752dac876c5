-- find: where a message is. Writes nothing. Looks through what nodes have in hand, and through the first of each place where messages wait.
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
-- Nobody asked for it, so it is looked for among the first of each place. It has ended, if these were all, and it is nowhere.
local bytes, all = 0, true
local function waits(count, key, read)
  local n = redis.pcall(count, key)
  if type(n) ~= 'number' then n, all = 0, false end
  if n > $FOUND_MAX then all = false end -- guard: found-all
  for i = 0, math.min(n, $FOUND_MAX) - 1 do
    local pack, due = read(key, i)
    bytes = bytes + #pack
    if has(pack) then return true, due end
    if bytes > $FOUND_BYTES_MAX then all = false; return end
  end
end
local function of_list(key, i) return redis.call('LINDEX', key, i) end
-- The number in eight bytes, the pack.
local function of_later(key, i)
  local entry, due = unpack(redis.call('ZRANGE', key, i, i, 'WITHSCORES'))
  return string.sub(entry, 9), due
end
-- GROUP, a NUL, the number in eight bytes, the pack.
local function of_lines(key, i)
  local entry = redis.call('ZRANGE', key, i, i)[1]
  return string.sub(entry, (string.find(entry, '\0', 1, true) or 0) + 9)
end
-- What is given back unhandled is at the head of the queue, in any order; behind that, numbers grow.
local function is_deep()
  local from, to = $FOUND_MAX, redis.pcall('LLEN', KEYS[4])
  if type(to) ~= 'number' or to > $FOUND_DEEP_MAX then return end
  while from < to do
    local middle = math.floor((from + to) / 2)
    local count, first = sound(redis.call('LINDEX', KEYS[4], middle))
    if not count then return end
    if number < first then to = middle elseif number >= first + count then from = middle + 1 else return true end
  end
end
local later, due = waits('ZCARD', KEYS[6], of_later)
if later and tonumber(due) > wall then return answer('later', tonumber(due)) end
if later or waits('LLEN', KEYS[4], of_list) or waits('LLEN', KEYS[5], of_list) or waits('ZCARD', KEYS[7], of_lines) then return answer('queued') end
if all then return answer('settled') end
return answer(is_deep() and 'queued' or 'unknown')
