--- Custom agents: a function of the user's decides what happens, publishes events, and runs
--- other agents.
local agents = require "moonpad.agents.agent"
local callbacks = require "moonpad.agents.callbacks"
local content = require "moonpad.events.content"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local publish = require "moonpad.runtime.publish"
local sections = require "moonpad.runtime.section"
local signals = require "moonpad.runtime.coroutines"
local trees = require "moonpad.agents.tree"

local custom = {}

---@class moonpad.CustomDefinition
---@field name string
---@field description string?
---@field run fun(context: moonpad.Context)
---@field subAgents moonpad.Agent[]? that `context:runAgent` can run
---@field beforeAgentCallback moonpad.Callback?
---@field afterAgentCallback moonpad.Callback?

local FIELDS = { "name", "description", "run", "subAgents", "beforeAgentCallback", "afterAgentCallback" }

local function refuse(message)
  core.error("invalid_argument", message)
end

local function toEvent(given, session)
  if type(given) == "string" then return { content = content.normalize(given, "model", "context:emit") } end
  if type(given) ~= "table" then
    refuse("context:emit(event): expected an event (a table) or a text, got " .. type(given))
  end
  local fields = {}
  for name, value in pairs(given) do fields[name] = value end
  content.dropNulls(fields)
  content.checkTypes(fields, { partial = "boolean" }, "context:emit")
  if fields.content ~= nil then fields.content = content.normalize(fields.content, "model", "context:emit: content") end
  return core.newEvent(fields, session)
end

local function target(phase, which)
  local root = phase.invocation.runner.agent
  local name = agents.isAgent(which) and which.name or which
  if type(name) ~= "string" then
    refuse("context:runAgent(agent): expected an agent or the name of one, got " .. type(which))
  end
  local found = trees.find(root, name)
  if found == nil or agents.isAgent(which) and found ~= which then
    refuse(('context:runAgent: "%s" is not an agent of this tree: put it into subAgents of "%s"'):format(
      name, phase.agent.name))
  end
  -- An agent that is under way already would run inside itself.
  local above = phase.agent
  while above do
    if above == found then refuse(('context:runAgent: "%s" is being run right now'):format(name)) end
    above = above ~= root and above.parent or nil
  end
  return found
end

local function keepTransfer(phase, told)
  phase.transfer = told.transfer or phase.transfer
  return told.event
end

local function noteTraceback(section)
  return function(err)
    if debug then sections.noteFailure(section, err, debug.traceback(type(err) == "string" and err or nil, 2)) end
    return err
  end
end

-- What the custom agent has written so far is history when the other one begins.
local function runAgent(phase, which)
  signals.checkYield "context:runAgent"
  local agent = target(phase, which)
  keepTransfer(phase, publish.phase(phase))
  local section = sections.open(phase.invocation, { record = {} })
  local ok, err = xpcall(agents.run, noteTraceback(section), section, agent)
  if not ok then
    sections.stop(section)
    error(err, 0)
  end
  -- A run of a custom agent within a custom agent counts for the outer one as well.
  local outer = phase.invocation.record
  if outer then outer.final = section.record.final or outer.final end
  return section.record.final
end

local function run(invocation, agent)
  local phase = contexts.open(invocation, agent)
  phase.emit = function(event)
    signals.checkYield "context:emit"
    return keepTransfer(phase, publish.event(phase, toEvent(event, phase.invocation.session)))
  end
  phase.runAgent = function(which) return runAgent(phase, which) end
  agent.run(phase.context)
  keepTransfer(phase, publish.phase(phase))
  contexts.close(phase, "its agent is done")
  return phase.transfer
end

local function completeCustomAgent(agent, where)
  agent.runsOthers = true
  if not callbacks.isCallable(agent.run) then
    refuse(where .. ".run: expected a function, got " .. type(agent.run))
  end
end

---Makes an agent whose work is a function.
---@param definition moonpad.CustomDefinition
---@return moonpad.Agent
function custom.define(definition)
  return (agents.build("customAgent", definition, FIELDS, run, completeCustomAgent))
end

return custom
