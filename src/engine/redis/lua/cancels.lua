-- What is cancelled. Needs `num` and `head`. The field `cancels` of `meta` has {number, until, ...}, {group, the last number of it that is cancelled, until, ...}
-- and {number, group, ...} of what was requeued since; `paused` has $CANCELS_BIT more while there is any: so as a text it is not less than '4', as with a limit.
-- What cannot be read cancels nothing.
local function cancels_read(text)
  local c = {numbers = {}, groups = {}, spared = {}}
  local fine, kept = pcall(cmsgpack.unpack, text or '')
  if not (fine and type(kept) == 'table' and type(kept[1]) == 'table' and type(kept[2]) == 'table' and type(kept[3]) == 'table') then return c end
  for i = 1, #kept[1], 2 do
    local n, till = tonumber(kept[1][i]), tonumber(kept[1][i + 1])
    if n and till then c.numbers[n] = till end
  end
  for i = 1, #kept[2], 3 do
    local group, last, till = kept[2][i], tonumber(kept[2][i + 1]), tonumber(kept[2][i + 2])
    if type(group) == 'string' and last and till then c.groups[group] = {last, till} end
  end
  for i = 1, #kept[3], 2 do
    local n, group = tonumber(kept[3][i]), kept[3][i + 1]
    if n and type(group) == 'string' then c.spared[n] = group end
  end
  return c
end

local function cancels_size(of)
  local count = 0
  for _ in pairs(of) do count = count + 1 end
  return count
end

-- As it is stored; nothing, if nothing is cancelled.
local function cancels_text(c)
  local numbers, groups, spared = {}, {}, {}
  for n, till in pairs(c.numbers) do numbers[#numbers + 1] = n; numbers[#numbers + 1] = till end
  for group, of in pairs(c.groups) do
    groups[#groups + 1] = group; groups[#groups + 1] = of[1]; groups[#groups + 1] = of[2]
  end
  if #numbers + #groups == 0 then return end
  -- Where no group is cancelled, nothing has to be spared.
  if #groups > 0 then
    for n, group in pairs(c.spared) do spared[#spared + 1] = n; spared[#spared + 1] = group end
  end
  return cmsgpack.pack({numbers, groups, spared})
end

-- Writes it. Returns what `paused` is then, which was `bits`.
local function cancels_write(meta, c, bits)
  local text, is_marked = cancels_text(c), bits >= $CANCELS_BIT
  if text then redis.call('HSET', meta, 'cancels', text) else redis.call('HDEL', meta, 'cancels') end
  if (text ~= nil) ~= is_marked then
    bits = bits + (text and $CANCELS_BIT or -$CANCELS_BIT)
    redis.call('HSET', meta, 'paused', num(bits))
    if text then redis.call('HSET', meta, 'shortcut', '') end
  end
  return bits
end

local function cancels_group(pack)
  local length = string.byte(pack) == 2 and string.byte(pack, 45) or 0
  if length > 0 then return string.sub(pack, 46, 45 + length) end
end

-- Messages have their outcomes.
local function cancels_ended(c, first, count)
  for n = first, first + count - 1 do
    if c.numbers[n] or c.spared[n] then c.numbers[n], c.spared[n], c.changed = nil, nil, true end
  end
end
