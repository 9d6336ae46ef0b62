--- Custom agents: a function of the user's decides what happens, publishes events, and runs
--- other agents.
local agents = require "moonpad.agents.base"
local content = require "moonpad.events.content"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local publish = require "moonpad.runtime.publish"
local trees = require "moonpad.agents.tree"

local custom = {}

---@class moonpad.CustomDefinition
---@field name string
---@field description string?
---@field run fun(context: moonpad.Context)
---@field subAgents moonpad.Agent[]? that `context:runAgent` can run
---@field beforeAgentCallback? moonpad.BeforeAgentCallback|moonpad.BeforeAgentCallback[]
---@field afterAgentCallback? moonpad.AfterAgentCallback|moonpad.AfterAgentCallback[]

local FIELDS = agents.FIELDS:with { { "run", "function", required = true, arguments = "context" } }
  :describes "moonpad.CustomDefinition"

local function refuse(message)
  core.error("invalid_argument", message)
end

local function toEvent(given, session)
  if type(given) == "string" or content.isBare(given) then
    return { content = content.normalize(given, "model", "context:emit") }
  end
  if type(given) ~= "table" then
    refuse("context:emit(event): expected an event (a table), a text or parts, got " .. type(given))
  end
  local fields = {}
  for name, value in pairs(given) do fields[name] = value end
  content.dropNulls(fields)
  content.checkTypes(fields, { partial = "boolean" }, "context:emit")
  if fields.content ~= nil then fields.content = content.normalize(fields.content, "model", "context:emit: content") end
  return core.newEvent(fields, session)
end

local function target(callbackState, which)
  local root = callbackState.invocationContext.rootAgent
  local name = agents.isAgent(which) and which.name or which
  if type(name) ~= "string" then
    refuse("context:runAgent(agent): expected an agent or the name of one, got " .. type(which))
  end
  local found = trees.find(root, name)
  if found == nil or agents.isAgent(which) and found ~= which then
    refuse(('context:runAgent: "%s" is not an agent of this tree: put it into subAgents of "%s"'):format(
      name, callbackState.agent.name))
  end
  -- An agent that is under way already would run inside itself.
  local above = callbackState.agent
  while above do
    if above == found then refuse(('context:runAgent: "%s" is being run right now'):format(name)) end
    above = above ~= root and above.parent or nil
  end
  return found
end

local function keepTransfer(callbackState, published)
  callbackState.transfer = published.transfer or callbackState.transfer
  return published.event
end

-- What the custom agent has written so far is history when the other one begins.
local function runAgent(callbackState, which)
  coroutines.checkYield "context:runAgent"
  local agent = target(callbackState, which)
  keepTransfer(callbackState, publish.changes(callbackState))
  local child = callbackState.invocationContext:child { final = {} }
  local ok, err = xpcall(agents.run, child:tracer(), child, agent)
  if not ok then
    child:stop "its agent has been stopped"
    error(err, 0)
  end
  -- A run of a custom agent within a custom agent counts for the outer one as well.
  local outer = callbackState.invocationContext.final
  if outer then outer.event = child.final.event or outer.event end
  return child.final.event
end

local function run(invocationContext, agent)
  local callbackState = contexts.begin(invocationContext, agent)
  callbackState.emit = function(event)
    coroutines.checkYield "context:emit"
    return keepTransfer(callbackState, publish.event(callbackState, toEvent(event, invocationContext.session)))
  end
  callbackState.runAgent = function(which) return runAgent(callbackState, which) end
  agent.run(callbackState.context)
  keepTransfer(callbackState, publish.changes(callbackState))
  contexts.finish(callbackState, "its agent is done")
  return callbackState.transfer
end

local function markAsRunner(agent)
  agent.runsOthers = true
end

---Makes an agent whose work is a function.
---@param definition moonpad.CustomDefinition
---@return moonpad.Agent
function custom.define(definition)
  return (agents.build("customAgent", definition, FIELDS, run, markAsRunner))
end

return custom
