-- Lua cannot take back what it wrote: a key in whose place someone has put something else must show before the first write. By places in KEYS, the
-- types that those must have which are there.
local function foreign(kinds)
  for i, kind in pairs(kinds) do
    local found = KEYS[i] and redis.call('TYPE', KEYS[i]).ok or 'none'
    if found ~= 'none' and found ~= kind then
      return redis.error_reply('WRONGTYPE queenright: key ' .. KEYS[i] .. ' holds a ' .. found .. ', not a ' .. kind)
    end
  end
end
