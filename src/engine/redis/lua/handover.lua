-- handover: lets a member take the crown with its next beat. Until that very step the generator reigns.
-- KEYS  1 meta 2 nodes 3 crown
-- ARGV  1 node, * for any but the generator, or nothing: nobody after all
-- Returns  asked | reigns | unknown | none
--+ common
redis.call('HDEL', KEYS[1], '') -- guard: opener-handover
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step', 'generator', 'crown')
if not m[1] then return 'none' end
local clock = hive(m[1], m[2], m[3])
local to = ARGV[1]
if to ~= '' and to ~= '*' then
  if not redis.call('ZSCORE', KEYS[2], to) then return 'unknown' end
  if m[4] == to and tonumber(m[5]) > clock then return 'reigns' end
end
redis.call('HSET', KEYS[1], 'chosen', to)
if to ~= '' then
  ring(KEYS[3])
  redis.pcall('PUBLISH', KEYS[3], '1')
end
return 'asked'
