-- trim: removes the oldest errors beyond as many as are to be kept, a bounded number a call, and counts them.
-- KEYS  1 meta 2 errors 3 errors:records
-- ARGV  1 how many to keep
-- Returns  the numbers of those that are gone
--+ common
--+ rights
--+ foreign
local excess = math.min(redis.call('ZCARD', KEYS[2]) - ARGV[1], $TRIM_MAX)
if excess <= 0 then return {} end
lack = lacks('HDEL', 'HINCRBY') -- guard: rights
lack = lack or foreign({'hash', 'zset', 'hash'}) -- guard: foreign
if lack then return lack end
local popped, gone = redis.call('ZPOPMIN', KEYS[2], num(excess)), {}
for i = 1, #popped, 2 do gone[#gone + 1] = popped[i] end
redis.call('HDEL', KEYS[3], unpack(gone))
redis.call('HINCRBY', KEYS[1], 'trimmed', #gone) -- guard: trimmed
for i = 1, #gone do gone[i] = tonumber(gone[i]) or 0 end
return gone
