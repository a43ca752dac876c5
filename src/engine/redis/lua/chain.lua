-- What the effects of an exchange publish: the next messages of chains get their numbers in the settle of the ones before. `chain` is
-- {most waiting, server}. Needs `packs` and `numbering`; included only in calls with such effects.
local function chains(chain, meta, queue, now)
  local m = redis.call('HMGET', meta, 'seq', 'epoch', 'grain', 'head', 'heard')
  local seq, epoch, limit, waiting_from = m[1] + 0, m[2] + 0, chain[1], tonumber(m[4]) or 0
  local self, looked = {links = {}, crowded = {}, server = chain[2], heard = m[5] == chain[2] and m[5] ~= ''}, false
  local new = numbering(seq, epoch, tonumber(m[3]) or $GRAIN_START, now())
  -- Why it can never be put in; or else whether it cannot now. As with a push: what is only for later always has room.
  function self.room(publishes)
    local count, soon = #publishes, 0
    for _, each in ipairs(publishes) do soon = soon + (each[1] == 0 and 1 or 0) end
    if soon == 0 then return nil, false end
    if count > limit then return 'it publishes ' .. num(count) .. ' messages, and ' .. num(limit) .. ' may wait' end -- guard: chain-never
    if new.seq + count - waiting_from > limit and not looked then
      local first = redis.call('LINDEX', queue, 0)
      looked, waiting_from = true, first and (select(2, sound(first)) or waiting_from) or seq
    end
    local crowded = false
    crowded = new.seq + count - waiting_from > limit -- guard: chain-full
    return nil, crowded
  end
  function self.follow(cause, publishes)
    local links = self.links
    links[#links + 1] = cause; links[#links + 1] = new.seq; links[#links + 1] = #publishes
    for _, each in ipairs(publishes) do new.add(each[2], each[1]) end
  end
  -- What is told of it; nothing, if there is nothing to tell.
  function self.told()
    new.close()
    if #self.links + #self.crowded > 0 then return {epoch, self.links, self.crowded} end
  end
  -- Returns  whether something waits in the queue for it
  function self.write(later)
    if #self.links == 0 then return false end
    new.write(queue, later)
    redis.call('HSET', meta, 'seq', num(new.seq), 'head', num(waiting_from))
    return #new.packs > 0
  end
  return self
end
