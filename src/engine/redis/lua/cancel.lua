-- cancel: cancels messages.
-- KEYS  1 meta 2 later 3 errors 4 asked
-- ARGV  the numbers
-- Returns  ok {of each: asked | ended | unpublished | many} | none
--+ common
--+ cancels
redis.call('HDEL', KEYS[1], '') -- guard: opener-pause
local m = redis.call('HMGET', KEYS[1], 'birth', 'seq', 'paused', 'cancels', 'clock', 'wall', 'step')
if not m[1] then return {'none'} end
local clock, wall = hive(m[5], m[6], m[7])
local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
local till = clock + math.max((tonumber(last[2]) or 0) - wall, 0) + $CANCEL_MS
local c, answers = cancels_read(m[4]), {}
local size = cancels_size(c.numbers)
for i, text in ipairs(ARGV) do
  local n, answer = tonumber(text), nil
  if n >= (tonumber(m[2]) or 0) then answer = 'unpublished' end -- guard: cancel-published
  if not answer then
    local fine, fields = pcall(cmsgpack.unpack, redis.call('HGET', KEYS[4], text) or '')
    local ended = fine and type(fields) == 'table' and (fields[1] == 1 or fields[1] == 2) or redis.call('ZSCORE', KEYS[3], text)
    if ended then answer = 'ended' end -- guard: cancel-ending
  end
  if not answer and not c.numbers[n] and size >= $CANCELS_MAX then answer = 'many' end -- guard: cancel-max
  if not answer then
    if not c.numbers[n] then size = size + 1 end
    c.numbers[n], c.changed, answer = till, true, 'asked'
  end
  answers[i] = answer
end
if c.changed then cancels_write(KEYS[1], c, tonumber(m[3]) or 0) end
return {'ok', answers}
