--- The models that come with moonpad, each loaded when it is first used.
local ADAPTERS = { anthropic = true, gemini = true, openai = true, scripted = true }

return setmetatable({}, {
  __index = function(self, name)
    if not ADAPTERS[name] then return nil end
    local value = require("moonpad.models." .. name).new
    rawset(self, name, value)
    return value
  end,
})
