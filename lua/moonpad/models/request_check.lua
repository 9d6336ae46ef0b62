--- Checks a request before it goes to a provider: a callback may have put anything into it. Done
--- once, so that adapters can rely on it.
local coroutines = require "moonpad.runtime.coroutines"
local declarations = require "moonpad.schema.fields"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.models.fields"
local lists = require "moonpad.util.list"

local requestCheck = {}

local function refuse(where, expected, value)
  if value == nil then declarations.refuse(where, "is missing") end
  declarations.refuse(where, ("expected %s, got %s"):format(expected, declarations.describe(value)))
end

local NAMES = { string = "a string", table = "a table", boolean = "true or false" }

-- What must be there has a "!".
local function checkFields(object, where, kinds)
  for name, kind in pairs(kinds) do
    local value = object[name]
    local expected = kind:gsub("!", "")
    if type(value) ~= expected and (value ~= nil or kind ~= expected) then
      refuse(where .. "." .. name, NAMES[expected], value)
    end
  end
end

local PART = {
  text = "string", thought = "boolean", thoughtSignature = "string", functionCall = "table", functionResponse = "table",
  inlineData = "table", fileData = "table", executableCode = "table", codeExecutionResult = "table",
  toolCall = "table", toolResponse = "table",
}

-- Ids may be anything: where a provider would not take one, it gets another.
local INSIDE = {
  functionCall = { name = "string!" },
  functionResponse = { name = "string!", parts = "table" },
  inlineData = { mimeType = "string!", data = "string!", displayName = "string" },
  fileData = { mimeType = "string", fileUri = "string!" },
  executableCode = { code = "string", language = "string" },
  codeExecutionResult = { output = "string", outcome = "string" },
}

-- What came as JSON may hold nulls, which are nothing.
local partOf

local function partsOf(list, where)
  list = lists.of(list, where, "parts")
  for index, part in ipairs(list) do list[index] = partOf(part, ("%s[%d]"):format(where, index)) end
  return list
end

function partOf(value, where)
  if type(value) ~= "table" then refuse(where, "a table", value) end
  local part = fields.withoutNulls(value)
  checkFields(part, where, PART)
  for name, kinds in pairs(INSIDE) do
    if part[name] then
      part[name] = fields.withoutNulls(part[name])
      checkFields(part[name], ("%s.%s"):format(where, name), kinds)
    end
  end
  local response = part.functionResponse
  if response and response.parts then
    response.parts = partsOf(response.parts, where .. ".functionResponse.parts")
  end
  return part
end

local function contentOf(value, where)
  if type(value) ~= "table" then refuse(where, "a table", value) end
  checkFields(value, where, { role = "string", parts = "table!" })
  return { role = value.role, parts = partsOf(value.parts, where .. ".parts") }
end

local function toolOf(value, where)
  if type(value) ~= "table" then refuse(where, "a table", value) end
  checkFields(value, where, { name = "string!", description = "string", parameters = "table" })
  return value
end

local function providerToolOf(value, where)
  if type(value) ~= "table" then refuse(where, "a table", value) end
  return value
end

local function listOf(name, convert)
  return function(given, where)
    local list = lists.of(given, where, name)
    for index, value in ipairs(list) do
      list[index] = convert(value, ("%s[%d]"):format(where, index))
      coroutines.keepPace()
    end
    return list
  end
end

local REQUEST = declarations.new {
  { "model", "string" },
  { "systemInstruction", "string" },
  { "contents", listOf("contents", contentOf) },
  { "tools", listOf("tools", toolOf) },
  { "providerTools", listOf("tools", providerToolOf) },
  { "config", "table" },
  { "streaming", "boolean" },
}

local CHOICES = { auto = true, none = true, any = true }

-- The choice of a tool that is not there would be refused by the provider. Its own tools have names
-- that it knows.
local function checkToolChoice(request, where)
  local choice = type(request.config) == "table" and request.config.toolChoice
  if type(choice) ~= "string" or CHOICES[choice] or #request.providerTools > 0 then return end
  for _, tool in ipairs(request.tools) do
    if tool.name == choice then return end
  end
  declarations.refuse(where .. ": config.toolChoice",
    ('"%s" is neither "auto", "none", "any" nor the name of a tool'):format(errorText.valid(choice)))
end

---@param request table
---@param where string for messages
---@return table request of the same content, to be read only
function requestCheck.check(request, where)
  REQUEST:checkNames(request, where)
  local checked = REQUEST:read(fields.withoutNulls(request), where)
  for _, name in ipairs { "contents", "tools", "providerTools" } do checked[name] = checked[name] or {} end
  checkToolChoice(checked, where)
  return checked
end

return requestCheck
