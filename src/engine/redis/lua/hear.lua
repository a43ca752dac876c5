-- hear: whether all members have spoken to this run of this server, which may lack the last writes. Asked by a publish before it numbers
-- messages, once for each run.
-- KEYS  1 meta 2 nodes 3 unheard
-- ARGV  1 server
-- Returns  1 (publishes need not ask again) | 0 (some are silent, and not yet for their lease: publish later)
--+ common
--+ members
--+ rights
lack = lacks('HSET', 'RPUSH', 'DEL') -- guard: rights
if lack then return lack end
local _, wall = hive(0, 0, 0)
-- What is not there cannot be published to either.
if not redis.call('HGET', KEYS[1], 'layout') then return 1 end
if awaits_members(KEYS[1], KEYS[2], KEYS[3], ARGV[1], wall) then return 0 end
redis.call('HSET', KEYS[1], 'heard', ARGV[1])
return 1
