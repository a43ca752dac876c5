-- status: one consistent look. Writes nothing.
-- KEYS  1 meta 2 nodes 3 dead 4 errors 5 later 6 readers 7 queue 8 again 9 lines 10 groups 11 groups:paused, then taken:NODE of every member, of every dead node,
--       and errors:READER of every reader
-- ARGV  1 how many members 2 how many dead 3 how many readers, then their names in the order of the keys
-- Returns  ok and by name: birth layout names time_ms epoch published skipped orphaned (in the hands of the dead) later done failed
--          errors requeued paused limit cancels trimmed rewinds grain damaged waits (packs in `queue`, `again` and `lines`) groups grouped longest {group, length, ...}
--          paused_groups nodes, maybe generator
--          generator_heard_ago_ms; of each node, by name: node process age_ms in_hand done failed lease_in_ms silent_ms, maybe report
--          report_number report_ms | moved (someone came or went meanwhile: look again) | none
--+ common
local members, dead, readers = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local m = redis.call('HMGET', KEYS[1], 'birth', 'clock', 'wall', 'step', 'generator', 'epoch', 'crown', 'seq', 'done',
  'failed', 'requeued', 'rewinds', 'grain', 'skipped', 'layout', 'names', 'paused', 'trimmed', 'ruled', 'damaged', 'limit', 'cancels')
if not m[1] then return {'none'} end
if redis.call('ZCARD', KEYS[2]) ~= members or redis.call('LLEN', KEYS[3]) ~= dead
  or redis.call('ZCARD', KEYS[6]) ~= readers then return {'moved'} end
-- A look works whatever someone has written into the queue.
local function count(text)
  local n = tonumber(text or '')
  return n and n >= 0 and n <= $COUNTER_MAX + 1 and math.floor(n) or 0
end
local function length(command, key)
  local n = redis.pcall(command, key)
  return type(n) == 'number' and n or 0
end
local fine, clock, wall = pcall(hive, m[2], m[3], m[4])
if not fine then clock, wall = hive(0, 0, 0) end
-- What the hive clock would show if it had not stood still while nobody beat: for people. No lease ends by it.
local shown = count(m[2]) + math.max(wall - count(m[3]), 0)
local nodes = {}
for i = 1, members do
  local taken, held, done, failed = KEYS[11 + i], 0, 0, 0
  local lease = redis.call('ZSCORE', KEYS[2], ARGV[3 + i])
  if not lease then return {'moved'} end
  -- Lanes are numbered from 0. A node may hold very much: nothing here goes through all of it.
  local number, record = 0, redis.pcall('HGET', taken, 'lane:0')
  while type(record) == 'string' do
    local fine, _, _, lane_done, lane_failed, lane_held = pcall(cmsgpack.unpack_limit, record, 4, 1)
    if fine then done, failed, held = done + count(lane_done), failed + count(lane_failed), held + (tonumber(lane_held) or 0) end
    number = number + 1
    record = redis.pcall('HGET', taken, 'lane:' .. num(number))
  end
  local about = redis.pcall('HMGET', taken, 'process', 'joined', 'report', 'report_number', 'report_ms')
  nodes[i] = {'node', ARGV[3 + i], 'process', about[1] or '', 'age_ms', math.max(clock - count(about[2]), 0), 'in_hand', math.max(held, 0),
    'done', done, 'failed', failed, 'lease_in_ms', count(lease - shown), 'silent_ms', count(shown - lease)}
  local report = about[3] and {'report', about[3], 'report_number', count(about[4]), 'report_ms', count(about[5])} or {}
  for _, value in ipairs(report) do table.insert(nodes[i], value) end
end
local orphaned = 0
for i = 1, dead do
  if not redis.call('LPOS', KEYS[3], ARGV[3 + members + i]) then return {'moved'} end
  local held = redis.pcall('HGET', KEYS[11 + members + i], 'held')
  orphaned = orphaned + (type(held) == 'string' and count(held) or 0)
end
local errors = length('ZCARD', KEYS[4])
for i = 1, readers do errors = errors + math.max(length('LLEN', KEYS[11 + members + dead + i]) - 1, 0) end
local grouped = length('ZCARD', KEYS[9])
local waits = length('LLEN', KEYS[7]) + length('LLEN', KEYS[8]) + grouped
-- Scores that someone else wrote are no lengths.
local longest, paused = redis.pcall('ZREVRANGE', KEYS[10], 0, $LONGEST_GROUPS - 1, 'WITHSCORES'), redis.pcall('ZRANGE', KEYS[11], 0, -1)
if longest.err then longest = {} end
if paused.err then paused = {} end
for i = 2, #longest, 2 do longest[i] = count(longest[i]) end
local answer = {'ok', 'birth', m[1], 'layout', count(m[15]), 'names', m[16] or '', 'time_ms', wall, 'epoch', count(m[6]),
  'published', count(m[8]), 'skipped', count(m[14]), 'orphaned', orphaned, 'later', length('ZCARD', KEYS[5]), 'done', count(m[9]),
  'failed', count(m[10]), 'errors', errors, 'requeued', count(m[11]), 'paused', count(m[17]), 'limit', m[21] or '', 'cancels', m[22] or '', 'trimmed', count(m[18]),
  'rewinds', count(m[12]), 'grain', count(m[13]), 'damaged', count(m[20]), 'waits', waits,
  'groups', length('ZCARD', KEYS[10]), 'grouped', grouped, 'longest', longest, 'paused_groups', paused, 'nodes', nodes}
local function tell(name, value)
  answer[#answer + 1] = name
  answer[#answer + 1] = value
end
if count(m[7]) > shown and m[5] and m[5] ~= '' then tell('generator', m[5]) end
if count(m[19]) > 0 then tell('generator_heard_ago_ms', math.max(wall - count(m[19]), 0)) end
return answer
