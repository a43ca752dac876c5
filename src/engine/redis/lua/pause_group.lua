-- pause_group: pauses a group, or lets it go on. What is in flight is finished all the same.
-- KEYS  1 meta 2 bell 3 groups:paused 4 lines 5 ready 6 turns 7 groups
-- ARGV  1 group 2 paused (1) or not (0)
-- Returns  ok how-many-wait | many (too many are paused) | none
-- `groups:paused` only lists what `turns` says of each group: takes look there.
--+ common
local at = 4
--+ groups
local m = redis.call('HMGET', KEYS[1], 'birth', 'again')
if not m[1] then return {'none'} end
local lack = misplaced()
if lack then return lack end
local group, paused = ARGV[1], ARGV[2] == '1'
look_up({group})
local turn, waiting = state[group], tonumber(redis.call('ZSCORE', KEYS[7], group) or 0)
if paused and not is_paused(turn) and redis.call('ZCARD', KEYS[3]) >= $PAUSED_GROUPS_MAX then return {'many'} end
redis.call('HDEL', KEYS[1], '') -- guard: opener-pause
if paused then redis.call('ZADD', KEYS[3], 0, group) else redis.call('ZREM', KEYS[3], group) end
if paused ~= is_paused(turn) then change(group, turn + (paused and 2 or -2)) end
if not paused and waiting > 0 then
  offer(group)
  ring(KEYS[2])
end
save()
mark_ready(KEYS[1], m[2] or '0')
return {'ok', waiting}
