--- The plugins that come with moonpad, each loaded when it is first used.
---@class moonpad.Plugins
---@field logging fun(options: moonpad.LoggingOptions?): moonpad.Plugin tells of a run line by line
---@field reflectAndRetryTool fun(options: moonpad.ReflectAndRetryToolOptions?): moonpad.Plugin lets a model try again

local FILES = { logging = "logging", reflectAndRetryTool = "reflect_and_retry_tool" }

return setmetatable({}, {
  __index = function(self, name)
    local file = FILES[name]
    if not file then return nil end
    local value = require("moonpad.plugins." .. file).new
    rawset(self, name, value)
    return value
  end,
}) --[[@as moonpad.Plugins]]
