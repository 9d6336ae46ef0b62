--- The models that come with moonpad, each loaded when it is first used.
return setmetatable({}, {
  __index = function(self, name)
    if name ~= "scripted" then return nil end
    local value = require("moonpad.models." .. name).new
    rawset(self, name, value)
    return value
  end,
})
