--- The runner of an agent's file, with the services that the file does not bring.
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local modelLike = require "moonpad.models.model_like"
local moonpad = require "moonpad"
local runners = require "moonpad.runtime.runner"
local trees = require "moonpad.agents.tree"

local agentRunner = {}

local function checkModel(agent, model)
  modelLike.check(model, "--model")
  for _, one in ipairs(trees.all(agent)) do
    if one.isLlm then return end
  end
  failure.raise('--model: no agent of "%s" asks a model', agent.name)
end

-- Agents that keep everything in one file share its services.
local function servicesAt(url, opened)
  opened[url] = opened[url] or {
    sessionService = moonpad.open(url), artifactService = moonpad.artifactService(url),
    memoryService = database.openMemory(url),
  }
  return opened[url]
end

-- What the file does not bring is kept in one SQLite file.
local function newRunner(options, file, opened)
  local definition = {}
  for name, value in pairs(file.definition) do definition[name] = value end
  definition.appName = options.app or definition.appName or file.agent.name
  if definition.url then
    if options.db then failure.raise "--db: the agent's file says by its `url` where to store" end
  else
    for name, service in pairs(servicesAt(database.url(options, definition.appName), opened)) do
      definition[name] = definition[name] or service
    end
  end
  return runners.new(definition, options.agent, options.model)
end

---@param options table of the command line
---@param file moonpad.cli.AgentFile
---@param opened table<string, table> the services that are open already, by their address
---@return moonpad.Runner
function agentRunner.open(options, file, opened)
  if options.model then checkModel(file.agent, options.model) end
  if not file.runner then return newRunner(options, file, opened) end
  for _, name in ipairs { "db", "app", "model" } do
    if options[name] then
      failure.raise("--%s: the agent's file returns a runner, which says that itself; return what a runner takes", name)
    end
  end
  return file.runner
end

---Closes a runner and its services.
---@param runner moonpad.Runner
function agentRunner.close(runner)
  runner:close()
  for _, name in ipairs { "sessionService", "artifactService", "memoryService" } do
    if runner[name] then runner[name]:close() end
  end
end

return agentRunner
