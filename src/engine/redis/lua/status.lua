-- status: one consistent look. Writes nothing.
-- KEYS  1 meta 2 nodes 3 dead 4 errors 5 later 6 readers, then taken:NODE of every member, of every dead node,
--       and errors:READER of every reader
-- ARGV  1 how many members 2 how many dead 3 how many readers, then their names in the order of the keys
-- Returns  ok meta errors later nodes held-by-the-dead wall | moved (someone came or went meanwhile: look again) | none
--+ common
local members, dead, readers = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local m = redis.call('HMGET', KEYS[1], 'birth', 'clock', 'wall', 'step', 'generator', 'epoch', 'crown', 'seq', 'done',
  'failed', 'requeued', 'rewinds', 'grain', 'skipped', 'layout', 'names', 'paused', 'trimmed')
if not m[1] then return {'none'} end
if redis.call('ZCARD', KEYS[2]) ~= members or redis.call('LLEN', KEYS[3]) ~= dead
  or redis.call('ZCARD', KEYS[6]) ~= readers then return {'moved'} end
local clock, wall = hive(m[2], m[3], m[4])
local nodes = {}
for i = 1, members do
  local taken, held, done, failed = KEYS[6 + i], 0, 0, 0
  local lease = redis.call('ZSCORE', KEYS[2], ARGV[3 + i])
  if not lease then return {'moved'} end
  for _, field in ipairs(redis.call('HKEYS', taken)) do
    if string.sub(field, 1, 5) == 'lane:' then
      local lane = cmsgpack.unpack(redis.call('HGET', taken, field))
      done, failed, held = done + lane[2], failed + lane[3], held + lane[4]
    end
  end
  local about = redis.call('HMGET', taken, 'info', 'joined', 'told', 'told-at', 'report')
  nodes[i] = {ARGV[3 + i], about[1], math.max(clock - about[2], 0), held, done, failed,
    math.max(lease - clock, 0), tonumber(about[3] or 0), tonumber(about[4] or 0), about[5] or ''}
end
local orphaned = 0
for i = 1, dead do
  if not redis.call('LPOS', KEYS[3], ARGV[3 + members + i]) then return {'moved'} end
  orphaned = orphaned + (redis.call('HGET', KEYS[6 + members + i], 'held') or 0)
end
local errors = redis.call('ZCARD', KEYS[4])
for i = 1, readers do errors = errors + math.max(redis.call('LLEN', KEYS[6 + members + dead + i]) - 1, 0) end
local generator = tonumber(m[7]) > clock and m[5] or ''
return {'ok', {m[1], generator, tonumber(m[6]), tonumber(m[8]), tonumber(m[9]), tonumber(m[10]), tonumber(m[11]),
  tonumber(m[12]), tonumber(m[13]), tonumber(m[14]), tonumber(m[15]), m[16], tonumber(m[17] or 0),
  tonumber(m[18] or 0)}, errors, redis.call('ZCARD', KEYS[5]), nodes, orphaned, wall}
