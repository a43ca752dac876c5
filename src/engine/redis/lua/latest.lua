-- latest: failed messages by number, the largest first, without taking them. Writes nothing.
-- KEYS  1 errors 2 errors:records
-- ARGV  1 below this number 2 most
-- Returns  records
--+ common
local batch, bytes, chunk, below, want = {}, 0, 1, '(' .. ARGV[1], tonumber(ARGV[2])
while #batch < want and bytes < $COLLECT_BYTES_MAX do
  local numbers = redis.call('ZREVRANGEBYSCORE', KEYS[1], below, '-inf', 'LIMIT', 0, math.min(chunk, want - #batch))
  if #numbers == 0 then break end
  for _, record in ipairs(redis.call('HMGET', KEYS[2], unpack(numbers))) do
    batch[#batch + 1] = record
    bytes = bytes + #record
  end
  below, chunk = '(' .. numbers[#numbers], math.min(chunk * 2, $CHUNK_MAX)
end
return batch
