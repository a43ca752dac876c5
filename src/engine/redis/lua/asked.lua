-- Outcomes that are asked for. `asked` has a record of each such message: {0, until when it waits} or, once it has ended, {1 done or 2 failed, when,
-- node, deliveries, failures, maybe result or error}. `endings` has those that ended by when, each with its number in 8 bytes. Needs `common`.

-- Whether the envelope that begins there says so: by its first attribute.
local function asks(text, from)
  local at = from + 1 + (string.byte(text, from) or 0)
  return string.sub(text, at + 3, at + 4) == '\161a'
end

local function is_asked(pack)
  return string.byte(pack) == 2 and asks(pack, 45)
end

-- What is to be noted in these keys, at the time that `now` tells. Nothing is written before `write`.
local function asking(asked, endings, now)
  local self, records, ended = {}, {}, {}
  local function ends(pack, kind, node, text)
    local _, _, attempt, failures, _, number = head(pack)
    records[#records + 1] = num(number)
    records[#records + 1] = cmsgpack.pack({kind, now(), node, attempt, failures, text})
    ended[#ended + 1] = num(now())
    ended[#ended + 1] = struct.pack('>I8', number)
  end
  function self.done(pack, node, result) ends(pack, 1, node, result) end
  function self.failed(pack, node, text) ends(pack, 2, node, text) end
  function self.waits(pack, due)
    records[#records + 1] = num((select(6, head(pack))))
    records[#records + 1] = cmsgpack.pack({0, due})
  end
  -- Why nothing can be written, or nothing. Not looked at where nothing is to be, unless anything may come.
  function self.misplaced(anything)
    if #records == 0 and not anything then return end
    for key, kind in pairs({[asked] = 'hash', [endings] = 'zset'}) do
      local found = redis.call('TYPE', key).ok
      if found ~= 'none' and found ~= kind then
        return redis.error_reply('WRONGTYPE queenright: key ' .. key .. ' holds a ' .. found .. ', not a ' .. kind)
      end
    end
    for _, command in ipairs(redis.acl_check_cmd and {'HSET', 'HDEL', 'ZADD', 'ZREM', 'ZRANGE', 'ZCARD'} or {}) do
      local lacks = not redis.acl_check_cmd(command)
      if lacks then return redis.error_reply('NOPERM queenright: this user has no permissions to run ' .. command) end -- guard: rights
    end
  end
  -- Each that ends forgets up to two more than are added, if their time is over, or there are too many.
  function self.write()
    for i = 1, #records, $UNPACK_MAX do redis.call('HSET', asked, unpack(records, i, math.min(i + ($UNPACK_MAX - 1), #records))) end
    if #ended == 0 then return end
    for i = 1, #ended, $UNPACK_MAX do redis.call('ZADD', endings, unpack(ended, i, math.min(i + ($UNPACK_MAX - 1), #ended))) end
    local first, count, gone, fields = redis.call('ZRANGE', endings, 0, #ended / 2 + 1, 'WITHSCORES'), redis.call('ZCARD', endings), {}, {}
    for i = 1, #first, 2 do
      local over = #first[i] ~= 8
      if first[i + 1] + $ENDING_MS <= now() then over = true end -- guard: endings-until
      if count - #gone > $ENDINGS_MAX then over = true end -- guard: endings-max
      if not over then break end
      gone[#gone + 1] = first[i]
      fields[#gone] = #first[i] == 8 and num((struct.unpack('>I8', first[i]))) or ''
    end
    if #gone > 0 then
      redis.call('ZREM', endings, unpack(gone))
      redis.call('HDEL', asked, unpack(fields))
    end
    -- Whoever waits is told; nothing is lost with it.
    for i = 2, #ended, 2 do redis.pcall('PUBLISH', endings .. ':' .. num((struct.unpack('>I8', ended[i]))), '1') end
  end
  return self
end
