-- purge: removes a queue. UNLINK takes the same time however large it is: the server frees the memory in the background.
-- KEYS  1 meta 2 nodes 3 dead 4 readers 5.. all other keys of the queue
-- ARGV  1 forced 2 how many members 3 how many dead 4 how many readers were seen, then their names
-- Returns  gone | alive how-many | moved (someone came or went meanwhile: look again) | none
--+ common
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step')
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
local clock = hive(m[1], m[2], m[3])
local alive = redis.call('ZCOUNT', KEYS[2], '(' .. num(clock), '+inf')
if alive > 0 and ARGV[1] ~= '1' then return {'alive', alive} end -- guard: purge-alive
for i = 1, #KEYS, $UNPACK_MAX do redis.call('UNLINK', unpack(KEYS, i, math.min(i + ($UNPACK_MAX - 1), #KEYS))) end
return {'gone'}
