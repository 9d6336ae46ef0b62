--- Errors of the command that are no fault of the program: one clear line is all that the user gets
--- to see of them.
local errorText = require "moonpad.util.error_text"

local failure = {}

local Failure = { __name = "moonpad.cli.failure", __tostring = function(self) return self.message end }

local function new(message, ...)
  return setmetatable({ message = select("#", ...) > 0 and message:format(...) or message }, Failure)
end

---@param message string
---@param ... any for `message:format`
function failure.raise(message, ...)
  error(new(message, ...), 0)
end

---The same for a command line that says too little, or too much.
---@param message string
---@param ... any for `message:format`
function failure.usage(message, ...)
  local raised = new(message, ...)
  raised.isUsage = true
  error(raised, 0)
end

---@param err any
---@return boolean
function failure.isUsage(err)
  return getmetatable(err) == Failure and err.isUsage == true
end

---What went wrong, in words.
---@param err any
---@return string
function failure.text(err)
  if err ~= nil and (type(err) ~= "table" or getmetatable(err)) then
    local ok, text = pcall(tostring, err)
    return ok and text or errorText.of(err)
  end
  if err == nil or type(err.message) == "string" then return errorText.of(err) end
  return "a table without a message was raised: " .. errorText.of(err)
end

---One line for whatever went wrong.
---@param err any
---@return string
function failure.line(err)
  return "moonpad: " .. failure.text(err):gsub("%s*\n%s*", " ")
end

return failure
