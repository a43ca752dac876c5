-- A limit: how fast messages may be taken. Needs `num`. The field `limit` of `meta` has ten numbers: messages, milliseconds, burst; messages and
-- milliseconds of each group (of both: 0 messages, no limit); the limit's clock; TIME when it was last looked at; what is in the bucket, where a
-- message takes as much as the rate has milliseconds; whether who took last wanted more (1); whether groups may rest (1).
-- What cannot be read limits nothing.
local function limit_most(l, short)
  return l[3] * l[2] + (short and l[1] * $LIMIT_SLACK_MS or 0)
end

local function limit_read(text, wall)
  local l = {}
  for n in string.gmatch(text or '', '%d+') do l[#l + 1] = tonumber(n) end
  if #l ~= 10 or l[2] < 1 or l[5] < 1 then return end
  local moved = wall - l[7]
  if moved < 0 then moved = 0 end -- guard: limit-back
  l[6], l[7] = math.max(l[6] + moved, 0), wall
  l[8] = math.max(l[8] + moved * l[1], 0)
  l[8] = math.min(l[8], limit_most(l, l[9] == 1)) -- guard: limit-burst
  return l
end

local function limit_text(l)
  for i, n in ipairs(l) do l[i] = num(n) end
  return table.concat(l, ' ')
end

-- How far two messages of a group are apart, in microseconds.
local function limit_apart(l) return math.floor((l[5] * $MS_US + math.floor(l[4] / 2)) / l[4]) end

-- Whether nothing may be taken now, and somebody was told when there is more.
local function limit_awaited(meta, wall)
  local l = limit_read(redis.call('HGET', meta, 'limit'), wall)
  return l and l[1] > 0 and l[8] < l[2] and l[9] == 1
end
