--- The `config` of agents against the models that will get it.
local config = require "moonpad.models.config"
local trees = require "moonpad.agents.tree"

local modelConfig = {}

-- A function, or an object of the user's own, may have settings of its own.
local function isOfProvider(model)
  if type(model) == "string" then return true end
  local metatable = getmetatable(model)
  return type(metatable) == "table" and rawget(metatable, "__name") == "moonpad.model"
end

---Refuses settings that no provider has or can be sent, where the model of the agent is known to be
---one's.
---@param agent moonpad.Agent
function modelConfig.check(agent)
  if agent.config == nil or not isOfProvider(trees.modelOf(agent)) then return end
  config.checkForProvider(agent.config, ('agent "%s".config'):format(agent.name))
end

---The same for all agents of a tree, those that are tools included: what has no model of its own
---has got one now.
---@param root moonpad.Agent
function modelConfig.checkTree(root)
  for _, agent in ipairs(trees.all(root)) do modelConfig.check(agent) end
end

return modelConfig
