-- The shortcut. Where messages are handled one by one, nearly every call settles one pack as done and takes one of the same
-- size; where they are rare, a lane that holds nothing is woken by the bell and takes the only one. The rest of this script would do the
-- same, in one and a half times the time.
local settles = #ARGV == 9
local woken = ARGV[6] == '1' or ARGV[6] == '3'
if (settles and not woken or #ARGV == 7 and woken) and ARGV[4] == '' and redis.call('HGET', KEYS[1], 'shortcut') == ARGV[5] then
  local run, lane, place = redis.call, 'lane:' .. ARGV[2], 'pack:' .. ARGV[2]
  local stored = settles and run('HMGET', KEYS[3], lane, place) or run('HMGET', KEYS[3], lane, place, 'suspects')
  local record, pack = stored[1], stored[2]
  local usual = record and not pack
  usual = usual and stored[3] == '0 0' -- guard: shortcut-alone
  if settles then usual = record and pack and string.sub(pack, 1, 4) == '\1\0\1\0' and #pack >= 44 end
  if usual then
    local call, want, n = tonumber(ARGV[3]), tonumber(ARGV[5]), 0
    local fits, _, last, done, failed, held = pcall(cmsgpack.unpack_limit, record, 4, 1)
    fits = fits and held
    fits = fits and call == last + 1 -- guard: shortcut-call
    if fits and settles then
      local first, _, _, count = struct.unpack('<I8I8I8I4', pack, 9)
      n = tonumber(ARGV[9])
      fits = count == n
      fits = fits and first == tonumber(ARGV[8]) -- guard: shortcut-piece
    end
    local next, answer = fits and run('LPOP', KEYS[2]), nil
    local small = next
    small = next and (want == 1 or #next <= tonumber(ARGV[7])) -- guard: shortcut-bytes
    -- As in sound().
    if small and #next >= 44 then
      local version, flags, _, _, _, id, _, _, size, base = struct.unpack('<BBHHHI8I8I8I4I4', next)
      fits = version == 1 and flags == 0 and size >= 1 and size <= want and id <= $COUNTER_MAX - size and #next >= 40 + 4 * size
      if fits and settles then fits = size == want end
      if fits and not settles then fits = redis.pcall('LLEN', KEYS[2]) == 0 end -- guard: shortcut-only
      if fits and #next - 40 - 4 * size == struct.unpack('<I4', next, 37 + 4 * size) - base then
        -- {call, done, failed, held, {id}, {}}, without making a table.
        record = '\150' .. cmsgpack.pack(call, done + n, failed, held - n + size) .. '\145' .. cmsgpack.pack(string.format('%d', id)) .. '\144'
        answer = redis.pcall('HSET', KEYS[3], place, next, lane, record)
        if type(answer) ~= 'table' then return next end
      end
    end
    -- It goes back, whatever rights someone has taken away: to the head or, if need be, to the end.
    if next and type(redis.pcall('LPUSH', KEYS[2], next)) == 'table' then run('RPUSH', KEYS[2], next) end -- guard: shortcut-rights
    if answer then return answer end
  end
end
