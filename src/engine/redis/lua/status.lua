-- status: one consistent look. Writes nothing.
-- KEYS  1 meta 2 nodes 3 dead 4 errors 5 later 6 readers, then taken:NODE of every member, of every dead node,
--       and errors:READER of every reader
-- ARGV  1 how many members 2 how many dead 3 how many readers, then their names in the order of the keys
-- Returns  ok and by name: birth layout names time_ms epoch published skipped orphaned (in the hands of the dead) later done failed
--          errors requeued paused trimmed rewinds grain nodes, maybe generator generator_heard_ago_ms; of each node, by name:
--          node process age_ms in_hand done failed lease_in_ms silent_ms, maybe report report_number report_ms | moved (someone came or went meanwhile: look again) | none
--+ common
local members, dead, readers = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local m = redis.call('HMGET', KEYS[1], 'birth', 'clock', 'wall', 'step', 'generator', 'epoch', 'crown', 'seq', 'done',
  'failed', 'requeued', 'rewinds', 'grain', 'skipped', 'layout', 'names', 'paused', 'trimmed', 'ruled')
if not m[1] then return {'none'} end
if redis.call('ZCARD', KEYS[2]) ~= members or redis.call('LLEN', KEYS[3]) ~= dead
  or redis.call('ZCARD', KEYS[6]) ~= readers then return {'moved'} end
local clock, wall = hive(m[2], m[3], m[4])
-- What the hive clock would show if it had not stood still while nobody beat: for people. No lease ends by it.
local shown = m[2] + math.max(wall - m[3], 0)
local nodes = {}
for i = 1, members do
  local taken, held, done, failed = KEYS[6 + i], 0, 0, 0
  local lease = redis.call('ZSCORE', KEYS[2], ARGV[3 + i])
  if not lease then return {'moved'} end
  -- Lanes are numbered from 0. A node may hold very much: nothing here goes through all of it.
  local number, record = 0, redis.call('HGET', taken, 'lane:0')
  while record do
    local lane = cmsgpack.unpack(record)
    done, failed, held, number = done + lane[2], failed + lane[3], held + lane[4], number + 1
    record = redis.call('HGET', taken, 'lane:' .. num(number))
  end
  local about = redis.call('HMGET', taken, 'process', 'joined', 'report', 'report_number', 'report_ms')
  nodes[i] = {'node', ARGV[3 + i], 'process', about[1], 'age_ms', math.max(clock - about[2], 0), 'in_hand', math.max(held, 0),
    'done', done, 'failed', failed, 'lease_in_ms', math.max(lease - shown, 0),
    'silent_ms', math.max(shown - lease, 0)}
  local report = about[3] and {'report', about[3], 'report_number', about[4], 'report_ms', about[5]} or {}
  for _, value in ipairs(report) do table.insert(nodes[i], value) end
end
local orphaned = 0
for i = 1, dead do
  if not redis.call('LPOS', KEYS[3], ARGV[3 + members + i]) then return {'moved'} end
  orphaned = orphaned + (redis.call('HGET', KEYS[6 + members + i], 'held') or 0)
end
local errors = redis.call('ZCARD', KEYS[4])
for i = 1, readers do errors = errors + math.max(redis.call('LLEN', KEYS[6 + members + dead + i]) - 1, 0) end
local answer = {'ok', 'birth', m[1], 'layout', m[15], 'names', m[16], 'time_ms', wall, 'epoch', m[6], 'published', m[8],
  'skipped', m[14], 'orphaned', orphaned, 'later', redis.call('ZCARD', KEYS[5]), 'done', m[9], 'failed', m[10], 'errors', errors,
  'requeued', m[11], 'paused', m[17], 'trimmed', m[18], 'rewinds', m[12], 'grain', m[13], 'nodes', nodes}
local function tell(name, value)
  answer[#answer + 1] = name
  answer[#answer + 1] = value
end
if tonumber(m[7]) > shown and m[5] ~= '' then tell('generator', m[5]) end
if tonumber(m[19]) > 0 then tell('generator_heard_ago_ms', math.max(wall - m[19], 0)) end
return answer
