--- Marks of arrays: moonpad.array's, and those of lua-cjson where it has been loaded. They
--- are metatables.
local core = require "moonpad.core"

local arrays = {}

local ARRAY = getmetatable(core.array {})

local function isCjsonMark(metatable, name)
  for _, module in ipairs { "cjson", "cjson.safe" } do
    local cjson = package.loaded[module]
    if type(cjson) == "table" and rawequal(rawget(cjson, name), metatable) then return true end
  end
  return false
end

---@param value table
---@return table? metatable the mark that the table has
function arrays.markOf(value)
  local metatable = getmetatable(value)
  if metatable == nil then return nil end
  if rawequal(metatable, ARRAY) then return ARRAY end
  if type(metatable) ~= "table" then return nil end -- what `__metatable` says
  local isMark = isCjsonMark(metatable, "array_mt") or isCjsonMark(metatable, "empty_array_mt")
  return isMark and metatable or nil
end

---Is this an array by its mark, whatever it holds? (One of lua-cjson's says so of empty
---tables only.)
---@param value any
---@return boolean
function arrays.isMarked(value)
  if type(value) ~= "table" then return false end
  local mark = arrays.markOf(value)
  return mark ~= nil and (next(value) == nil or not isCjsonMark(mark, "empty_array_mt"))
end

return arrays
