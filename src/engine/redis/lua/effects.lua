-- Which effects of an exchange are applied: all of a message, or none. Included only where there are outcomes other than plain ones. Their keys
-- are those behind `effects_at`.
-- Effects are checked against what the keys hold, and against those already admitted in this call.
local known = {}
local function lookup(trial, key)
  local entry = trial[key] or known[key]
  if not entry then
    entry = {kind = redis.call('TYPE', key).ok}
    known[key] = entry
  end
  return entry
end
-- A right that is missing costs the messages that need it, and must show before anything is written.
-- HSET and RPUSH are rights that every node needs.
local COMMANDS = {add = {'GET', 'INCRBY'}, set = {'SET'}}
-- With Redis 6.2, which cannot be asked, what scripts do not need themselves is tried where it changes nothing. A server whose
-- memory is full refuses that too, until the script has written something: that is no missing right.
local TRIALS = {add = {'INCRBY', KEYS[1], 0}, set = {'SET', KEYS[1], '', 'NX'}}
local function lacking(kind, key)
  local may = redis.acl_check_cmd
  for _, command in ipairs(may and COMMANDS[kind] or none) do
    if not may(command, key) then return command end
  end
  if may or not TRIALS[kind] then return end
  local tried = redis.pcall(unpack(TRIALS[kind]))
  if type(tried) == 'table' and tried.err and string.find(tried.err, 'user executing the script') then return TRIALS[kind][1] end
end
-- Above 2^53 - 1 a sum may be rounded down to what is allowed.
local LIMIT = $COUNTER_MAX
local KINDS = {add = 'string', set = 'string', field = 'hash', push = 'list'}
local SHOWN = {string = 'value', hash = 'hash', list = 'list'}
local function refusal(effects)
  local trial = {}
  for _, effect in ipairs(effects) do
    local key = KEYS[effects_at + effect[2]]
    if string.find(key, '^{qr:[^}]*}:') then return 'key ' .. key .. ' belongs to a queue' end -- guard: effect-own
    local missing = nil
    missing = lacking(effect[1], key) -- guard: effect-rights
    if missing then return 'this user has no right to run ' .. missing .. ' on the key ' .. key end
    local entry, kind = lookup(trial, key), KINDS[effect[1]]
    if entry.kind ~= 'none' and entry.kind ~= kind then -- guard: effect-type
      return 'key ' .. key .. ' holds a ' .. (SHOWN[entry.kind] or entry.kind) .. ', not a ' .. SHOWN[kind] -- guard: effect-type
    end -- guard: effect-type
    local value = nil
    if effect[1] == 'add' then
      local text = entry.value or (entry.kind == 'string' and redis.call('GET', key)) or '0'
      local old = string.match(text, '^%-?%d+$') and tonumber(text)
      if not old or math.abs(old) > LIMIT or num(old) ~= text then return 'key ' .. key .. ' holds no whole number' end -- guard: effect-number
      local new = (old or 0) + effect[3]
      if math.abs(effect[3]) > LIMIT or math.abs(new) > LIMIT then return 'key ' .. key .. ' would leave 2^53' end
      value = num(new)
    elseif effect[1] == 'set' then
      value = effect[3]
    end
    trial[key] = {kind = kind, value = value}
  end
  for key, entry in pairs(trial) do known[key] = entry end
end
