-- Lua cannot take back what it wrote: a right that someone has taken away must show before the first write. Redis 7, Valkey and
-- newer can be asked; with 6.2, a right that is missing shows when its command is reached.
local function lacks(...)
  local may = redis.acl_check_cmd
  for _, command in ipairs(may and {...} or {}) do
    if not may(command) then
      return redis.error_reply('NOPERM queenright: this user has no permissions to run the \'' .. command .. '\' command')
    end
  end
end
local lack = nil
