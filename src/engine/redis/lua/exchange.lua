-- exchange: settles what is finished, then takes what comes next.
-- KEYS  1 meta 2 queue 3 taken:NODE 4 bodies 5 bell 6 again 7 damaged; with settles also 8 errors 9 errors:records 10 later; with groups
--       these and 11 lines 12 ready 13 turns 14 groups 15 resting; where outcomes are asked for, asked and endings; then the keys of effects; if some of these publish, nodes and unheard are the last two
-- ARGV  1 node 2 lane 3 call 4 settles (msgpack) 5 want 6 woken (1), bodies are to come with their packs (2), the keys of groups are given (4), as
--       a sum 7 bytes wanted, then piece and count of those that are done from their start
--       settles: {{piece, {{from, count, outcome, extra}, ...}}, ...}, outcome 0 done (extra: effects) 1 error (extra:
--       text) 2 return 3 retry (extra: delay in ms); an effect: {kind, index of its key, ...}. What effects publish comes behind them:
--       {{delay, payload, maybe envelope}, ...}, and behind that a result; behind all settles {most waiting, server} if some publish, and true if the
--       keys of outcomes that are asked for are given
-- Returns  ok {number, why refused, ...} {pack, ...} maybe {body or nothing, ...} | deposed | stale | unheld | the pack alone, where
--          one came and nothing was refused | chained {number, why refused, ...} {pack, ...} {epoch, {cause, first, count, ...}, {number
--          that did not fit, ...}} maybe {body or nothing, ...} | unheard (members may have seen more) | groups or asked (these keys are needed: nothing was written)
--          | limited milliseconds-until-there-is-more {one of the above} | cancelled {number, ...} {one of the above, of whose packs they are}
-- The lane's own record proves membership: join writes it, deposing removes it. It also holds the lane's counts.
-- A pack in hand is a field, named by its first number; the only one that a call took has a place of its own, pack:LANE.
-- Lua makes functions and tables anew in every call: those for rare cases are made only in these cases.

--+ shortcut
--+ common
local node, lane, call, want = ARGV[1], 'lane:' .. ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[5])
local none = {}
local chain, chained, asked = nil, nil, nil
settles = none
if ARGV[4] ~= '' then settles, chain, asked = cmsgpack.unpack(ARGV[4]) end
local place = 'pack:' .. ARGV[2]
local fields = {lane, 'suspects', place}
for i = 8, #ARGV, 2 do fields[#fields + 1] = ARGV[i] end
for _, settle in ipairs(settles) do fields[#fields + 1] = num(settle[1]) end
local stored = redis.call('HMGET', KEYS[3], unpack(fields))
if not stored[1] then return {'deposed'} end -- guard: lane-record
-- The record is {call, done, failed, held, ids of the packs taken, refused}; mostly the counts suffice.
local last, was_done, was_failed, was_held = call - 1, 0, 0, 0
local fine, _ = true, nil
if stored[1] then fine, _, last, was_done, was_failed, was_held = pcall(cmsgpack.unpack_limit, stored[1], 4, 1) end
-- A record that someone else wrote proves nothing.
fine = fine and type(last) == 'number' and type(was_done) == 'number' and type(was_failed) == 'number'
if not fine or type(was_held) ~= 'number' then return {'deposed'} end
-- A pack in the place of a lane, this one or another: its field, and the pack.
local function placed(id)
  for _, field in ipairs(redis.call('HKEYS', KEYS[3])) do
    local pack = string.sub(field, 1, 5) == 'pack:' and redis.call('HGET', KEYS[3], field)
    if pack and #pack >= 44 and num((select(6, head(pack)))) == id then return field, pack end
  end
end
-- Who is far away gets the bytes with the packs: to fetch them would cost another way there and back. Nothing, if a right for it is
-- missing, or someone has put something else there: then they are fetched, and that tells why.
local bodies_of = ARGV[6] >= '2' and ARGV[6] % 4 >= 2 and function(packs)
  --+ packs
  local bodies = {}
  for _, pack in ipairs(packs) do
    if is_stub(pack) then
      local bytes = redis.pcall('HGET', KEYS[4], (body(pack)))
      if type(bytes) == 'table' then return nil end
      bodies[#bodies + 1] = bytes
    end
  end
  return bodies
end
local repeated, stale, unarrived = false, false, false
repeated = call == last -- guard: call-repeat
stale = call < last -- guard: call-stale
if repeated then
  local fine, record = pcall(cmsgpack.unpack, stored[1])
  if not fine or type(record[5]) ~= 'table' or type(record[6]) ~= 'table' then return {'deposed'} end
  -- Another lane of the node may have settled some of them since.
  local packs, held = {}, #record[5] > 0 and redis.call('HMGET', KEYS[3], unpack(record[5])) or none
  for i, id in ipairs(record[5]) do
    local pack = held[i] or select(2, placed(id))
    if pack then packs[#packs + 1] = pack end
  end
  unarrived = want == 0 and #packs > 0 and record[6] -- guard: unarrived
  chain, chained = nil, record[7]
  if not unarrived then
    local bodies = bodies_of and bodies_of(packs) or nil
    local answer = {'ok', record[6], packs, bodies}
    if chained then answer = {'chained', record[6], packs, chained, bodies} end
    local held_back = redis.call('HGET', KEYS[1], 'paused') or '0'
    if held_back >= '4' then
      -- What the limit said then says nothing now: the next call asks it again.
      if math.floor(held_back / 4) % 2 == 1 then answer = {'limited', 0, answer} end
      if tonumber(held_back) >= $CANCELS_BIT then
        local function made()
          --+ cancels
          --+ cancels_exchange
        end
        local told = made().among(packs)
        if #told > 0 then answer = {'cancelled', told, answer} end -- guard: cancel-take
      end
    end
    return answer
  end
  -- The node never got them, and asks for nothing any more: they go back as if the call had returned them.
  settles, fields = {}, {lane, 'suspects', place}
  for i, pack in ipairs(packs) do
    local first, _, _, count = struct.unpack('<I8I8I8I4', pack, 9)
    settles[i], fields[3 + i] = {first, {{0, count, 2}}}, num(first)
  end
  stored, last = redis.call('HMGET', KEYS[3], unpack(fields)), call - 1
end
if stale then return {'stale'} end
if call > last + 1 then return {'deposed'} end -- guard: call-ahead
local m = redis.call('HMGET', KEYS[1], 'grain', 'again', 'paused', 'shortcut')
if not m[1] then return {'deposed'} end
local paused, limit, cancels, bits = false, nil, nil, nil
if m[3] > '1' then
  bits = tonumber(m[3])
  paused = math.floor(bits / 2) % 2 == 1 -- guard: paused-handlers
  if paused then want = 0 end
  if math.floor(bits / 4) % 2 == 1 then
    local function made()
      --+ limits
      --+ limit_exchange
    end
    limit = made()
  end
  if bits >= $CANCELS_BIT then
    local function made()
      --+ cancels
      --+ cancels_exchange
    end
    cancels = made()
  end
end
-- Who meets no group has neither their keys nor their functions. Nothing is written before it is known that they are needed.
local groups, effects_at, ready = nil, 10, m[2] and m[2] > '1'
if ARGV[6] >= '4' then
  local function made()
    local at = 11
    --+ aside
    --+ groups
    --+ groups_take
    --+ groups_exchange
  end
  groups, effects_at = made(), 15
  local wrong = groups.misplaced(true)
  if wrong then return wrong end
end
if asked then effects_at = effects_at + 2 end
if ready and want > 0 and not groups then return {'groups'} end -- guard: group-keys
if limit and limit.needs_groups and want > 0 and not groups then return {'groups'} end

-- First everything is worked out; nothing is written before all of it is known to be right.
local gone, set, ended, rest, named, over = {}, {}, none, none, {}, none
local errors, records, back, back_again, later, effects, refused = none, none, none, none, none, none, none
local done, failed, returned, suspects, alone, most, told = 0, 0, 0, 0, 0, nil, nil
if stored[2] ~= '0 0' then
  suspects, alone = string.match(stored[2] or '0 0', '(%-?%d+) (%-?%d+)')
  suspects, alone = tonumber(suspects or 0), tonumber(alone or 0)
end
local suspects_before, alone_before = suspects, alone
local free = not stored[3]
for i = 4, #fields do
  local id = fields[i]
  if named[id] then return {'unheld'} end -- guard: named-once
  named[id] = true
  if not stored[i] and stored[3] and #stored[3] >= 44 and num((select(6, head(stored[3])))) == id then
    fields[i], stored[i], free = place, stored[3], true
  end
  if not stored[i] then
    local field, pack = placed(id)
    fields[i], stored[i] = field or id, pack
  end
  if not stored[i] or #stored[i] < 44 then return {'unheld'} end
end
-- Of a pack that is done as a whole only the head is read.
for i = 8, unarrived and 0 or #ARGV, 2 do
  local at, n = i / 2, tonumber(ARGV[i + 1])
  local pack = stored[at]
  local version, flags, attempt, _, _, _, _, _, count = head(pack)
  if n == count and attempt == 1 and (version == 1 or groups and not groups.is_asked(pack)) then
    gone[#gone + 1], done = fields[at], done + n
    if cancels then cancels.ended((select(6, head(pack))), n) end -- guard: cancel-ended
    if flags == 1 then
      if ended == none then ended = {} end
      ended[#ended + 1] = {pack, n}
    end
    if version ~= 1 then
      if not sound(pack) then return {'unheld'} end
      if over == none then over = {} end
      if select(5, head(pack)) ~= 2 then over[#over + 1] = groups.of(pack) end
    end
  else
    if rest == none then rest = {} end
    rest[#rest + 1] = {fields[at], pack, {{0, n, 0}}}
  end
end
if #settles > 0 and rest == none then rest = {} end
for i, settle in ipairs(settles) do
  local at = #fields - #settles + i
  rest[#rest + 1] = {fields[at], stored[at], settle[2]}
end
if rest ~= none then
  --+ packs
  --+ deliveries
  errors, records, back, back_again, later, effects, refused = {}, {}, {}, {}, {}, {}, {}
  if ended == none then ended = {} end
  --+ effects
  local time = nil
  local function now()
    if not time then local _, wall = hive(0, 0, 0); time = wall end
    return time
  end
  --+ asked
  if asked then told = asking(KEYS[effects_at - 1], KEYS[effects_at], now) end
  local function fail(pack, index, text)
    local number, kept = failure(pack, index, now(), node, text)
    errors[#errors + 1] = num(number); errors[#errors + 1] = num(number)
    records[#records + 1] = num(number); records[#records + 1] = kept
    failed = failed + 1
    if told and is_asked(pack) then told.failed(pack, node, text) end
    return number
  end
  -- Tried again under the same number: mostly failures + 1, and out of the order of numbers.
  local function put_off(pack, index, after, failed, leaves)
    local one = piece(pack, index, 1)
    local _, _, _, failures, unordered, number = head(one)
    local counted = failures
    counted = math.min(failures + failed, 65535) -- guard: failures
    one = string.sub(one, 1, 4) .. struct.pack('<HH', counted, math.max(unordered, leaves and 2 or 1)) .. string.sub(one, 9)
    later[#later + 1] = num(now() + after)
    later[#later + 1] = later_entry(number, one)
    if cancels then cancels.put_off(number, one, after) end -- guard: cancel-later
    if told and is_asked(one) then told.waits(one, now() + after) end -- guard: ending-later
  end
  if chain then
    --+ numbering
    --+ chain
    chain = chains(chain, KEYS[1], KEYS[2], now)
  end
  for _, settle in ipairs(rest) do
    local field, pack, runs = unpack(settle)
    -- What cannot be read is not held.
    if not sound(pack) then return {'unheld'} end
    local at, released, kept = 0, 0, 0
    local version, _, attempt, _, unordered, first, _, _, count = head(pack)
    -- A message of a group stays in flight until it has its outcome, wherever it is meanwhile. What has left its group is not waited for.
    local is_grouped, leaves = version == 2 and string.byte(pack, 45) > 0, false
    if is_grouped and not groups then
      for _, run in ipairs(runs) do
        if run[3] ~= 2 then return {'groups'} end -- guard: group-keys
      end
    end
    local told_of = version == 2 and is_asked(pack)
    if told_of and not told then
      for _, run in ipairs(runs) do
        if run[3] ~= 2 then return {'asked'} end -- guard: ending-keys
      end
    end
    local group = is_grouped and groups and groups.of(pack) or nil
    if unordered == 2 then group = nil end -- guard: group-left
    if is_grouped and groups then leaves = groups.skips() end -- guard: group-skips
    -- The body is fetched only if an outcome needs it: not for messages that are done or kept, nor for a pack that goes back whole.
    -- If someone has removed it, the messages that need it are errors.
    local full, lost, entire = nil, false, not is_part(pack)
    for _, run in ipairs(runs) do
      local stands = entire and run[3] == 2 and run[2] == count
      if not full and not stands and (run[3] ~= 0 or run[4]) then
        full = whole(KEYS[4], pack)
        lost = not full
      end
    end
    local function keep(from, n)
      set[#set + 1] = num(first + from)
      set[#set + 1] = piece(pack, from, n)
    end
    for _, run in ipairs(runs) do
      local from, n, outcome = run[1], run[2], run[3]
      if n < 1 or from < at or from + n > count then return {'unheld'} end -- guard: runs
      if from > at then keep(at, from - at) end
      local why, crowded = nil, false
      if run[5] and not groups and chain.needs_groups(run[5]) then return {'groups'} end -- guard: group-keys
      if run[5] then why, crowded = chain.room(run[5], groups, group) end
      if crowded then
        -- Nobody has failed: it is tried again as it is.
        for index = from, from + n - 1 do
          if lost then
            refused[#refused + 1] = fail(pack, index, 'to be tried again')
            refused[#refused + 1] = 'to be tried again'
          else
            put_off(full, index, $CROWDED_MS, 0)
            chain.crowded[#chain.crowded + 1] = first + index
          end
        end
      elseif outcome == 0 and run[4] then
        why = why or refusal(run[4])
        if why then
          for index = from, from + n - 1 do
            refused[#refused + 1] = fail(full or pack, index, 'effect refused: ' .. why)
            refused[#refused + 1] = 'effect refused: ' .. why
          end
        else
          done = done + n
          for _, effect in ipairs(run[4]) do effects[#effects + 1] = effect end
          if run[5] then chain.follow(first + from, run[5]) end
        end
      elseif outcome == 0 then
        done = done + n
      elseif outcome == 1 then
        for index = from, from + n - 1 do fail(full or pack, index, run[4]) end
      elseif outcome == 3 and lost then
        for index = from, from + n - 1 do fail(pack, index, 'to be tried again') end
      elseif outcome == 3 then
        for index = from, from + n - 1 do put_off(full, index, run[4], 1, leaves) end
      else
        local to = (attempt > 1 or unordered ~= 0) and back_again or back
        if is_grouped then to = back_again end -- guard: group-returns
        to[#to + 1] = piece(full or pack, from, n)
        returned = returned + n
        if not full then kept = kept + n end
      end
      if told and told_of and outcome == 0 and not why and not crowded then told.done(pack, node, run[6]) end -- guard: ending-done
      if cancels and not crowded and (outcome < 2 or outcome == 3 and lost) then cancels.ended(first + from, n) end -- guard: cancel-ended
      if group and not crowded and (outcome < 2 or outcome == 3 and leaves) then
        if over == none then over = {} end
        over[#over + 1] = group
      end
      at, released = from + n, released + n
    end
    if at < count then keep(at, count - at) end
    gone[#gone + 1] = field
    -- A pack that goes back whole keeps its body.
    if is_stub(pack) and released > kept then ended[#ended + 1] = {pack, released - kept} end
    if attempt > 1 then
      most = most or deliveries(KEYS[3])
      if attempt + 1 == most then suspects = suspects - released
      elseif attempt >= most and released > 0 then alone = 0 end
    end
  end
end

if unarrived then refused = unarrived end
if chain then chained = chain.told() end

-- A right that someone has taken away must show before the first write; see rights.lua.
local lack, may = nil, redis.acl_check_cmd
if may then
  if not may('HSET') or not may('LPUSH') then lack = 'HSET or LPUSH' end -- guard: rights
  if ended ~= none and not may('HINCRBY') then lack = 'HINCRBY' end -- guard: rights
  if m[2] == '1' or m[2] == '3' or #back_again > 0 then
    if not (may('HGET') and may('HINCRBY') and may('TIME') and may('LPOP')) then lack = 'HGET, HINCRBY, TIME or LPOP' end -- guard: rights
  end
  if cancels and not may('HDEL') then lack = 'HDEL' end -- guard: rights
  if limit and not (may('TIME') and may('HDEL') and may('LLEN')) then lack = 'TIME, HDEL or LLEN' end -- guard: rights
  if groups and not (may('LLEN') and may('LPOP') and may('RPUSH') and may('ZREM') and may('ZINCRBY') and may('ZRANGEBYLEX')) then
    lack = 'LLEN, LPOP, RPUSH, ZREM, ZINCRBY or ZRANGEBYLEX' -- guard: rights
  end
  if limit and groups and not (may('ZRANGEBYSCORE') and may('ZSCORE') and may('ZRANGE')) then lack = 'ZRANGEBYSCORE, ZSCORE or ZRANGE' end -- guard: rights
  if #errors + #later > 0 and not may('ZADD') then lack = 'ZADD' end -- guard: rights
  if #effects > 0 and not may('RPUSH') then lack = 'RPUSH' end -- guard: rights
  if chain and not (may('RPUSH') and may('ZADD') and may('DEL')) then lack = 'RPUSH, ZADD or DEL' end -- guard: rights
end
if lack then return redis.error_reply('NOPERM queenright: this user has no permissions to run ' .. lack) end
lack = told and told.misplaced()
if lack then return lack end

-- Types are checked when a node joins. If someone has put something else there since, nothing is written.
if chained or #errors + #later + #back + #back_again + #ended > 0 then
  --+ foreign
  lack = foreign({[2] = 'list', [4] = 'hash', [6] = 'list', [8] = 'zset', [9] = 'hash', [10] = 'zset'}) -- guard: foreign
  if lack then return lack end
end

if chain and #chain.links > 0 and not chain.heard then
  --+ members
  redis.call('HDEL', KEYS[3], '')
  local _, wall = hive(0, 0, 0)
  local waits = awaits_members(KEYS[1], KEYS[#KEYS - 1], KEYS[#KEYS], chain.server, wall)
  if waits then return {'unheard'} end -- guard: chain-unheard
end

-- Now the writes. The first is one that full memory does not refuse.
if #gone == 0 or #effects > 0 then redis.call('HDEL', KEYS[3], '') end -- guard: opener-exchange
for i = 1, #gone, $UNPACK_MAX do redis.call('HDEL', KEYS[3], unpack(gone, i, math.min(i + ($UNPACK_MAX - 1), #gone))) end
if ended ~= none then
  --+ packs
  for _, one in ipairs(ended) do let_go(KEYS[4], one[1], one[2]) end
end
for _, effect in ipairs(effects) do
  local kind, key = effect[1], KEYS[effects_at + effect[2]]
  if kind == 'add' then redis.call('INCRBY', key, num(effect[3]))
  elseif kind == 'set' then redis.call('SET', key, effect[3])
  elseif kind == 'field' then redis.call('HSET', key, effect[3], effect[4])
  else redis.call('RPUSH', key, effect[3]) end
end
for i = 1, #errors, $UNPACK_MAX do
  redis.call('ZADD', KEYS[8], unpack(errors, i, math.min(i + ($UNPACK_MAX - 1), #errors)))
  redis.call('HSET', KEYS[9], unpack(records, i, math.min(i + ($UNPACK_MAX - 1), #records)))
end
for i = 1, #later, $UNPACK_MAX do redis.call('ZADD', KEYS[10], unpack(later, i, math.min(i + ($UNPACK_MAX - 1), #later))) end
if told then told.write() end
-- Returned packs go back to the head, the oldest foremost.
for i = #back, 1, -1 do redis.call('LPUSH', KEYS[2], back[i]) end
for i = #back_again, 1, -1 do redis.call('LPUSH', KEYS[6], back_again[i]) end
local follows, lines = nil, none
if chain then follows, lines = chain.write(KEYS[10]) end
local again = m[2] == '1' or m[2] == '3' or #back_again > 0
local goes_on = over ~= none and groups.ended(over)
if #lines > 0 and groups.line_up(lines) or goes_on then ready = true end

-- Then the take: `again` before the queue. What a limit allows is all that it wants.
if limit and (want > 0 or returned > 0) then
  limit.look(returned)
  want = limit.allowed
  if groups and limit.wanted > 0 then
    limit.call(groups)
    ready = groups.wait()
  end
end
local packs, total, bytes, bytes_max, grain, spoilt, trouble = {}, 0, 0, $TAKE_BYTES_MAX, tonumber(m[1]), 0, nil
bytes_max = math.min(bytes_max, tonumber(ARGV[7])) -- guard: want-bytes
if not grain or not (grain >= 1 and grain <= $GRAIN_START) then grain = $GRAIN_START end
-- On its last delivery a message comes alone, into an empty hand: so whatever becomes an error for its deliveries killed its
-- handlers itself. On the one before, a node holds a few of its kind at most, so that few come to their last one for a neighbour.
local goal = want
if alone == 2 then goal = 0 end -- guard: alone
-- Whoever finds the queue full makes room in it. What is tried again for lack of room comes first otherwise, each time in vain.
local makes_room = false
if chain then makes_room = #chain.crowded > 0 end -- guard: chain-turn
while again and not makes_room and total < goal and bytes < bytes_max and #packs < $TAKE_PACKS_MAX do
  --+ packs
  --+ deliveries
  -- Looked at first, and taken out when nothing more can go wrong.
  local pack = redis.pcall('LINDEX', KEYS[6], 0)
  if type(pack) == 'table' then trouble = pack; break end
  while pack and not sound(pack) do
    --+ aside
    redis.call('LPOP', KEYS[6])
    set_aside(KEYS[1], KEYS[7], 'again', pack)
    spoilt = spoilt + 1
    pack = spoilt < $DAMAGED_MAX and redis.call('LINDEX', KEYS[6], 0)
  end
  if not pack then again = spoilt >= $DAMAGED_MAX; break end
  local _, _, attempt, _, _, _, _, _, count = head(pack)
  local left, n, fits = 2, math.min(count, goal - total), true
  if attempt > 1 then
    most = most or deliveries(KEYS[3])
    left = most - attempt
  end
  if left < 2 then
    n = 1 -- guard: again-one
  end
  if left == 1 then
    fits = suspects < $SUSPECTS_MAX -- guard: suspects
  elseif left < 1 then
    local in_hand, other = was_held - done - failed - returned - #later / 2 + total, 0
    local record = redis.call('HGET', KEYS[3], 'lane:0')
    while record do
      local fine, _, _, _, _, held = pcall(cmsgpack.unpack_limit, record, 4, 1)
      if 'lane:' .. other ~= lane and fine then in_hand = in_hand + (tonumber(held) or 0) end
      other = other + 1
      record = redis.call('HGET', KEYS[3], 'lane:' .. other)
    end
    fits = in_hand == 0 -- guard: alone-empty
    -- Where nobody is ever idle, one node empties its hand for it; each second one more, should that take long.
    if not fits then
      local c = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step', 'clearing')
      local fine, clock = pcall(hive, c[1], c[2], c[3])
      local clears = alone == 1 or fine and clock >= (tonumber(c[4] or 0) or 0)
      if clears and alone == 0 and fine then redis.call('HSET', KEYS[1], 'clearing', num(clock + $CLEARING_MS)) end
      if clears then alone, goal = 1, total end -- guard: clearing
    end
  end
  if not fits then break end
  redis.call('LPOP', KEYS[6])
  if alone == 1 then alone = 0 end
  local full = pack
  if is_part(pack) then full = bring(KEYS[4], pack) or pack end
  local length = size(full)
  if bytes + length > bytes_max then
    n = math.min(n, math.max(math.floor((bytes_max - bytes) * count / length), #packs == 0 and 1 or 0))
  end
  if n == 0 then redis.call('LPUSH', KEYS[6], full); break end
  if count > n and is_stub(full) then full = bring(KEYS[4], full) end
  if not full then full, n = pack, count end
  if count > n then redis.call('LPUSH', KEYS[6], piece(full, n, count - n)) end
  packs[#packs + 1] = piece(full, 0, n)
  total, bytes = total + n, bytes + size(packs[#packs])
  local group = limit and groups and groups.of(pack)
  if group and (attempt > 1 or select(4, head(pack)) > 0) then limit.took_again(group) end
  if left == 1 then suspects = suspects + n end
  if left < 1 then alone, goal = 2, total end
  if left < 2 then break end
end
local take_groups = groups and ready and total < goal and function(quota)
  local room = math.min(quota, $TAKE_PACKS_MAX - #packs)
  for _, pack in ipairs(groups.take(room, bytes, bytes_max, #packs == 0, limit)) do
    packs[#packs + 1] = pack
    total, bytes = total + 1, bytes + #pack
  end
end
if take_groups then take_groups(groups.first_share(goal - total)) end
local pop = $TAKE_POP_START
while total < goal and bytes < bytes_max and #packs < $TAKE_PACKS_MAX do
  -- A take that has nearly all that it wants ends here; so does one that has many bytes, if a pack as large as those before would
  -- not fit.
  if want >= $TAKE_EXACT and $TAKE_SHARES * (want - total) < want then break end
  if bytes >= $TAKE_CUT_BYTES and (want - total) * #packs < total then break end
  local expected = 1
  if want - total > grain then expected = math.min(pop, math.ceil((want - total) / grain)) end
  local popped = redis.pcall('LPOP', KEYS[2], expected)
  if not popped then break end
  if popped.err then trouble = popped; break end
  local left = none
  for i = 1, #popped do
    local pack = popped[i]
    local count, room = sound(pack), want - total
    -- To cut a pack copies it. A take that has half of what it wants leaves a pack that does not fit, one that has less fills up to
    -- half. If it filled up to the last message, the next take would begin with the rest, cut the next pack, and so on.
    local cut = room
    if want >= $TAKE_EXACT and total > 0 then cut = math.ceil(want / 2) - total end
    -- Of a stub, the length of its body, as in size().
    local length = #pack
    if count and string.byte(pack, 2) == 1 then length = struct.unpack('<I4', pack, 49) end
    -- As many as fit into the bytes, by their mean length; the first pack gives at least one.
    if count and bytes + length > bytes_max then
      local fits = math.max(math.floor((bytes_max - bytes) * count / length), #packs == 0 and 1 or 0)
      room, cut = math.min(room, fits), math.min(cut, fits)
    end
    local leaves = count and count > room and (cut <= 0 or bytes >= $TAKE_CUT_BYTES)
    if not count then
      --+ aside
      set_aside(KEYS[1], KEYS[7], 'queue', pack)
      spoilt = spoilt + 1
    elseif room <= 0 or bytes >= bytes_max or leaves or left ~= none then
      if left == none then left = {} end
      left[#left + 1] = pack
    else
      if count > room then
        --+ packs
        local full = bring(KEYS[4], pack)
        if full then
          -- The rest of a pack that is far larger than its taker is broken into pieces, so that the next takers copy less.
          local over = count - cut
          local share = over > $TAKE_SHARES * cut and math.ceil(over / $TAKE_SHARES) or over
          left = {}
          for from = cut, count - 1, share do left[#left + 1] = piece(full, from, math.min(share, count - from)) end
          pack, count = piece(full, 0, cut), cut
          length = #pack
        end
      end
      packs[#packs + 1] = pack
      total, bytes = total + count, bytes + length
    end
  end
  for i = #left, 1, -1 do redis.call('LPUSH', KEYS[2], left[i]) end
  if left ~= none or spoilt >= $DAMAGED_MAX then break end
  pop = pop * 2
end
if take_groups and total < goal then take_groups(goal - total) end
if groups then ready = groups.wait() end
local ids = {}
for i = 1, #packs do
  local pack = packs[i]
  ids[i] = num((struct.unpack('<I8', pack, 9)))
  set[#set + 1] = #packs == 1 and free and place or ids[i]
  set[#set + 1] = pack
end

if want > 0 then
  local aim = math.min(want, $GRAIN_START)
  if aim < grain then grain = grain - math.ceil((grain - aim) / $TAKE_SHARES)
  elseif aim > grain then grain = grain + math.ceil((aim - grain) / $TAKE_SHARES) end
end
local flag = again and '1' or '0'
if ready then flag = again and '3' or '2' end
local shortcut, wait, shut = flag ~= '0' and '' or paused and '' or num(grain), nil, false
if limit then
  local ends = false
  shut = limit.is_shut()
  if limit.wanted > 0 or returned > 0 then
    wait, shut, ends = limit.close(total, function() return again or ready or redis.call('LLEN', KEYS[2]) > 0 end)
  end
  if ends then
    bits = bits - 4
    redis.call('HSET', KEYS[1], 'paused', num(bits))
  else
    shortcut = ''
  end
end
if cancels then
  bits = cancels.write(bits)
  if bits >= $CANCELS_BIT then shortcut = '' end
end
if grain ~= tonumber(m[1]) or flag ~= m[2] or shortcut ~= m[4] then
  redis.call('HSET', KEYS[1], 'grain', num(grain), 'again', flag, 'shortcut', shortcut)
end
if suspects ~= suspects_before or alone ~= alone_before then
  set[#set + 1] = 'suspects'; set[#set + 1] = num(suspects) .. ' ' .. num(alone)
end
set[#set + 1] = lane
set[#set + 1] = cmsgpack.pack({call, was_done + done, was_failed + failed,
  was_held - done - failed - returned - #later / 2 + total, ids, refused, chained})
for i = 1, #set, $UNPACK_MAX do redis.call('HSET', KEYS[3], unpack(set, i, math.min(i + ($UNPACK_MAX - 1), #set))) end
-- A lane that the bell woke rings for the next one if work is left, also if it takes none itself.
local woken = ARGV[6] % 2 == 1 and not paused and (total > 0 or (limit and limit.wanted or want) == 0)
-- A group that may go on, and that this lane left to others, wakes one of them.
local rings = returned > 0 or (goes_on or #lines > 0) and ready
if shut then rings, woken, follows = false, false, false end
if rings or (woken or follows) and not trouble and (woken and (again or ready) or redis.call('LLEN', KEYS[2]) > 0) then ring(KEYS[5]) end
-- A place that cannot be taken from is told once all is written: a repeat of the call is answered from the record.
if trouble then return trouble end
local bodies = bodies_of and bodies_of(packs) or nil
local answer = {'ok', refused, packs, bodies}
if chained then answer = {'chained', refused, packs, chained, bodies} end
if wait then answer = {'limited', wait, answer} end
if cancels then
  local told = cancels.among(packs)
  if #told > 0 then answer = {'cancelled', told, answer} end -- guard: cancel-take
end
return answer
