-- renew: the part of a beat that every member needs: renews the lease and moves the hive clock, as beat.lua does. It makes no functions,
-- and reads and tells little: a third of the time. Whether there is more to do, the caller sees from the answer, and then beats.
-- KEYS  1 meta 2 nodes 3 unheard
-- ARGV  1 node 2 lease
-- Returns  one text, which costs a tenth of a list: clock wall paused crown seq made epoch heirs chosen server due generator, each on a line
--          | nothing (nothing is written)
-- What full memory or a missing right does not let it write is taken back: beat.lua knows what to do about these.
-- Someone has not spoken to this server yet, perhaps this one: a server may be the one before last again.
if redis.call('LLEN', KEYS[3]) > 0 then return end
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step', 'paused', 'crown', 'seq', 'made', 'epoch', 'heirs', 'chosen', 'server', 'due', 'generator')
local clock, seen, step = tonumber(m[1]), tonumber(m[2]), tonumber(m[3])
if not (clock and seen and step and m[4] and m[5] and m[6] and m[7] and m[8] and m[9] and m[10] and m[11] and m[12] and m[13]) then return end
-- What is no clock is for beat.lua to tell.
if clock < 0 or clock > $COUNTER_MAX or clock % 1 ~= 0 or step < 0 or step % 1 ~= 0 then return end
local told = '\n' .. m[4] .. '\n' .. m[5] .. '\n' .. m[6] .. '\n' .. m[7] .. '\n' .. m[8] .. '\n' .. m[9] .. '\n' .. m[10] .. '\n' .. m[11] .. '\n' .. m[12] .. '\n' .. m[13]

local time = redis.call('TIME')
local wall = time[1] * 1000 + math.floor(time[2] / 1000)
-- As in hive().
clock = clock + math.min(math.max(wall - seen, 0), step)
local now, at, lease = string.format('%d', clock), string.format('%d', wall), string.format('%d', clock + ARGV[2])
if type(redis.pcall('HSET', KEYS[1], 'clock', now, 'wall', at)) == 'table' then return end
local whose = 'CH'
whose = 'XX' -- guard: renew-member
if redis.pcall('ZADD', KEYS[2], whose, 'CH', lease, ARGV[1]) == 1 then return now .. '\n' .. at .. told end
redis.call('HSET', KEYS[1], 'clock', m[1], 'wall', m[2])
