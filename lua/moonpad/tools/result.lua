--- What the function of a tool returns: a result and files that go along, or nil and what went
--- wrong.
local content = require "moonpad.events.content"
local core = require "moonpad.core"
local inlineData = require "moonpad.events.inline_data"

local results = {}

-- Providers take nothing else beside the response of a function.
local FILES = {
  inlineData = { "mimeType", "data" },
  fileData = { "fileUri" },
}

local function checkFile(part, where)
  for kind, needed in pairs(FILES) do
    local file = part[kind]
    if type(file) == "table" then
      for _, field in ipairs(needed) do
        if type(file[field]) ~= "string" then
          core.error("tool", ("%s.%s.%s: expected a string, got %s"):format(where, kind, field, type(file[field])))
        end
      end
      local problem = kind == "inlineData" and inlineData.problem(file)
      if problem then core.error("tool", ("%s.inlineData.data: %s"):format(where, problem)) end
      return
    end
  end
  core.error("tool", where .. ": expected a file: a part with inlineData or fileData; text belongs into the result")
end

-- The parts as an array, or nil where there are none.
local function partsOf(value, where)
  if type(value) ~= "table" then
    core.error("tool", ("%s: expected a list of parts, got %s (brackets drop what a call returns behind its first "
      .. "value: return (f(x)))"):format(where, type(value)))
  end
  local given = content.isPart(value) and { value } or value
  local parts = content.normalize({ parts = given }, "user", where).parts
  for index, part in ipairs(parts) do checkFile(part, ("%s.parts[%d]"):format(where, index)) end
  return #parts > 0 and parts or nil
end

---Reads what `run` has returned. `nil, "message"` is raised as an error without a position.
---@param name string of the tool
---@param result any
---@param second any
---@return any result
---@return table[]? parts files that go along
function results.read(name, result, second)
  if second == nil then return result end
  if result == nil and (type(second) == "string" or core.isError(second)) then error(second, 0) end
  return result, partsOf(second, name .. ": the second value of run")
end

return results
