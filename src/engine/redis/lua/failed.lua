-- failed: failed messages by number, up or down, without taking them. Writes nothing.
-- KEYS  1 errors 2 errors:records
-- ARGV  1 from this number up, or below this number down 2 up or down 3 most
-- Returns  {record, ...}
--+ common
local down, want = ARGV[2] == 'down', tonumber(ARGV[3])
local batch, bytes, chunk, from = {}, 0, 1, down and '(' .. ARGV[1] or ARGV[1]
while #batch < want and bytes < $COLLECT_BYTES_MAX do
  local numbers, most = nil, math.min(chunk, want - #batch)
  if down then numbers = redis.call('ZREVRANGEBYSCORE', KEYS[1], from, '-inf', 'LIMIT', 0, most)
  else numbers = redis.call('ZRANGEBYSCORE', KEYS[1], from, '+inf', 'LIMIT', 0, most) end
  if #numbers == 0 then break end
  for _, record in ipairs(redis.call('HMGET', KEYS[2], unpack(numbers))) do
    batch[#batch + 1] = record
    bytes = bytes + #record
  end
  from, chunk = '(' .. numbers[#numbers], math.min(chunk * 2, $CHUNK_MAX)
end
return batch
