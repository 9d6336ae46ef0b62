--- Reading what a provider has sent: each field is of the type that the API documents, or not there
--- (a null is not there). Anything else is an error `model` that names the field.
local arrays = require "moonpad.util.array"
local core = require "moonpad.core"

local fields = {}

local function isList(value)
  return value[1] ~= nil or arrays.isMarked(value)
end

local function kindOf(value)
  if value == core.null then return "null" end
  if type(value) == "table" then return isList(value) and "a list" or "an object" end
  return "a " .. type(value)
end

local function join(path, name)
  return path == "" and name or path .. "." .. name
end

---@param path string of a field
---@param problem string
function fields.refuse(path, problem)
  core.error("model", ("%s: %s"):format(path, problem))
end

local function refuseType(path, name, expected, value)
  fields.refuse(join(path, name), ("expected %s, got %s"):format(expected, kindOf(value)))
end

local function present(object, name)
  local value = object[name]
  if value == core.null then return nil end
  return value
end

local function typed(kind, expected)
  return function(object, name, path)
    local value = present(object, name)
    if value == nil or type(value) == kind then return value end
    return refuseType(path, name, expected, value)
  end
end

---All of them take an object, the name of a field in it, and the path of the object ("" for the
---answer itself).
---@type fun(object: table, name: string, path: string): string?
fields.string = typed("string", "a string")

---@type fun(object: table, name: string, path: string): number?
fields.number = typed("number", "a number")

---@type fun(object: table, name: string, path: string): boolean?
fields.boolean = typed("boolean", "true or false")

---@type fun(object: table, name: string, path: string): string? nil for an empty one, too
function fields.text(object, name, path)
  local value = fields.string(object, name, path)
  return value ~= "" and value or nil
end

---@type fun(object: table, name: string, path: string): table? a table with names; some servers write [] for {}
function fields.object(object, name, path)
  local value = present(object, name)
  if value == nil or type(value) == "table" and value[1] == nil then return value end
  return refuseType(path, name, "an object", value)
end

---@type fun(object: table, name: string, path: string): table[] list of objects; empty where there is none
function fields.objects(object, name, path)
  local list = present(object, name)
  if list == nil then return {} end
  if type(list) ~= "table" or not isList(list) and next(list) ~= nil then
    return refuseType(path, name, "a list", list)
  end
  for index, item in ipairs(list) do
    if type(item) ~= "table" or item[1] ~= nil then
      refuseType(path, ("%s[%d]"):format(name, index), "an object", item)
    end
  end
  return list
end

---Reads a field that must be there.
---@param read fun(object: table, name: string, path: string): any
function fields.required(read, object, name, path)
  local value = read(object, name, path)
  if value == nil then fields.refuse(join(path, name), "is missing") end
  return value
end

---Checks the fields of an object.
---@param object table
---@param path string
---@param readers table<string, function> name -> one of the functions above
function fields.check(object, path, readers)
  for name, read in pairs(readers) do read(object, name, path) end
end

---@param object table
---@return table copy without its nulls
function fields.withoutNulls(object)
  local copied = {}
  for name, value in pairs(object) do
    if value ~= core.null then copied[name] = value end
  end
  return copied
end

return fields
