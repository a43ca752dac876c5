-- The fields of an error's record, the tenth, its envelope, only where there is one; nothing, if it cannot be read.
local KINDS = {'number', 'number', 'number', 'number', 'number', 'string', 'string', 'string', 'number'}
local function fields_of(record)
  local fine, fields = pcall(cmsgpack.unpack, record)
  if not fine or type(fields) ~= 'table' or #fields ~= #KINDS and #fields ~= #KINDS + 1 then return end
  for i, kind in ipairs(KINDS) do
    local field = fields[i]
    if type(field) ~= kind then return end
    if kind == 'number' and not (field >= 0 and field <= $COUNTER_MAX and field == math.floor(field)) then return end
  end
  if fields[10] and type(fields[10]) ~= 'string' then return end
  if fields[2] > 65535 or fields[9] > 65535 then return end
  return fields
end
