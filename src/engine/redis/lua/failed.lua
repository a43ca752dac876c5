-- failed: which failed messages one answer can carry, by number, up or down. Writes nothing.
-- KEYS  1 errors 2 errors:records
-- ARGV  1 from this number up, or below this number down 2 up or down 3 most
-- Returns  their numbers: as many as have records of a bounded size, one at least
-- The records are read by a plain command after this: Lua would read every byte of them.
--+ common
local down, want = ARGV[2] == 'down', tonumber(ARGV[3])
local batch, bytes, from = {}, 0, down and '(' .. ARGV[1] or ARGV[1]
while #batch < want do
  local numbers, most = nil, math.min($CHUNK_MAX, want - #batch)
  if down then numbers = redis.call('ZREVRANGEBYSCORE', KEYS[1], from, '-inf', 'LIMIT', 0, most)
  else numbers = redis.call('ZRANGEBYSCORE', KEYS[1], from, '+inf', 'LIMIT', 0, most) end
  if #numbers == 0 then break end
  for _, number in ipairs(numbers) do
    bytes = bytes + redis.call('HSTRLEN', KEYS[2], number)
    if #batch > 0 and bytes > $COLLECT_BYTES_MAX then return batch end
    -- Whoever collects sets aside what is no number.
    if string.match(number, '^%d+$') then batch[#batch + 1] = number end
  end
  from = '(' .. redis.call('ZSCORE', KEYS[1], numbers[#numbers])
end
return batch
