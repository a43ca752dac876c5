-- What cannot be read is set aside: the last of it is kept in `damaged`, with the place where it was, and all of it is counted.
-- Nothing here may stop a script in its midst.
local function set_aside(meta, damaged, place, bytes)
  redis.pcall('RPUSH', damaged, cmsgpack.pack({place, bytes}))
  redis.pcall('LTRIM', damaged, -$DAMAGED_MAX, -1)
  redis.pcall('HINCRBY', meta, 'damaged', 1)
end
