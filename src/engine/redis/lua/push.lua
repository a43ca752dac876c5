-- push: messages from outside, numbered with the generated ones. Creates the queue if there is none.
-- KEYS  1 meta 2 queue 3 bell 4 later 5 once 6 once:values 7 nodes 8 unheard; with envelopes also 9 lines 10 ready 11 turns 12 groups; if outcomes are asked for, 13 asked
-- ARGV  1 call 2 how long keys are remembered 3 most waiting 4 key names 5 birth id for a new queue (nothing: none is made) 6 its step 7 server 8 its first number 9 put in only
--       what has to be here (1): its key is remembered, or some of its group wait or are in flight; then of each message: key (or nothing) delay payload; with envelopes: key delay envelope (or nothing) payload
-- Returns  ok {number, repeated, ...} | full | unheard (members may have seen more) | members (of a shard that was left over: they are to leave first) | other layout names (not ours) | type key found | none
-- `once` has keys (k…) and calls (c…) by the time until which they are remembered, `once:values` the answers to them.
-- When memory is full, Redis refuses the first write, and so nothing is written.
--+ common
--+ packs
--+ numbering
--+ members
--+ rights
local m = redis.call('HMGET', KEYS[1], 'layout', 'names', 'seq', 'epoch', 'grain', 'head', 'paused', 'again')
local width = #KEYS > 8 and 4 or 3
local _, wall = hive(0, 0, 0)
if m[1] then
  if tonumber(m[1]) > $LAYOUT then return {'other', m[1], m[2]} end -- guard: push-layout
  if m[2] ~= ARGV[4] and tonumber(m[1]) <= $LAYOUT then
    --+ shards
    local left_over, has_members = is_left_over(KEYS[1], KEYS[7], m[2], ARGV[4])
    if left_over and has_members then return {'members'} end
    if left_over or goes_on(ARGV[4], m[2]) then
      note_shards(KEYS[1], m[2], ARGV[4]) -- guard: reshard-note
      m[2] = redis.call('HGET', KEYS[1], 'names')
    end
  end
  if m[2] ~= ARGV[4] then return {'other', m[1], m[2]} end -- guard: push-names
elseif ARGV[5] == '' then return {'none'} -- guard: push-creates
else
  -- The types of keys are checked by join, and nobody has joined yet.
  for i, kind in ipairs({'hash', 'list', 'list', 'zset', 'zset', 'hash', 'zset', 'list', 'zset', 'list', 'hash', 'zset', 'hash'}) do
    local found = KEYS[i] and redis.call('TYPE', KEYS[i]).ok or 'none'
    if found ~= 'none' and found ~= kind then return {'type', KEYS[i], found} end -- guard: push-types
  end
end
local asked = {'c' .. ARGV[1]}
for i = 10, #ARGV, width do asked[#asked + 1] = 'k' .. ARGV[i] end
local known = redis.call('HMGET', KEYS[6], unpack(asked))
local answered = nil
answered = known[1] -- guard: push-repeat
if answered then return {'ok', cmsgpack.unpack(answered)} end

lack = lacks('HSET', 'RPUSH', 'ZADD', 'DEL', 'LLEN', 'ZINCRBY') -- guard: rights
if lack then return lack end
if m[1] then
  local waits = awaits_members(KEYS[1], KEYS[7], KEYS[8], ARGV[7], wall)
  if waits then return {'unheard'} end -- guard: push-unheard
end

local told, asks_for = nil, nil
if KEYS[13] then
  local function made()
    --+ asked
    return asks
  end
  told, asks_for = {}, made()
  local found = redis.call('TYPE', KEYS[13]).ok
  if found ~= 'none' and found ~= 'hash' then return {'type', KEYS[13], found} end
end

-- First everything is worked out.
local seq, epoch, grain = (m[3] or ARGV[8]) + 0, (m[4] or 0) + 0, tonumber(m[5] or '') or $GRAIN_START
local answer, remembered, values, seen = {}, {}, {}, {}
local new = numbering(seq, epoch, grain, wall)
for i = 10, #ARGV, width do
  local key, delay, payload = ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + width - 1]
  local envelope = width == 4 and ARGV[i + 2] or ''
  local number, repeated, here = new.seq, 0, true
  if ARGV[9] == '1' then
    local length = envelope ~= '' and string.byte(envelope) or 0
    local group = string.sub(envelope, 2, 1 + length)
    here = length > 0 and (tonumber(redis.call('ZSCORE', KEYS[12], group) or 0) > 0 or (tonumber(redis.call('HGET', KEYS[11], group) or 0) or 0) >= 4) -- guard: only-known
  end
  if key ~= '' then
    local was, until_ms = string.match(known[(i - 10) / width + 2] or '', '(%d+) (%d+)')
    local lives = was ~= nil
    lives = lives and tonumber(until_ms) > wall -- guard: once-until
    was = seen[key] or (lives and tonumber(was))
    if was then number, repeated = was, 1 end -- guard: once
    if repeated == 1 or here then seen[key] = number end
    if repeated == 0 and here then
      local ends = num(wall + ARGV[2])
      remembered[#remembered + 1] = ends; remembered[#remembered + 1] = 'k' .. key
      values[#values + 1] = 'k' .. key; values[#values + 1] = num(number) .. ' ' .. ends
    end
  end
  if repeated == 0 and here then new.add(payload, delay, envelope) end
  if told and repeated == 0 and here and envelope ~= '' and asks_for(envelope, 1) then
    told[#told + 1] = num(number); told[#told + 1] = cmsgpack.pack({0, delay > 0 and wall + delay or 0})
  end
  if repeated == 0 and not here then number = $COUNTER_MAX end
  answer[#answer + 1] = number; answer[#answer + 1] = repeated
end
new.close()
local waiting_from, limit = tonumber(m[6] or ARGV[8]) or 0, tonumber(ARGV[3])
if #new.packs > 0 and new.seq - waiting_from > limit then
  local first = redis.call('LINDEX', KEYS[2], 0)
  if first then waiting_from = select(2, sound(first)) or waiting_from else waiting_from = seq end
  if new.seq - waiting_from > limit then return {'full'} end -- guard: push-full
end
local at, grouped, line_up, mark_ready = 9, new.grouped, nil, nil
if #grouped > 0 then
  local function groups()
    --+ groups
    return misplaced(), line_up, mark_ready
  end
  lack, line_up, mark_ready = groups()
  if lack then return lack end
  if redis.call('ZCARD', KEYS[9]) + #grouped > limit then return {'full'} end -- guard: push-full
end
remembered[#remembered + 1] = num(wall + $CALL_MS); remembered[#remembered + 1] = asked[1]
values[#values + 1] = asked[1]; values[#values + 1] = cmsgpack.pack(answer)
-- Each push forgets up to two more than it adds, so `once` never grows beyond what was pushed within the time. Looked for here, it also shows
-- whether someone has put something else in its place.
local old = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', num(wall), 'LIMIT', 0, #values + 2)
if #old > 0 then
  lack = lacks('ZREM', 'HDEL') -- guard: rights
end
if #new.later > 0 and not lack then
  --+ foreign
  lack = foreign({[4] = 'zset'}) -- guard: foreign
end
if lack then return lack end
-- Whoever waits for the limit comes when there is more: a ring would make it come in vain.
local quiet = false
if (m[7] or '0') >= '4' then
  --+ limits
  quiet = limit_awaited(KEYS[1], wall) -- guard: limit-quiet
end

-- Now the writes.
if not m[1] then
  found_queue(KEYS[1], ARGV[5], ARGV[4], ARGV[6], wall, ARGV[8])
  redis.call('HSET', KEYS[1], 'server', ARGV[7])
end
new.write(KEYS[2], KEYS[4])
for i = 1, told and #told or 0, $UNPACK_MAX do
  redis.call('HSET', KEYS[13], unpack(told, i, math.min(i + ($UNPACK_MAX - 1), #told))) -- guard: ending-pushed
end
if new.seq > seq then redis.call('HSET', KEYS[1], 'seq', num(new.seq), 'head', num(waiting_from)) end
if #grouped > 0 then
  line_up(grouped)
  mark_ready(KEYS[1], m[8] or '0')
end
if #old > 0 then
  redis.call('ZREM', KEYS[5], unpack(old))
  redis.call('HDEL', KEYS[6], unpack(old))
end
for i = 1, #values, $UNPACK_MAX do
  redis.call('ZADD', KEYS[5], unpack(remembered, i, math.min(i + ($UNPACK_MAX - 1), #remembered)))
  redis.call('HSET', KEYS[6], unpack(values, i, math.min(i + ($UNPACK_MAX - 1), #values)))
end
if #new.packs + #grouped > 0 and not quiet then ring(KEYS[3]) end
return {'ok', answer}
