-- What an exchange needs of what is cancelled. Needs `cancels`.
local c = cancels_read(redis.call('HGET', KEYS[1], 'cancels'))
return {
  ended = function(first, count) cancels_ended(c, first, count) end,
  -- A message was put off for so long: what is kept for it must outlast that.
  put_off = function(number, pack, after)
    local of = c.groups[cancels_group(pack) or 0]
    if of and number > of[1] then of = nil end
    if not c.numbers[number] and not of then return end
    local m = redis.call('HMGET', KEYS[1], 'clock', 'wall', 'step')
    local till = hive(m[1], m[2], m[3]) + after + $CANCEL_MS
    if c.numbers[number] then c.numbers[number] = math.max(c.numbers[number], till) end
    if of then of[2] = math.max(of[2], till) end
    c.changed = true
  end,
  -- Which messages of these packs are cancelled.
  among = function(packs)
    local told = {}
    for _, pack in ipairs(packs) do
      local _, _, _, _, _, first, _, _, count = head(pack)
      local of = c.groups[cancels_group(pack) or 0]
      for n = first, first + count - 1 do
        local is, within = c.numbers[n], true
        if of then within = n <= of[1] end -- guard: cancel-bound
        is = is or of and within and not c.spared[n]
        if is then told[#told + 1] = n end
      end
    end
    return told
  end,
  write = function(bits)
    if c.changed then return cancels_write(KEYS[1], c, bits) end
    return bits
  end,
}
