-- cancel_group: cancels all messages of a group that were published so far.
-- KEYS  1 meta 2 later 3 groups
-- ARGV  1 group
-- Returns  ok how-many-wait | many (too many groups are cancelled) | none
--+ common
--+ cancels
redis.call('HDEL', KEYS[1], '') -- guard: opener-pause
local m = redis.call('HMGET', KEYS[1], 'birth', 'seq', 'paused', 'cancels', 'clock', 'wall', 'step')
if not m[1] then return {'none'} end
local c, group = cancels_read(m[4]), ARGV[1]
if not c.groups[group] and cancels_size(c.groups) >= $CANCELLED_GROUPS_MAX then return {'many'} end
local waiting = tonumber(redis.call('ZSCORE', KEYS[3], group) or 0)
if (tonumber(m[2]) or 0) > 0 then
  local clock, wall = hive(m[5], m[6], m[7])
  local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
  c.groups[group] = {m[2] - 1, clock + math.max((tonumber(last[2]) or 0) - wall, 0) + $CANCEL_MS}
  -- What was requeued before is cancelled now.
  for n, of in pairs(c.spared) do
    if of == group then c.spared[n] = nil end
  end
  cancels_write(KEYS[1], c, tonumber(m[3]) or 0)
end
return {'ok', waiting}
