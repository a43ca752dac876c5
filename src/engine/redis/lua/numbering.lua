-- Gives numbers to messages that no generator made, from `seq` on, and packs them: as many in one as the grain says, and each that is for later
-- alone, as is each that has an envelope: if it belongs to a group, it is for the line of that. Needs `packs`.
local function numbering(seq, epoch, grain, wall)
  local self, batch, batch_bytes = {seq = seq, packs = {}, grouped = {}, later = {}}, {}, 0
  local function pack(first, payloads, unordered, version)
    local parts, at = {struct.pack(HEADER, version or 1, 0, 1, 0, unordered, first, epoch, wall, #payloads)}, 0
    for _, payload in ipairs(payloads) do
      parts[#parts + 1] = struct.pack('<I4', at)
      at = at + #payload
    end
    parts[#parts + 1] = struct.pack('<I4', at)
    return table.concat(parts) .. table.concat(payloads)
  end
  function self.close()
    if #batch > 0 then self.packs[#self.packs + 1] = pack(self.seq - #batch, batch, 0) end
    batch, batch_bytes = {}, 0
  end
  function self.add(payload, delay, envelope)
    if envelope and envelope ~= '' then
      -- If it is put off, it goes into the line of its group when it is due.
      self.close()
      local body, is_grouped = {envelope .. payload}, string.byte(envelope) > 0
      local to = is_grouped and self.grouped or self.packs
      if delay == 0 then to[#to + 1] = pack(self.seq, body, 0, 2)
      else
        self.later[#self.later + 1] = num(wall + delay)
        self.later[#self.later + 1] = later_entry(self.seq, pack(self.seq, body, is_grouped and 3 or 1, 2))
      end
    elseif delay > 0 then
      self.close()
      self.later[#self.later + 1] = num(wall + delay)
      self.later[#self.later + 1] = later_entry(self.seq, pack(self.seq, {payload}, 1))
    else
      if #batch > 0 and (#batch >= math.min(grain, $PACK_MESSAGES_MAX) or batch_bytes + #payload > $PACK_BYTES_MAX) then self.close() end
      batch[#batch + 1] = payload
      batch_bytes = batch_bytes + #payload
    end
    self.seq = self.seq + 1
  end
  function self.write(queue, later)
    local packs, entries = self.packs, self.later
    for i = 1, #packs, $UNPACK_MAX do redis.call('RPUSH', queue, unpack(packs, i, math.min(i + ($UNPACK_MAX - 1), #packs))) end
    for i = 1, #entries, $UNPACK_MAX do redis.call('ZADD', later, unpack(entries, i, math.min(i + ($UNPACK_MAX - 1), #entries))) end
  end
  return self
end
