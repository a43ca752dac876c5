-- How many shards the queue has, as the line of key names tells: it only grows, by ` then=5` and then `,8` (` then=5/2`: over two URLs). Whoever knows of a later reshard than the
-- store tells it with its next call.

-- Whether a line goes on from another.
local function goes_on(longer, shorter)
  if string.sub(longer, 1, #shorter) ~= shorter then return false end
  local more = string.find(shorter, ' then=', 1, true) and '^,%d[%d,/]*$' or '^ then=%d[%d,/]*$'
  return string.find(string.sub(longer, #shorter + 1), more) ~= nil
end

-- Whether a reshard has made this shard that was given up before its one step, in the home shard: nobody has used it. The line then speaks of another number of
-- shards, and is replaced. Where it has the same place on the ring as now, it has the same keys. Who has joined here knew of a reshard that the home shard has lost:
-- nobody else would give up those of them that are dead.
-- Returns  whether it is so, and whether it has members, who are to leave first
local function is_left_over(meta, nodes, recorded, line)
  local of = '^(.*) shards=(%d+) shard=([1-9]%d*)'
  local names, count, shard = string.match(recorded, of)
  local own_names, own_count, own_shard = string.match(line, of)
  if not shard or names ~= own_names or shard ~= own_shard or count == own_count then return false end
  local m = redis.call('HMGET', meta, 'seq', 'made')
  return tonumber(m[1]) == shard * $SHARD_NUMBERS and tonumber(m[2]) == 0, redis.call('ZCARD', nodes) > 0
end

-- Notes a later reshard, which ends the reign: whoever knows of fewer shards is not crowned again. What the generator of a queue without shards has left
-- becomes the first record of one with shards, as `first_record` in layout.rs writes it.
local function note_shards(meta, recorded, line)
  local m = redis.call('HMGET', meta, 'made', 'epoch', 'cursor')
  local made, cursor, fields = tonumber(m[1] or 0), m[3] or '', {'names', line}
  local plain = not string.find(recorded, ' shards=', 1, true) and not string.find(recorded, ' then=', 1, true)
  if plain and (made > 0 or cursor ~= '') then
    fields[3], fields[4] = 'cursor', struct.pack('<BI8I8I4', 1, 1, made, #cursor) .. cursor .. struct.pack('<I4I4I4I8I8', 0, 0, 1, tonumber(m[2] or 0), made) -- guard: reshard-record
  end
  redis.call('HSET', meta, unpack(fields))
  redis.call('HSET', meta, 'generator', '', 'crown', '0') -- guard: reshard-reign
end
