-- hold: renews the lease of a reader of errors while its output blocks.
-- KEYS  1 meta 2 readers
-- ARGV  1 reader 2 lease
-- Returns  1, or 0 if the reader was given up
--+ common
redis.call('HDEL', KEYS[1], '') -- guard: opener-hold
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step')
if not m[1] then return 0 end
local clock, wall = hive(m[1], m[2], m[3])
redis.call('HSET', KEYS[1], 'clock', num(clock), 'wall', num(wall))
if not redis.call('ZSCORE', KEYS[2], ARGV[1]) then return 0 end -- guard: hold-member
redis.call('ZADD', KEYS[2], num(clock + ARGV[2]), ARGV[1])
return 1
