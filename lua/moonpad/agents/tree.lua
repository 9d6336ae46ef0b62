--- The tree of agents: who belongs to whom, and who may hand the conversation over to whom.
local core = require "moonpad.core"
local lists = require "moonpad.util.list"
local tools = require "moonpad.tools.tool"

local trees = {}

local function refuse(where, message)
  core.error("invalid_argument", where .. ": " .. message)
end

-- Names are how events, branches and transfers tell agents apart.
local function checkNames(agent, where, seen)
  if seen[agent.name] then refuse(where .. ".subAgents", ('two agents are called "%s"'):format(agent.name)) end
  seen[agent.name] = true
  for _, child in ipairs(agent.subAgents) do checkNames(child, where, seen) end
end

-- How many agents may run one another side by side, by hand or as tools. Each is a coroutine or a
-- protected call within that of the one above it, and Lua has a C stack of 200 calls for all of
-- them, the host and the user's own functions.
local MAX_NESTING = 32
-- Agents that only come one after the other or hand over cost next to nothing. This many are
-- a mistake.
local MAX_HEIGHT = 1000

---Refuses what would not run for want of stack.
---@param nesting integer
---@param where string for messages
function trees.checkNesting(nesting, where)
  if nesting <= MAX_NESTING then return end
  refuse(where, ("more than %d agents that run others (parallelAgent, customAgent, agentTool) within one another")
    :format(MAX_NESTING))
end

-- Returns how many levels of agents there are, and how many of them run others.
local function measure(agent, where)
  local height, nesting = 0, 0
  for _, child in ipairs(agent.subAgents) do
    height, nesting = math.max(height, child.height), math.max(nesting, child.nesting)
  end
  if agent.runsOthers and height > 0 then nesting = nesting + 1 end
  for _, tool in pairs(agent.toolsByName or {}) do nesting = math.max(nesting, tool.nesting or 0) end
  if height >= MAX_HEIGHT then refuse(where, ("more than %d levels of agents"):format(MAX_HEIGHT)) end
  trees.checkNesting(nesting, where)
  return height + 1, nesting
end

---Checks the agents that are to be the sub-agents of another.
---@param children any
---@param where string for messages
---@param isAgent fun(value: any): boolean
---@return moonpad.Agent[] list a copy
function trees.childList(children, where, isAgent)
  local list = lists.of(children, where, "agents")
  for index, child in ipairs(list) do
    local place = ("%s[%d]"):format(where, index)
    if not isAgent(child) then refuse(place, "expected an agent, got " .. lists.kindOf(child)) end
    if child.parent then
      refuse(place, ('"%s" belongs to "%s" already; an agent has one parent'):format(child.name, child.parent.name))
    end
  end
  return list
end

---Makes the agents in `subAgents` those of the agent.
---@param agent moonpad.Agent
---@param where string for messages
function trees.adopt(agent, where)
  checkNames(agent, where, {})
  agent.height, agent.nesting = measure(agent, where .. ".subAgents")
  for _, child in ipairs(agent.subAgents) do child.parent = agent end
end

---@param root moonpad.Agent
---@param name string
---@return moonpad.Agent?
function trees.find(root, name)
  if root.name == name then return root end
  for _, child in ipairs(root.subAgents) do
    local found = trees.find(child, name)
    if found then return found end
  end
  return nil
end

---@param root moonpad.Agent
---@return string[] names of all agents, sorted
function trees.names(root)
  local names = {}
  local function add(agent)
    names[#names + 1] = agent.name
    for _, child in ipairs(agent.subAgents) do add(child) end
  end
  add(root)
  table.sort(names)
  return names
end

-- Only an agent with a model can be asked to take a conversation back, or to pass it on among
-- its sub-agents.
local function parentOf(agent, root)
  local parent = agent ~= root and agent.parent or nil
  return parent and parent.isLlm and parent or nil
end

---The agents that the model of an agent may hand the conversation over to: sub-agents,
---parent, peers.
---@param agent moonpad.Agent
---@param root moonpad.Agent of the run: nobody above it takes part
---@return moonpad.Agent[]
---@return moonpad.Agent? parent where it is one of them
function trees.targets(agent, root)
  local targets = table.move(agent.subAgents, 1, #agent.subAgents, 1, {})
  local parent = parentOf(agent, root)
  if not parent then return targets end
  if not agent.disallowTransferToParent then targets[#targets + 1] = parent end
  if not agent.disallowTransferToPeers then
    for _, peer in ipairs(parent.subAgents) do
      if peer ~= agent then targets[#targets + 1] = peer end
    end
  end
  return targets, not agent.disallowTransferToParent and parent or nil
end

-- Agents that have been seen are keys of `found`: one may be a tool in many places.
local function collect(agent, found)
  if found[agent] then return end
  found[agent], found[#found + 1] = true, agent
  for _, entry in ipairs(agent.tools or {}) do
    if tools.isTool(entry) and entry.agent then collect(entry.agent, found) end
  end
  for _, child in ipairs(agent.subAgents) do collect(child, found) end
end

---All agents of a tree, and of the trees of agents that are tools in it, each once.
---@param root moonpad.Agent
---@return moonpad.Agent[]
function trees.all(root)
  local found = {}
  collect(root, found)
  return table.move(found, 1, #found, 1, {})
end

---The model of an agent: its own, or that of the nearest agent above it that has one.
---@param agent moonpad.Agent?
---@return function|moonpad.Model|string|nil
function trees.modelOf(agent)
  while agent do
    if agent.model ~= nil then return agent.model end
    agent = agent.parent
  end
  return nil
end

-- A callback may answer in place of the model, so that there need not be one.
local function lacksModel(agent)
  return agent.isLlm and trees.modelOf(agent) == nil and #agent.callbacks.beforeModelCallback == 0
end

---The first agent of a tree, or of an agent that is a tool in it, that would have nobody to ask.
---@param root moonpad.Agent
---@return moonpad.Agent?
function trees.withoutModel(root)
  for _, agent in ipairs(trees.all(root)) do
    if lacksModel(agent) then return agent end
  end
  return nil
end

---What speaks against a transfer, or nil.
---@param agent moonpad.Agent
---@param root moonpad.Agent
---@param name string
---@return string?
function trees.objection(agent, root, name)
  local target = trees.find(root, name)
  if not target then return "is not an agent of this tree; there are " .. table.concat(trees.names(root), ", ") end
  if target == agent then return "has the conversation already" end
  if agent == root or not agent.parent then return nil end
  if target == agent.parent and agent.disallowTransferToParent then
    return ('is the parent of "%s", which has disallowTransferToParent'):format(agent.name)
  elseif target.parent == agent.parent and agent.disallowTransferToPeers then
    return ('is a peer of "%s", which has disallowTransferToPeers'):format(agent.name)
  end
  return nil
end

-- May it keep the conversation, because everybody up to the root could get it back?
local function isTransferableAcrossTree(agent, root)
  while agent.isLlm do
    if agent == root then return true end
    if agent.disallowTransferToParent then return false end
    agent = agent.parent
  end
  return false
end

-- Who has the conversation after an event: whom it was handed over to, or who has spoken.
local function holderAfter(root, event, speaks)
  local target = type(event.actions) == "table" and event.actions.transferToAgent
  if type(target) == "string" then return trees.find(root, target) end
  if event.author == "user" or not speaks(event) then return nil end
  return trees.find(root, tostring(event.author))
end

---Who goes on with a conversation: the agent that has it and can give it back, or else the root.
---It has it as well where it was handed over and nothing came of it: its model failed, or the run
---was cancelled.
---@param root moonpad.Agent
---@param newestFirst fun(): table? the events of the session
---@param speaks fun(event: moonpad.Event): boolean events that only change state do not count
---@return moonpad.Agent
function trees.findAgentToRun(root, newestFirst, speaks)
  if #root.subAgents == 0 or not root.isLlm then return root end
  for event in newestFirst do
    local agent = holderAfter(root, event, speaks)
    if agent and isTransferableAcrossTree(agent, root) then return agent end
  end
  return root
end

return trees
