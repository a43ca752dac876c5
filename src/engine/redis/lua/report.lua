-- report: stores what a member reports of itself, and adds what it did since its last report to the sums over time.
-- KEYS  1 nodes 2 taken:NODE 3 history
-- ARGV  1 node 2 number of the report 3 about the node (msgpack) 4 figures (msgpack) 5 gauges (msgpack, or nothing), then step and
--       number of steps of each ring
-- Returns  stored | look (stored, and please look how full the queue is) | stranger
-- A slot of a ring is overwritten when its turn comes again: whatever clocks do, a ring never grows.
-- When memory is full, Redis refuses the first write, and only this report is lost.
--+ common
local node = ARGV[1]
if not redis.call('ZSCORE', KEYS[1], node) then return 'stranger' end -- guard: report-member
local last = tonumber(redis.call('HGET', KEYS[2], 'report_number') or 0) or 0
if tonumber(ARGV[2]) <= last then return 'stored' end -- guard: report-once
local _, wall = hive(0, 0, 0)
redis.call('HSET', KEYS[2], 'report', ARGV[3], 'report_number', ARGV[2], 'report_ms', num(wall))

local figures, gauges = cmsgpack.unpack(ARGV[4]), ARGV[5] ~= '' and cmsgpack.unpack(ARGV[5])
local fields, indices = {}, {}
for i = 6, #ARGV, 2 do
  local index = math.floor(wall / ARGV[i])
  indices[#indices + 1] = index
  fields[#fields + 1] = num(#fields) .. ':' .. num(index % ARGV[i + 1])
end
local slots, changes, fresh = redis.call('HMGET', KEYS[3], unpack(fields)), {}, {}
for i, index in ipairs(indices) do
  -- What cannot be read begins anew.
  local fine, slot = pcall(cmsgpack.unpack, slots[i] or '')
  fresh[i] = not fine or type(slot) ~= 'table' or slot[1] ~= index
  if fresh[i] then slot = {index} end
  for k, n in ipairs(figures) do slot[k + 1] = (tonumber(slot[k + 1]) or 0) + n end
  for k, n in ipairs(gauges or {}) do slot[#figures + 1 + k] = n end
  changes[#changes + 1] = fields[i]
  changes[#changes + 1] = cmsgpack.pack(slot)
end
redis.call('HSET', KEYS[3], unpack(changes))
local few = redis.call('ZCARD', KEYS[1]) <= $LOOK_NODES_MAX
return not gauges and (fresh[2] or few and fresh[1]) and 'look' or 'stored'
