-- publish: appends messages, if the caller is the generator of this very epoch and its lease still runs.
-- KEYS  1 meta 2 queue 3 bell; with large packs also 4 bodies 5 sending; with messages of groups these and 6 lines 7 ready 8 turns 9 groups
-- ARGV  1 node 2 epoch 3 made 4 first 5 numbers stay below (-1: no end) 6 most waiting 7 interval 8 cursor (or nothing) 9 it was
--       published before, and a failover has taken it back (1), the queue was full, and the bodies were not brought yet (2), as a sum
--       10 server 11.. packs
-- Returns  one text: seq made grain due_in_ms | fenced | gap | moved seq | full | paused | finished | bodies (some are not there: send again)
--          | unheard (members may have seen more: ask hear.lua)
-- The first write is RPUSH: when memory is full, Redis refuses it, and so nothing is written.
-- The bodies of large packs were written just before this, by commands of their own: those that are not published are removed
-- again. A body that is published has a count beside it. The names of all were put into `sending` first, where the next publish finds
-- those that nobody published. A late copy of another call may remove these, or full memory refuse one: then all are sent again.
--+ common
-- Lua makes functions anew in every call: those for large packs are made only where there are some.
local large, large_ones, sweep = false, nil, nil
for i = 11, #ARGV do large = large or string.byte(ARGV[i], 2) == 1 end
if large then
  --+ packs
  large_ones = function()
    local ids, counts = {}, {}
    for i = 11, #ARGV do
      if is_stub(ARGV[i]) then ids[#ids + 1], counts[#counts + 1] = body(ARGV[i]) end
    end
    return ids, counts
  end
  -- Removes the bodies that were brought and are not published, by this call or by one before it.
  sweep = function(published)
    local sent = redis.call('LRANGE', KEYS[5], 0, -1)
    for i = 1, published and #sent == 1 and 0 or #sent do
      local names = sent[i]
      for id in string.gmatch(names, '%S+') do
        local left = redis.call('HEXISTS', KEYS[4], id .. '+') == 0
        if left then redis.call('HDEL', KEYS[4], id) end -- guard: bodies-refused
      end
    end
    redis.call('DEL', KEYS[5])
  end
end
local function without_bodies(answer)
  if ARGV[9] >= '2' then return answer end
  local ids = large and large_ones() or {}
  if #ids > 0 then sweep() end
  -- Another call may have removed their names.
  for _, id in ipairs(ids) do
    if redis.call('HEXISTS', KEYS[4], id .. '+') == 0 then redis.call('HDEL', KEYS[4], id) end
  end
  return answer
end
-- As one text: a list would cost as much as reading the queue's state.
local function ok(seq, made, grain, due_in_ms)
  return num(seq) .. ' ' .. num(made) .. ' ' .. num(grain) .. ' ' .. num(due_in_ms)
end
local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step', 'generator', 'epoch', 'crown', 'seq', 'made', 'due',
  'grain', 'head', 'paused', 'hole', 'heard')
if not m[1] then return without_bodies({'fenced'}) end
local clock, wall = hive(m[1], m[2], m[3])
if m[4] ~= ARGV[1] or m[5] ~= ARGV[2] then return without_bodies({'fenced'}) end -- guard: token
if tonumber(m[6]) <= clock then return without_bodies({'fenced'}) end -- guard: crown-lease

local made, first, last = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
local n, reign, grouped = 0, tonumber(m[5]), nil
for i = 11, #ARGV do
  local version, flags, _, _, _, number, epoch, _, count = head(ARGV[i])
  if version ~= 1 or flags > 1 or number ~= first + n or epoch ~= reign or count < 1 then
    local fits = version == 2 and number == first + n and epoch == reign and sound(ARGV[i])
    local is_grouped = fits and string.byte(ARGV[i], 45) > 0
    if not fits or is_grouped and not KEYS[9] then return without_bodies(redis.error_reply('ERR queenright: malformed pack')) end
    grouped = grouped or is_grouped
  end
  n = n + count
end
local seq, due, interval, limit = m[7] + 0, tonumber(m[9]) or clock, tonumber(ARGV[7]), tonumber(ARGV[6])
local grain = tonumber(m[10]) or $GRAIN_START
local applied = false
applied = made + n <= tonumber(m[8]) -- guard: made
if applied then return without_bodies(ok(seq, m[8], grain, math.max(due - clock, 0))) end
if made ~= tonumber(m[8]) then return without_bodies({'gap'}) end -- guard: gap
if tonumber(m[12]) % 2 == 1 then return without_bodies({'paused'}) end -- guard: paused-generator
if m[14] ~= ARGV[10] and ARGV[10] ~= '' then return without_bodies({'unheard'}) end -- guard: publish-unheard
-- After a failover the generator publishes again what was lost, under the same numbers. Those of a hole are its own; at its end the
-- next number follows, unless others have pushed behind it.
local from, to = string.match(m[13] or '', '^(%d+) (%d+)$')
local fills = false
if from and first ~= seq then
  from, to = tonumber(from), tonumber(to)
  fills = first >= from and first < to and (first + n <= to or to == seq) -- guard: fills
  if ARGV[9] % 2 ~= 1 then fills = false end -- guard: fills-again
end
if first ~= seq and not fills then return without_bodies({'moved', seq}) end -- guard: moved
local behind = math.max(seq, first + n)
if last >= 0 and first + n > last then return without_bodies({'finished'}) end

-- The backlog is not counted but told from the number at the head of the queue, which is looked up only when the limit seems
-- reached.
local waiting_from = tonumber(m[11]) or 0
if behind - waiting_from > limit then
  local pack = redis.call('LINDEX', KEYS[2], 0)
  -- If it cannot be read, whoever takes it sets it aside.
  if pack then waiting_from = select(2, sound(pack)) or waiting_from else waiting_from = first end
  if behind - waiting_from > limit and not fills then return without_bodies({'full'}) end -- guard: full
end

for _, id in ipairs(large and large_ones() or {}) do
  if redis.call('HEXISTS', KEYS[4], id) == 0 then return without_bodies({'bodies'}) end -- guard: bodies-there
end
-- A right that someone has taken away must show before the first write; see rights.lua.
local lack = false
lack = redis.acl_check_cmd and not redis.acl_check_cmd('HSET') -- guard: rights
if lack then return without_bodies(redis.error_reply('NOPERM queenright: this user has no permissions to run HSET')) end
local pushed = nil
if grouped then
  local at, plain, lines = 6, {}, {}
  --+ groups
  local wrong = misplaced()
  if wrong then return without_bodies(wrong) end
  --+ rights
  lack = lacks('LLEN', 'ZADD', 'ZINCRBY', 'HMGET') -- guard: rights
  if lack then return without_bodies(lack) end
  for i = 11, #ARGV do
    local to = group_of(ARGV[i]) and lines or plain
    to[#to + 1] = ARGV[i]
  end
  local is_full = redis.call('ZCARD', KEYS[6]) + #lines > limit and not fills
  if is_full then return without_bodies({'full'}) end -- guard: full
  -- When memory is full, this is refused.
  pushed = redis.pcall('ZINCRBY', KEYS[9], 0, (group_of(lines[1])))
  if type(pushed) == 'table' then return without_bodies(pushed) end
  if #plain > 0 then redis.call('RPUSH', KEYS[2], unpack(plain)) end
  line_up(lines)
  mark_ready(KEYS[1], redis.call('HGET', KEYS[1], 'again') or '0')
else
  pushed = redis.pcall('RPUSH', KEYS[2], unpack(ARGV, 11))
  if type(pushed) == 'table' then return without_bodies(pushed) end
end
if large then
  local ids, left = large_ones()
  local marks = {}
  for i, id in ipairs(ids) do marks[2 * i - 1], marks[2 * i] = id .. '+', num(left[i]) end
  redis.call('HSET', KEYS[4], unpack(marks))
end
if interval > 0 then
  if due > clock + interval then due = clock end
  due = due + interval * math.max(1, math.floor((clock - due) / interval) + 1)
end
local fields = {'seq', num(behind), 'made', num(made + n), 'due', num(due), 'head', num(math.min(waiting_from, first))}
if ARGV[8] ~= '' then fields[9], fields[10] = 'cursor', ARGV[8] end -- guard: cursor
redis.call('HSET', KEYS[1], unpack(fields))
if fills then
  redis.call('HINCRBY', KEYS[1], 'skipped', num(-math.min(n, to - first)))
  if first + n < to then redis.call('HSET', KEYS[1], 'hole', num(first + n) .. ' ' .. num(to)) end -- guard: filled
end
if from and not (fills and first + n < to) then redis.call('HDEL', KEYS[1], 'hole') end
-- Whoever waits for the limit comes when there is more: a ring would make it come in vain.
local quiet = false
if m[12] >= '4' then
  --+ limits
  quiet = limit_awaited(KEYS[1], wall) -- guard: limit-quiet
end
if not quiet then ring(KEYS[3]) end
-- At the end: should a right for it be missing, all is published.
if large then sweep(true) end
return ok(behind, made + n, grain, math.max(due - clock, 0))
