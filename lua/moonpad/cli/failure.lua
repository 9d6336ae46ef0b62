--- Errors of the command that are no fault of the program: one clear line is all that the user gets to see of them.
local core = require "moonpad.core"

local failure = {}

local Failure = { __name = "moonpad.cli.failure", __tostring = function(self) return self.message end }

-- Where moonpad's own Lua files are.
local home = debug.getinfo(1, "S").source:match "^@(.*)cli/[^/]*$"

---@param message string
---@param ... any for `message:format`
function failure.raise(message, ...)
  error(setmetatable({ message = select("#", ...) > 0 and message:format(...) or message }, Failure), 0)
end

-- A place in moonpad itself tells the user nothing; one in the agent's file does.
local function text(err)
  if core.isError(err) and err.where and home and err.where:sub(1, #home) == home then
    return ("%s: %s"):format(err.code, err.message)
  end
  return tostring(err)
end

---One line for whatever went wrong.
---@param err any
---@return string
function failure.line(err)
  return "moonpad: " .. text(err):gsub("%s*\n%s*", " ")
end

return failure
