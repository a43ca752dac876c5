-- reshard: changes the number of shards to what the caller's line says, which goes on from the one that is recorded.
-- KEYS  1 meta 2 crown 3 nodes 4 unheard
-- ARGV  1 key names and shards 2 server
-- Returns  ok | none | other layout names (not ours) | unheard (members may know of another reshard) | members (of a shard that was left over: they are to leave first)
--+ common
--+ members
--+ shards
redis.call('HDEL', KEYS[1], '') -- guard: opener-reshard
local m = redis.call('HMGET', KEYS[1], 'layout', 'names')
if not m[1] then return {'none'} end
local later = false
if tonumber(m[1]) <= $LAYOUT then
  local left_over, has_members = is_left_over(KEYS[1], KEYS[3], m[2], ARGV[1])
  if left_over and has_members then return {'members'} end
  later = left_over or goes_on(ARGV[1], m[2])
end
if not later and m[2] ~= ARGV[1] then return {'other', m[1], m[2]} end
local _, wall = hive(0, 0, 0)
local waits = later and awaits_members(KEYS[1], KEYS[3], KEYS[4], ARGV[2], wall)
if waits then return {'unheard'} end -- guard: reshard-unheard
if later then
  note_shards(KEYS[1], m[2], ARGV[1]) -- guard: reshard-note
  ring(KEYS[2])
  redis.pcall('PUBLISH', KEYS[2], '1')
end
return {'ok'}
