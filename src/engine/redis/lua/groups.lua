-- Groups: the line of each, whose turn it is, and how many of each are in flight. Needs `common`, and `at`: where their keys begin in KEYS,
-- lines ready turns groups; in an exchange also resting.
-- `lines` has GROUP, a NUL, the number in 8 bytes and the pack, all with one score: the head of a group is found in O(log n). `groups` counts
-- what waits in each. A turn is one number: 4 for each message in flight, 2 if the group is paused, 1 if it is in `ready`. The field '' of
-- `turns` has the rules: 4 for each message that a group may have in flight, 2 if retries leave their group, 1 if groups come before the
-- queue next.
local LINES, READY, TURNS, COUNTS = KEYS[at], KEYS[at + 1], KEYS[at + 2], KEYS[at + 3]
local state, changed, readied, rules, rules_before = {}, {}, {}, nil, nil

local function group_of(pack)
  if string.byte(pack) ~= 2 then return end
  local length = string.byte(pack, 45)
  if length > 0 then return string.sub(pack, 46, 45 + length) end
end

-- Types are checked when a node joins. If someone has put something else there since, nothing is written.
local function misplaced(and_resting)
  for i, kind in ipairs({'zset', 'list', 'hash', 'zset', and_resting and 'zset'}) do
    local key = KEYS[at + i - 1]
    local found = redis.call('TYPE', key).ok
    if found ~= 'none' and found ~= kind then
      return redis.error_reply('WRONGTYPE queenright: key ' .. key .. ' holds a ' .. found .. ', not a ' .. kind)
    end
  end
  for _, command in ipairs(redis.acl_check_cmd and {'ZADD', 'ZREM', 'ZINCRBY', 'ZRANGEBYLEX', 'ZMSCORE', 'LPOP', 'LPUSH', 'RPUSH', 'HSET', 'HDEL'} or {}) do
    local lacks = not redis.acl_check_cmd(command)
    if lacks then return redis.error_reply('NOPERM queenright: this user has no permissions to run ' .. command) end -- guard: rights
  end
end

-- How these groups stand; and the rules.
local function look_up(names)
  local asked, given = {''}, {}
  for _, name in ipairs(names) do
    if not state[name] and not given[name] then asked[#asked + 1], given[name] = name, true end
  end
  if rules and #asked == 1 then return end
  local found = redis.call('HMGET', TURNS, unpack(asked))
  for i, name in ipairs(asked) do
    local n = tonumber(found[i] or '')
    -- What someone else wrote there is as if there were nothing.
    if not n or n < 0 or n > $COUNTER_MAX or n ~= math.floor(n) then n = name == '' and 4 or 0 end
    if name ~= '' then state[name] = n elseif not rules then rules, rules_before = math.max(n, 4), math.max(n, 4) end
  end
end

local function change(name, turn)
  state[name], changed[name] = turn, true
end

local function is_busy(turn) return math.floor(turn / 4) >= math.floor(rules / 4) end

local function is_paused(turn) return math.floor(turn / 2) % 2 == 1 end

-- Makes a group ready, of which something waits, if it may be.
local function offer(name)
  local turn, may = state[name], true
  may = turn % 2 == 0 -- guard: group-once
  if is_paused(turn) then may = false end -- guard: group-paused
  if is_busy(turn) then may = false end -- guard: group-turn
  if may then
    readied[#readied + 1] = name
    change(name, turn - turn % 2 + 1)
  end
end

-- Writes what has changed. Returns whether groups were made ready.
local function save()
  local set, gone, any = {}, {}, #readied > 0
  for name in pairs(changed) do
    if state[name] == 0 then gone[#gone + 1] = name
    else set[#set + 1], set[#set + 2] = name, num(state[name]) end
  end
  if rules ~= rules_before then set[#set + 1], set[#set + 2] = '', num(rules) end
  for i = 1, #set, $UNPACK_MAX do redis.call('HSET', TURNS, unpack(set, i, math.min(i + ($UNPACK_MAX - 1), #set))) end
  if #gone > 0 then redis.call('HDEL', TURNS, unpack(gone)) end
  if any then redis.call('RPUSH', READY, unpack(readied)) end
  changed, readied, rules_before = {}, {}, rules
  return any
end

-- Whether it is the turn of any group, as `again` of `meta` says it: 1 if packs wait there, plus 2.
local function mark_ready(meta, again)
  if redis.call('LLEN', READY) > 0 and again < '2' then
    redis.call('HSET', meta, 'again', again == '1' and '3' or '2', 'shortcut', '')
  end
end

-- Puts messages into the lines of their groups, as they are to stand there.
local function line_up(packs)
  local names, counts, entries = {}, {}, {}
  for _, pack in ipairs(packs) do
    local name = group_of(pack)
    if not counts[name] then names[#names + 1] = name end
    counts[name] = (counts[name] or 0) + 1
    entries[#entries + 1] = '0'
    entries[#entries + 1] = name .. '\0' .. struct.pack('>I8', (select(6, head(pack)))) .. pack
  end
  look_up(names)
  for i = 1, #entries, $UNPACK_MAX do redis.call('ZADD', LINES, unpack(entries, i, math.min(i + ($UNPACK_MAX - 1), #entries))) end
  for _, name in ipairs(names) do
    redis.call('ZINCRBY', COUNTS, num(counts[name]), name)
    offer(name)
  end
  return save()
end

-- A message of each of these groups has its outcome, or is not waited for any more.
local function ended(names)
  if #names == 0 then return false end
  look_up(names)
  local waiting = redis.call('ZMSCORE', COUNTS, unpack(names))
  for i, name in ipairs(names) do
    if state[name] >= 4 then change(name, state[name] - 4) end -- guard: group-ended
    if tonumber(waiting[i] or 0) > 0 then offer(name) end
  end
  return save()
end
