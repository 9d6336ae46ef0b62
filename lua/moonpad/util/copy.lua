--- Deep copies of JSON-like data: state proxies become plain tables, marks of arrays are kept.
local arrays = require "moonpad.util.array"
local core = require "moonpad.core"
local inlineData = require "moonpad.events.inline_data"

-- Deeper data cannot be stored anyway (contract 1.2); this catches cycles.
local MAX_DEPTH = 200

local function copy(value, depth, made)
  local kind = type(value)
  if kind == "userdata" and value ~= core.null and value ~= core.removed then return core.toTable(value) end
  if kind ~= "table" then return value end
  if depth > MAX_DEPTH then core.error("invalid_argument", "a table is nested too deeply, or contains itself") end
  made.tables = made.tables + 1
  if made.tables > core.maxCopyTables then
    core.error("invalid_argument",
      ("more than %d tables to copy, each counted wherever it stands"):format(core.maxCopyTables))
  end
  local result = {}
  for key, item in next, value do result[key] = copy(item, depth + 1, made) end
  -- Only marks, of arrays and of files: what else a metatable does (`__gc`) is the original's
  -- affair.
  local metatable = getmetatable(value)
  if metatable == nil then return result end
  return setmetatable(result, inlineData.mark(metatable) or arrays.markOf(value))
end

---@generic T
---@param value T
---@return T
return function(value)
  return copy(value, 0, { tables = 0 })
end
