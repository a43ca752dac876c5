-- Whether the server has a connection that shows this node; if it does not tell, it may have.
local function is_connected(channel)
  local told = redis.pcall('PUBSUB', 'NUMSUB', channel)
  return told.err ~= nil or told[2] ~= 0
end
