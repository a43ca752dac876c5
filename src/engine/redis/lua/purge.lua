-- purge: removes a queue. UNLINK takes the same time however large it is: the server frees the memory in the background.
-- KEYS  1 meta 2 nodes 3 dead 4 readers 5 purged 6.. all other keys of the queue
-- ARGV  1 forced 2 how many members 3 how many dead 4 how many readers were seen, then their names
-- Returns  gone | alive how-many | moved (someone came or went meanwhile: look again) | none
--+ common
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step', 'birth')
if not m[1] then return {'none'} end
local members, dead, readers = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
if redis.call('ZCARD', KEYS[2]) ~= members or redis.call('LLEN', KEYS[3]) ~= dead
  or redis.call('ZCARD', KEYS[4]) ~= readers then return {'moved'} end
for i = 5, #ARGV do
  local there
  if i - 4 <= members then there = redis.call('ZSCORE', KEYS[2], ARGV[i])
  elseif i - 4 <= members + dead then there = redis.call('LPOS', KEYS[3], ARGV[i])
  else there = redis.call('ZSCORE', KEYS[4], ARGV[i]) end
  if not there then return {'moved'} end
end
-- A clock that someone has changed into no number keeps nobody from removing the queue.
local fine, clock, wall = pcall(hive, m[1], m[2], m[3])
if not fine then clock, wall = hive(0, 0, 0) end
local alive = fine and redis.call('ZCOUNT', KEYS[2], '(' .. num(clock), '+inf') or members
if alive > 0 and ARGV[1] ~= '1' then return {'alive', alive} end -- guard: purge-alive
redis.call('UNLINK', unpack(KEYS, 1, 4))
for i = 6, #KEYS, $UNPACK_MAX do redis.call('UNLINK', unpack(KEYS, i, math.min(i + ($UNPACK_MAX - 1), #KEYS))) end
-- Members that come back are not to take it for a store that forgot.
if members + dead > 0 then
  local births, before = {m[4]}, redis.call('HMGET', KEYS[5], 'births', 'until')
  for birth in string.gmatch(before[1] and (tonumber(before[2] or 0) or 0) > wall and before[1] or '', '%S+') do
    if #births < $PURGED_MAX then births[#births + 1] = birth end
  end
  redis.call('HSET', KEYS[5], 'births', table.concat(births, ' '), 'until', num(wall + $PURGED_MS))
  -- Where that is not allowed, nothing is left behind for good.
  if type(redis.pcall('PEXPIRE', KEYS[5], $PURGED_MS)) == 'table' then redis.call('UNLINK', KEYS[5]) end
end
return {'gone'}
