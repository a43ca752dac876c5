-- Takes up to so many messages from groups whose turn it is, one of each. Needs `groups` and `aside`. Returns the packs; what cannot be read
-- is set aside.
local function take_groups(quota, bytes, bytes_max, is_first, limit)
  local taken, removed, left, looked, spoilt, full = {}, {}, redis.call('LLEN', READY), 0, 0, false
  while #taken < quota and left > 0 and looked < $GROUPS_LOOKED_MAX and bytes < bytes_max and not full do
    local names = redis.call('LPOP', READY, math.min(left, quota - #taken, $GROUPS_LOOKED_MAX - looked))
    left = left - #names
    look_up(names)
    local back = #names + 1
    for i, name in ipairs(names) do
      local turn, pack, entry = state[name], nil, nil
      if bytes >= bytes_max then full, back = true, i; break end
      looked = looked + 1
      local passes = turn % 2 == 0
      if is_paused(turn) then passes = true end -- guard: group-paused
      if is_busy(turn) then passes = true end -- guard: group-turn
      if not passes and limit and limit.rests(name) then passes = true end
      while not passes and not pack do
        entry = redis.call('ZRANGEBYLEX', LINES, '[' .. name .. '\0', '(' .. name .. '\1', 'LIMIT', 0, 1)[1]
        if not entry then
          redis.call('ZREM', COUNTS, name)
          break
        end
        pack = string.sub(entry, #name + 10)
        if not sound(pack) or group_of(pack) ~= name then
          redis.call('ZREM', LINES, entry)
          redis.call('ZINCRBY', COUNTS, -1, name)
          set_aside(KEYS[1], KEYS[7], 'lines', entry)
          pack, spoilt = nil, spoilt + 1
          if spoilt >= $DAMAGED_MAX then passes = true end
        end
      end
      if not pack then
        change(name, turn - turn % 2)
        if spoilt >= $DAMAGED_MAX then offer(name); full, back = true, i + 1; break end
      elseif bytes + #pack > bytes_max and not (is_first and #taken == 0) then
        full, back = true, i
        break
      else
        removed[#removed + 1], taken[#taken + 1] = entry, pack
        bytes = bytes + #pack
        local waiting = tonumber(redis.call('ZINCRBY', COUNTS, -1, name))
        if waiting <= 0 then redis.call('ZREM', COUNTS, name) end
        change(name, turn - turn % 2 + 4)
        if limit then limit.took(name) end
        if waiting > 0 then offer(name) end
      end
    end
    for i = #names, back, -1 do redis.call('LPUSH', READY, names[i]) end
  end
  if #removed > 0 then redis.call('ZREM', LINES, unpack(removed)) end
  save()
  return taken
end
