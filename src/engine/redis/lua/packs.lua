-- Packs, and the bodies of large ones. Lua makes functions anew in every call: a script includes this only where it needs it.

-- Where the payload of the message at an index begins in the pack's bytes; that of `count` is where the last one ends.
local function offset(pack, count, index)
  local base = struct.unpack('<I4', pack, 37)
  return 41 + 4 * count - base + struct.unpack('<I4', pack, 37 + 4 * index)
end

-- Lua reads every byte of every string that it is handed. So the body of a large pack is stored separately in `bodies`, written and
-- read by plain commands, and what moves in its place is a stub: its head with flags 1, then the first number, the count and the
-- length of the pack that it stands for. In a hand, and in `again`, it may stand for a part of that pack. Beside each body is the
-- number of messages that still refer to it. The same in Rust: redis/bodies.rs.
local STUB = '<I8I4I4'

local function is_stub(pack) return string.byte(pack, 2) == 1 end

-- Where the body of a stub is, and how many messages it has.
local function body(pack)
  local first, count = struct.unpack(STUB, pack, 37)
  return num(select(7, head(pack))) .. ':' .. num(first), count
end

local function is_part(pack)
  return is_stub(pack) and select(2, struct.unpack(STUB, pack, 37)) > select(9, head(pack))
end

-- How many bytes a pack has, wherever they are.
local function size(pack)
  if is_stub(pack) then return (select(3, struct.unpack(STUB, pack, 37))) end
  return #pack
end

-- The messages from .. from + n of a pack as a pack of their own: no loop, the offsets stay as they are.
local function piece(pack, from, n)
  local version, flags, attempt, failures, unordered, first, epoch, published, count = head(pack)
  if n == count then return pack end
  local cut = struct.pack(HEADER, version, flags, attempt, failures, unordered, first + from, epoch, published, n)
  if flags == 1 then return cut .. string.sub(pack, 37) end
  return cut .. string.sub(pack, 37 + 4 * from, 40 + 4 * (from + n))
    .. string.sub(pack, offset(pack, count, from), offset(pack, count, from + n) - 1)
end

-- A pack with its bytes in it; nothing, if someone has removed or changed them.
local function whole(bodies, pack)
  if not is_stub(pack) then return pack end
  local version, _, attempt, failures, unordered, first, epoch, published, n = head(pack)
  local all, count, length = struct.unpack(STUB, pack, 37)
  local bytes = redis.call('HGET', bodies, (body(pack)))
  if not bytes or #bytes ~= length then return nil end
  local full = struct.pack(HEADER, version, 0, attempt, failures, unordered, all, epoch, published, count) .. string.sub(bytes, 37)
  if not sound(full) then return nil end
  return piece(full, first - all, n)
end

-- `n` messages of a stub no longer refer to its body; with the last one the body goes. If someone has changed the number, the body
-- stays until the queue is removed.
local function let_go(bodies, pack, n)
  local id, count = body(pack)
  local left = n == count and 0 or redis.pcall('HINCRBY', bodies, id .. '+', num(-n))
  if type(left) == 'number' and left <= 0 then
    redis.call('HDEL', bodies, id, id .. '+') -- guard: bodies-end
  end
end

-- Where the payload begins that has an envelope before it.
local function inside(pack, from)
  local group = string.byte(pack, from)
  return from + 3 + group + struct.unpack('<H', pack, from + 1 + group)
end

-- The record of a failed message, with the envelope of one that has it. Of a stub, whose bytes someone has removed, the payload is empty.
local function failure(pack, index, time, node, text)
  local _, _, attempt, failures, _, first, epoch, published, count = head(pack)
  local payload, envelope = '', nil
  if is_stub(pack) then text = text .. ' (its bytes are gone from the store)'
  else
    local from = offset(pack, count, index)
    local begins = string.byte(pack) == 2 and inside(pack, from) or from
    if begins > from then envelope = string.sub(pack, from, begins - 1) end
    payload = string.sub(pack, begins, offset(pack, count, index + 1) - 1)
  end
  return first + index, cmsgpack.pack({first + index, attempt, epoch, published, time, node, text, payload, failures, envelope})
end

-- A message as an element of `later`: its number comes first, so that of two that are due together the older one is first.
local function later_entry(number, pack)
  return struct.pack('>I8', number) .. pack
end

-- A pack with its bytes in it, to be cut; its body is let go. Nothing, if the bytes are gone, or if a right for that is missing: then
-- it is taken whole, though that is more than was wanted. What was delivered before is not taken without these rights.
local function bring(bodies, pack)
  local may = redis.acl_check_cmd
  if may and not (may('HGET') and may('HINCRBY')) then return nil end -- guard: rights
  local full = whole(bodies, pack)
  if full and is_stub(pack) then let_go(bodies, pack, (select(9, head(pack)))) end
  return full
end
