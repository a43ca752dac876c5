-- failed: failed messages by number, without taking them. Writes nothing.
-- KEYS  1 errors 2 errors:records
-- ARGV  1 from this number on 2 most
-- Returns  records
--+ common
local batch, bytes, chunk, from, want = {}, 0, 1, ARGV[1], tonumber(ARGV[2])
while #batch < want and bytes < $COLLECT_BYTES_MAX do
  local numbers = redis.call('ZRANGEBYSCORE', KEYS[1], from, '+inf', 'LIMIT', 0, math.min(chunk, want - #batch))
  if #numbers == 0 then break end
  for _, record in ipairs(redis.call('HMGET', KEYS[2], unpack(numbers))) do
    batch[#batch + 1] = record
    bytes = bytes + #record
  end
  from, chunk = '(' .. numbers[#numbers], math.min(chunk * 2, $CHUNK_MAX)
end
return batch
