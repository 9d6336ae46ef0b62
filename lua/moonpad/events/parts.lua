--- Makers of parts: what users, models and tools say, piece by piece. A part, or a list of parts,
--- may stand wherever a Content or the response of a model is expected.
local base64 = require "moonpad.util.base64"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local lists = require "moonpad.util.list"

local parts = {}

local function checkText(value, where)
  if type(value) ~= "string" then fields.refuse(where, "expected a string, got " .. lists.kindOf(value)) end
  fields.checkUtf8(value, where)
end

-- A copy, so that what the caller changes later changes no part. Values of state are tables here.
local function object(value, where)
  value = core.toTable(value)
  if type(value) ~= "table" or rawlen(value) > 0 then
    fields.refuse(where, "expected a table with names as keys, got " .. lists.kindOf(value))
  end
  fields.checkJson(value, where)
  return copy(value)
end

---A part that says a text.
---@param text string
---@param ... any with more arguments, `text` is a format as in `string.format`
---@return moonpad.Part
function parts.text(text, ...)
  checkText(text, "moonpad.text")
  if select("#", ...) > 0 then
    local ok, formatted = pcall(string.format, text, ...)
    if not ok then fields.refuse("moonpad.text", formatted) end
    checkText(formatted, "moonpad.text")
    text = formatted
  end
  return { text = text }
end

---A part that calls a function: what a model answers with to have a tool run.
---@param name string of the tool
---@param args table? its arguments; default: none
---@param id string? default: the run gives it one
---@return moonpad.Part
function parts.functionCall(name, args, id)
  local where = "moonpad.functionCall"
  if not fields.text.is(name) then fields.refuse(where .. ": name", "expected a non-empty string, got "
    .. fields.describe(name)) end
  checkText(name, where .. ": name")
  if id ~= nil then checkText(id, where .. ": id") end
  return { functionCall = { name = name, args = args == nil and {} or object(args, where .. ": args"), id = id } }
end

---A part that answers a function call, as the program does for a long-running tool or
---a confirmation.
---@param call moonpad.FunctionCall one that `event:functionCalls()` gives
---@param response any a table with names as keys, or a value that becomes `{ result = value }`
---@return moonpad.Part
function parts.functionResponse(call, response)
  local where = "moonpad.functionResponse"
  if type(call) ~= "table" or type(call.name) ~= "string" then
    fields.refuse(where .. ": call", "expected a function call ({ id, name }), got "
      .. (type(call) == "table" and "a table without name" or lists.kindOf(call)))
  end
  response = core.toTable(response)
  if type(response) ~= "table" or rawlen(response) > 0 then response = { result = response } end
  return { functionResponse = { id = call.id, name = call.name, response = object(response, where .. ": response") } }
end

---A part that holds a file: its bytes stand in it as base64, as in every event.
---@param mimeType string
---@param bytes string as they are in the file
---@param displayName string?
---@return moonpad.Part
function parts.inlineData(mimeType, bytes, displayName)
  local where = "moonpad.inlineData"
  if not fields.text.is(mimeType) then
    fields.refuse(where .. ": mimeType", "expected a non-empty string, got " .. fields.describe(mimeType))
  end
  checkText(mimeType, where .. ": mimeType")
  if type(bytes) ~= "string" then
    fields.refuse(where .. ": bytes", "expected a string, got " .. lists.kindOf(bytes))
  end
  if displayName ~= nil then checkText(displayName, where .. ": displayName") end
  return { inlineData = { mimeType = mimeType, data = base64.encode(bytes), displayName = displayName } }
end

return parts
