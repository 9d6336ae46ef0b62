--- Makers of parts: `moonpad.text`, `moonpad.functionCall`, `moonpad.functionResponse`,
--- `moonpad.inlineData`. What they take is checked, so that a mistake shows where it was made.
local arrays = require "moonpad.util.array"
local base64 = require "moonpad.util.base64"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"
local inlineData = require "moonpad.events.inline_data"
local luaError = require "moonpad.util.lua_error"

local parts = {}

---@class moonpad.FunctionCall
---@field name string
---@field args table?
---@field id string? a call without one gets it from moonpad

---@class moonpad.FunctionResponse
---@field name string
---@field response table
---@field id string? of the call that is answered
---@field parts moonpad.Part[]? files that go along

---@class moonpad.Blob
---@field mimeType string
---@field data string the bytes in base64 (in an artifact: as they are)
---@field displayName string?

---A piece of a Content: one of the first seven fields, and what goes along.
---@class moonpad.Part
---@field text string?
---@field functionCall moonpad.FunctionCall?
---@field functionResponse moonpad.FunctionResponse?
---@field inlineData moonpad.Blob?
---@field fileData { fileUri: string, mimeType: string? }?
---@field executableCode { code: string, language: string? }?
---@field codeExecutionResult { output: string?, outcome: string? }?
---@field thought boolean? the text is a thought of the model's
---@field thoughtSignature string? of the provider, to be sent back as it is
---@field partMetadata table? `server`: the one that gave what is to be sent back, and to which alone it goes

---- Checks

local function checkString(value, where)
  if type(value) ~= "string" then fields.refuse(where, "expected a string, got " .. fields.describe(value)) end
  fields.checkUtf8(value, where)
end

local function checkName(value, where)
  if not fields.text.is(value) then
    fields.refuse(where, ("expected %s, got %s"):format(fields.text.what, fields.describe(value)))
  end
  fields.checkUtf8(value, where)
end

local function isList(value)
  return value[1] ~= nil or arrays.isMarked(value)
end

-- A copy of what a function is called with or answers: a JSON object.
local function object(value, where)
  if type(value) == "userdata" and value ~= core.null then value = core.toTable(value) end
  if type(value) ~= "table" then
    fields.refuse(where, "expected a table of named values, got " .. fields.describe(value))
  end
  fields.checkJson(value, where)
  if isList(value) then fields.refuse(where, "expected a table of named values, got a list") end
  return copy(value)
end

---- Makers

-- The arguments may have `__tostring` of their own.
local function formatted(text, ...)
  local ok, result = pcall(string.format, text, ...)
  if ok then return result end
  luaError.passOn(result)
  return fields.refuse("moonpad.text", errorText.of(result))
end

---A part with a text.
---@param text string
---@param ... any with more arguments: what `text:format(...)` makes of them
---@return moonpad.Part
function parts.text(text, ...)
  fields.refuseModule(text, "moonpad.text")
  checkString(text, "moonpad.text")
  if select("#", ...) > 0 then
    text = formatted(text, ...)
    fields.checkUtf8(text, "moonpad.text")
  end
  return { text = text }
end

---A part in which a model calls a function.
---@param name string
---@param args table? what it is called with; default: nothing
---@param id string? default: moonpad gives the call one
---@return moonpad.Part
function parts.functionCall(name, args, id)
  local where = "moonpad.functionCall"
  fields.refuseModule(name, where)
  checkName(name, where .. ": name")
  if args == nil then args = {} end
  args = object(args, where .. ": args")
  if id ~= nil then checkName(id, where .. ": id") end
  return { functionCall = { name = name, args = args, id = id } }
end

-- What a tool answers that is no object goes into one, as `result`.
local function responseOf(value, where)
  if type(value) == "userdata" and value ~= core.null then value = core.toTable(value) end
  if value == nil then value = core.null end
  if type(value) ~= "table" or isList(value) then value = { result = value } end
  return object(value, where)
end

---A part that answers a function call.
---@param call moonpad.FunctionCall|moonpad.Part as `event:functionCalls()` gives them
---@param response any a table of named values; anything else becomes `{ result = response }`
---@return moonpad.Part
function parts.functionResponse(call, response)
  local where = "moonpad.functionResponse"
  fields.refuseModule(call, where)
  if type(call) == "userdata" and call ~= core.null then call = core.toTable(call) end
  if type(call) ~= "table" then
    fields.refuse(where, "expected a function call ({ name, id }), got " .. fields.describe(call))
  end
  if type(call.functionCall) == "table" then call = call.functionCall end
  checkName(call.name, where .. ": call.name")
  local id = call.id
  if id == core.null then id = nil end
  if id ~= nil then checkName(id, where .. ": call.id") end
  return { functionResponse = { name = call.name, id = id, response = responseOf(response, where .. ": response") } }
end

---A part with a file: an image, a recording.
---@param mimeType string such as "image/png"
---@param bytes string the file itself; it becomes base64
---@param displayName string?
---@return moonpad.Part
function parts.inlineData(mimeType, bytes, displayName)
  local where = "moonpad.inlineData"
  fields.refuseModule(mimeType, where)
  checkName(mimeType, where .. ": mimeType")
  if not mimeType:find "^[^%s/]+/[^%s/]+" then
    fields.refuse(where .. ": mimeType", ('expected one like "image/png", got %s'):format(
      fields.describe(mimeType, true)))
  end
  if type(bytes) ~= "string" then
    fields.refuse(where .. ": bytes", "expected a string of bytes, got " .. fields.describe(bytes))
  end
  if displayName ~= nil then checkName(displayName, where .. ": displayName") end
  local made = { mimeType = mimeType, data = base64.encode(bytes), displayName = displayName }
  inlineData.toMessage(made)
  return { inlineData = made }
end

return parts
