-- purge: removes a queue. The server frees the memory aside: UNLINK takes the same time however much there is.
-- KEYS  1 meta 2 nodes 3 dead 4 readers 5.. all other keys of the queue
-- ARGV  1 how many members 2 how many dead 3 how many readers were seen 4 forced, then their names
-- Returns  gone 0 | alive how-many | moved 0 (someone came or went meanwhile: look again) | none 0
--+ common
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step')
if not m[1] then return {'none', 0} end
if redis.call('ZCARD', KEYS[2]) ~= tonumber(ARGV[1]) or redis.call('LLEN', KEYS[3]) ~= tonumber(ARGV[2])
  or redis.call('ZCARD', KEYS[4]) ~= tonumber(ARGV[3]) then return {'moved', 0} end
local members, dead = tonumber(ARGV[1]), tonumber(ARGV[2])
for i = 5, #ARGV do
  local there
  if i - 4 <= members then there = redis.call('ZSCORE', KEYS[2], ARGV[i])
  elseif i - 4 <= members + dead then there = redis.call('LPOS', KEYS[3], ARGV[i])
  else there = redis.call('ZSCORE', KEYS[4], ARGV[i]) end
  if not there then return {'moved', 0} end
end
local clock = hive(m[1], m[2], m[3])
local alive = redis.call('ZCOUNT', KEYS[2], '(' .. num(clock), '+inf')
if alive > 0 and ARGV[4] ~= '1' then return {'alive', alive} end -- guard: purge-alive
for i = 1, #KEYS, 1000 do redis.call('UNLINK', unpack(KEYS, i, math.min(i + 999, #KEYS))) end
return {'gone', 0}
