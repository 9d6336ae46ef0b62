--- The key of a request: a text, or what a function gives, which may wait.
local callable = require "moonpad.util.callable"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local luaError = require "moonpad.util.lua_error"
local modelOptions = require "moonpad.models.options"
local redact = require "moonpad.models.redact"

local credentials = {}

-- A function is asked anew for each request: what it gives may expire.
---@param settings moonpad.ModelSettings
---@param model string for messages
---@return string? key
function credentials.of(settings, model)
  local key = settings.apiKey
  if not callable.is(key) then return key --[[@as string?]] end
  local where = ("models.%s.apiKey"):format(settings.spec.name)
  local ok, given, reason = pcall(key)
  if ok and type(given) == "string" then
    modelOptions.checkKeyText(given, where)
    return given
  end
  if not ok then
    luaError.passOn(given)
    if core.isError(given) then error(given, 0) end
    reason = given
  end
  local text = reason ~= nil and errorText.of(reason) or ("the function returned %s, not a key"):format(type(given))
  return core.error("model", redact.shapes(where .. ": " .. text), { provider = settings.spec.name, model = model })
end

return credentials
