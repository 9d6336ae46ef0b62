--- The tools that an agent's model is offered: its own, those of its toolsets, and the one to hand
--- the conversation over. They are asked for once per request, and the calls of its answer run
--- with that list.
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local tools = require "moonpad.tools.tool"
local toolsets = require "moonpad.agents.toolsets"
local transfer = require "moonpad.tools.transfer_to_agent"
local trees = require "moonpad.agents.tree"

local offeredTools = {}

---@class moonpad.OfferedTools
---@field list moonpad.Tool[]
---@field byName table<string, moonpad.Tool>
---@field all moonpad.Tool[] with those that no model calls: they have their part in the request alone
---@field agentName string
---@field sources table<string, string> where the tool of a name comes from, for messages

-- Which of two tools were meant, nobody could tell.
local function add(offered, tool, source)
  local name, sources = tool.name, offered.sources
  if sources[name] then
    core.error("invalid_argument", ('agent "%s": two tools are called "%s": one is %s, one is %s')
      :format(offered.agentName, name, sources[name], source))
  end
  sources[name] = source
  offered.all[#offered.all + 1] = tool
  if not tool.isHidden then offered.list[#offered.list + 1], offered.byName[name] = tool, tool end
end

local function addToolset(offered, callbackState, context, index)
  local agent = callbackState.agent
  local where = ('agent "%s".tools[%d]'):format(agent.name, index)
  local list = toolsets.ask(agent.tools[index], context, where)
  callbackState.invocationContext:raiseIfEnding()
  for _, tool in ipairs(list) do add(offered, tool, ("of the toolset tools[%d]"):format(index)) end
end

local function addTransfer(offered, callbackState)
  local agent = callbackState.agent
  local targets = trees.targets(agent, callbackState.invocationContext.rootAgent)
  -- A tool of the agent's own may do it in place of ours.
  if #targets == 0 or agent.toolsByName[transfer.TOOL_NAME] then return end
  add(offered, transfer.tool(targets), "moonpad's to hand the conversation over")
end

---Asks for the tools that the model of the callback state's agent is offered. Who answers calls
---later (a confirmation, a user's answer) asks anew.
---@param callbackState moonpad.CallbackState
---@return moonpad.OfferedTools
function offeredTools.ask(callbackState)
  local agent, context = callbackState.agent, contexts.readOnly(callbackState)
  local offered = { agentName = agent.name, list = {}, byName = {}, all = {}, sources = {} }
  for index, entry in ipairs(agent.tools) do
    if tools.isTool(entry) then
      add(offered, entry, ("tools[%d]"):format(index))
    else
      addToolset(offered, callbackState, context, index)
    end
  end
  addTransfer(offered, callbackState)
  return offered
end

return offeredTools
