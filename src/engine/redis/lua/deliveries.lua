-- How many deliveries a node allows; the default, if that cannot be read.
local function deliveries(taken)
  local readable, process = pcall(cmsgpack.unpack, redis.call('HGET', taken, 'process') or '')
  return readable and type(process) == 'table' and tonumber(process[5]) or 5
end
