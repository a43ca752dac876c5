-- pause: pauses or resumes generating and handling. Stored as one number: 1 for the generator, plus 2 for the handlers; plus 4 if there is a
-- limit, and $CANCELS_BIT if something is cancelled.
-- KEYS  1 meta 2 bell
-- ARGV  1 generator (1 pause, 0 resume, or nothing) 2 handlers, the same
-- Returns  ok what-is-paused-now | none
--+ common
redis.call('HDEL', KEYS[1], '') -- guard: opener-pause
local m = redis.call('HMGET', KEYS[1], 'birth', 'paused')
if not m[1] then return {'none'} end
local bits = tonumber(m[2])
local generator, handlers, others = bits % 2, math.floor(bits / 2) % 2, math.floor(bits / 4)
if ARGV[1] ~= '' then generator = tonumber(ARGV[1]) end
if ARGV[2] ~= '' then handlers = tonumber(ARGV[2]) end
redis.call('HSET', KEYS[1], 'paused', num(generator + 2 * handlers + 4 * others), 'shortcut', '')
if handlers == 0 then ring(KEYS[2]) end -- guard: resume-bell
return {'ok', generator + 2 * handlers}
