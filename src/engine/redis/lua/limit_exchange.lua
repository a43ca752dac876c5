-- What an exchange needs of a limit. Needs `common` and `limits`, and `want` of the exchange.
local l = limit_read(redis.call('HGET', KEYS[1], 'limit'), select(2, hive(0, 0, 0)))
if not l then return end
local RESTING, late, wanted = KEYS[15], {}, want
local function clock() return l[6] * $MS_US end
local function rest(name, until_us)
  redis.call('ZADD', RESTING, num(until_us), name)
  l[10] = 1
end
local limit = {needs_groups = l[4] > 0 or l[10] == 1, wanted = wanted, allowed = wanted}
-- Before the take; so many messages were given back, and with them what they had taken from the bucket.
function limit.look(returned)
  if l[1] == 0 then return end
  local given = 0
  given = returned -- guard: limit-returned
  l[8] = math.min(l[8] + given * l[2], limit_most(l, true))
  limit.allowed = math.min(wanted, math.floor(l[8] / l[2])) -- guard: limit
end
-- Groups that rest no longer are offered again.
function limit.call(groups)
  if l[10] ~= 1 then return end
  local due, names = redis.call('ZRANGEBYSCORE', RESTING, '-inf', num(clock()), 'WITHSCORES', 'LIMIT', 0, $GROUPS_LOOKED_MAX), {}
  for i = 1, #due, 2 do names[#names + 1], late[due[i]] = due[i], tonumber(due[i + 1]) end
  if #names == 0 then return end
  redis.call('ZREM', RESTING, unpack(names))
  groups.go_on(names)
end
function limit.rests(name)
  if l[4] == 0 then return false end
  local until_us, rests = redis.call('ZSCORE', RESTING, name), false
  rests = until_us and tonumber(until_us) > clock() -- guard: limit-group
  return rests
end
function limit.took(name)
  if l[4] == 0 then return end
  rest(name, math.max(late[name] or clock(), clock() - $LIMIT_SLACK_MS * $MS_US) + limit_apart(l))
  late[name] = nil
end
-- Taken again: if it may have been handled before, its group rests for it once more.
function limit.took_again(name)
  if l[4] == 0 then return end
  rest(name, math.max(tonumber(redis.call('ZSCORE', RESTING, name) or 0), clock()) + limit_apart(l)) -- guard: limit-again
end
-- Whether nothing may be taken now.
function limit.is_shut() return l[1] > 0 and l[8] < l[2] end
-- After the take. Returns in how many milliseconds there is more, if the limit kept something back, and whether nothing may be taken now.
function limit.close(total, waits)
  local wait = nil
  if l[1] > 0 then
    l[8] = math.max(l[8] - total * l[2], 0)
    if wanted > 0 then l[9] = limit.allowed < wanted and total >= limit.allowed and 1 or 0 end
    if l[9] == 1 then wait = math.max(math.ceil((l[2] - l[8]) / l[1]), 0)
    elseif limit.allowed < wanted and total > 0 and waits() then wait = 0 end
  end
  if l[10] == 1 and wanted > 0 then
    local first = redis.call('ZRANGE', RESTING, 0, 0, 'WITHSCORES')
    if not first[1] then l[10] = 0
    elseif total < limit.allowed and not wait then wait = math.max(math.ceil((first[2] - clock()) / $MS_US), 0) end
  end
  local shut, ends = limit.is_shut(), l[1] == 0 and l[4] == 0 and l[10] == 0
  if ends then redis.call('HDEL', KEYS[1], 'limit') else redis.call('HSET', KEYS[1], 'limit', limit_text(l)) end
  return wait, shut, ends
end
return limit
