-- What an exchange needs of groups. Needs `groups` and `groups_take`, and `want` and `none` of the exchange.
return {
  -- As in `asked`.
  is_asked = function(pack)
    local at = 46 + (string.byte(pack, 45) or 0)
    return string.sub(pack, at + 3, at + 4) == '\161a'
  end,
  of = group_of, misplaced = misplaced, ended = ended, take = take_groups, line_up = line_up,
  waiting = function() return redis.call('ZCARD', LINES) end,
  skips = function() look_up(none); return math.floor(rules / 2) % 2 == 1 end,
  -- Groups that are not held back any more.
  go_on = function(names)
    look_up(names)
    local waiting = redis.call('ZMSCORE', COUNTS, unpack(names))
    for i, name in ipairs(names) do
      if tonumber(waiting[i] or 0) > 0 then offer(name) end
    end
    save()
  end,
  wait = function() return redis.call('LLEN', READY) > 0 end,
  -- How much groups get before the queue. The next take begins the other way round. A take that has half of what it wants cuts no
  -- pack of the queue: so it has less than that of groups.
  first_share = function(wanted)
    look_up(none)
    local first = rules % 2
    rules = rules + 1 - 2 * first
    local share = math.floor((wanted + first) / 2)
    if want >= $TAKE_EXACT then share = math.floor(wanted / 4) end
    return math.min(share, $TAKE_PACKS_MAX / 2)
  end,
}
