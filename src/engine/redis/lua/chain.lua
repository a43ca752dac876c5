-- What the effects of an exchange publish: the next messages of chains get their numbers in the settle of the ones before. `chain` is
-- {most waiting, server}. Needs `packs` and `numbering`; included only in calls with such effects.
local function chains(chain, meta, queue, now)
  local m = redis.call('HMGET', meta, 'seq', 'epoch', 'grain', 'head', 'heard')
  local seq, epoch, limit, waiting_from = m[1] + 0, m[2] + 0, chain[1], tonumber(m[4]) or 0
  local self, looked = {links = {}, crowded = {}, server = chain[2], heard = m[5] == chain[2] and m[5] ~= ''}, false
  local new = numbering(seq, epoch, tonumber(m[3]) or $GRAIN_START, now())
  -- Whether it belongs to a group: its envelope begins with the length of the name.
  local function is_grouped(each) return each[3] and string.byte(each[3]) > 0 end
  -- Whether some of these belong to groups.
  function self.needs_groups(publishes)
    for _, each in ipairs(publishes) do
      if is_grouped(each) then return true end
    end
  end
  -- Why it can never be put in; or else whether it cannot now. As with a push: what is only for later always has room.
  -- `group` waits for the message that publishes.
  function self.room(publishes, groups, group)
    local count, plain, grouped, holds_up = #publishes, 0, 0, false
    for _, each in ipairs(publishes) do
      local soon = each[1] == 0 and 1 or 0
      if is_grouped(each) then grouped = grouped + soon else plain = plain + soon end
    end
    if plain + grouped == 0 then return nil, false end
    if count > limit then return 'it publishes ' .. num(count) .. ' messages, and ' .. num(limit) .. ' may wait' end -- guard: chain-never
    if plain > 0 and new.seq + count - waiting_from > limit and not looked then
      local first = redis.call('LINDEX', queue, 0)
      looked, waiting_from = true, first and (select(2, sound(first)) or waiting_from) or seq
    end
    local crowded = false
    crowded = plain > 0 and new.seq + count - waiting_from > limit -- guard: chain-full
    -- What holds up its group is not put off because lines are full: it may be what fills them, and then nothing would ever go on.
    holds_up = group ~= nil -- guard: chain-group
    if grouped > 0 and not holds_up and groups.waiting() + #new.grouped + grouped > limit then crowded = true end -- guard: chain-full
    return nil, crowded
  end
  function self.follow(cause, publishes)
    local links = self.links
    links[#links + 1] = cause; links[#links + 1] = new.seq; links[#links + 1] = #publishes
    for _, each in ipairs(publishes) do new.add(each[2], each[1], each[3]) end
  end
  -- What is told of it; nothing, if there is nothing to tell.
  function self.told()
    new.close()
    if #self.links + #self.crowded > 0 then return {epoch, self.links, self.crowded} end
  end
  -- Returns  whether something waits in the queue for it, and what is to be put into the lines of groups
  function self.write(later)
    if #self.links == 0 then return false, {} end
    new.write(queue, later)
    redis.call('HSET', meta, 'seq', num(new.seq), 'head', num(waiting_from))
    return #new.packs > 0, new.grouped
  end
  return self
end
