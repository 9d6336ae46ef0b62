--- Plays the tool calls of one model answer: on any store, in each way to drive a run, each time
--- for an app of its own.
local busted = require "busted"
local moonpad = require "moonpad"
local support = require "spec.support"
local turns = require "spec.support.turns"

local toolCalls = {}

---- Ways to drive a run to its end; `take` gets each event

local drive = {}
toolCalls.drive = drive
toolCalls.WAYS = { "run", "step", "wait" }

function drive.run(runner, options, take)
  for event in runner:run(options) do take(event) end
end

function drive.step(runner, options, take)
  local invocation = runner:start(options)
  for event in support.step, invocation do take(event) end
end

function drive.wait(runner, options, take)
  local invocation = runner:start(options)
  for event in function() return invocation:wait(0.002) end do
    if event ~= "waiting" then take(event) end
  end
end

---- Ways for a tool or a callback to wait; "not" is not to wait

local waits = {}
toolCalls.waits = waits

waits["does not wait"] = function() end

waits["waits by coroutine.yield"] = function() coroutine.yield() end

waits["waits by context:await"] = function(context)
  local asked = 0
  local answer = context:await { poll = function()
    asked = asked + 1
    return asked > 1, "done"
  end }
  assert(answer == "done")
end

-- Far more rounds than any wait here takes: who waits that long has failed.
local MAX_ROUNDS <const> = 300

---Waits, in a tool or callback, until the condition holds.
---@param condition fun(): any
function toolCalls.waitFor(condition)
  for _ = 1, MAX_ROUNDS do
    if condition() then return end
    coroutine.yield()
  end
  error "waited in vain"
end

---- One answer

local count = 0

-- Tells what the run shows in its end, temp: included, and which errors its calls had. It answers
-- for none of them.
local function observer(result)
  return {
    onToolErrorCallback = function(context, _, _, err)
      local id = context.functionCallId
      result.failures[id] = err
      result.conflicts[id] = type(err) == "table" and err.code == "conflict" and err.keys or nil
    end,
    afterRun = function(context) result.shown = context.state:getAll() end,
  }
end

local function toTool(tool)
  if tool.description or tool.parameters then return tool end
  return moonpad.tool { name = tool[1] or tool.name, run = tool[2] or tool.run }
end

---@class spec.Calls
---@field tools table[] { name, run } each, or tools; each is called once, with the ids "1", "2", ...
---@field calls table[]? { name, args, id } each, in place of one call of each tool
---@field start table? what is stored when the run begins
---@field fields table? of the agent
---@field plugins table[]? of the runner
---@field runner table? further fields of the runner

---@param service moonpad.Service
---@param scene spec.Calls
---@param result table
---@return moonpad.Runner
---@return table options
function toolCalls.prepare(service, scene, result)
  count = count + 1
  local who = { appName = "app" .. count, userId = "u", sessionId = "s" }
  service:createSession { appName = who.appName, userId = "u", sessionId = "s", state = scene.start }
  local tools, calls = {}, scene.calls or {}
  for index, tool in ipairs(scene.tools) do
    tools[index] = toTool(tool)
    if not scene.calls then calls[index] = { tools[index].name, { request = "x" }, tostring(index) } end
  end
  local agent = {
    name = "Caller", tools = tools, model = moonpad.models.scripted { support.calls(table.unpack(calls)), "done" },
  }
  for name, value in pairs(scene.fields or {}) do agent[name] = value end
  local definition = { appName = who.appName, sessionService = service, agent = moonpad.agent(agent) }
  for name, value in pairs(scene.runner or {}) do definition[name] = value end
  definition.plugins = { observer(result), table.unpack(scene.plugins or {}) }
  result.who = who
  return moonpad.runner(definition), { userId = "u", sessionId = "s", newMessage = "go" }
end

---@param service moonpad.Service
---@param way string of WAYS
---@param scene spec.Calls
---@return table result events; answer: the event that answers the calls; responses: by call; errors: of the tools, by
---id; failures and conflicts: what onToolErrorCallback was asked about, by id; delta; state:
---stored; shown: in the end
function toolCalls.play(service, way, scene)
  local result = { events = {}, responses = {}, failures = {}, conflicts = {} }
  local runner, options = toolCalls.prepare(service, scene, result)
  drive[way](runner, options, function(event)
    result.events[#result.events + 1] = event
    for _, response in ipairs(event:functionResponses()) do
      result.answer = event
      result.responses[#result.responses + 1] = response.response
    end
  end)
  if result.answer then
    result.delta = result.answer.actions.stateDelta
    result.errors = result.answer.customMetadata and result.answer.customMetadata.toolErrors or {}
  end
  result.state = service:getSession(result.who).state:getAll()
  return result
end

---Drives a run to its end.
---@param way string of WAYS
---@param runner moonpad.Runner
---@param options table
---@return moonpad.Event[]
function toolCalls.run(way, runner, options)
  local events = {}
  drive[way](runner, options, function(event) events[#events + 1] = event end)
  return events
end

-- A service on a server takes long to open: without turns each server has one of the ways, each
-- server another one.
local function isLeftOut(store, index)
  local server <const> = support.serverNumber(store)
  return server ~= nil and not turns.areTaken and server % #toolCalls.WAYS ~= index % #toolCalls.WAYS
end

---Describes a block on each store and in each way to drive a run. Both take turns.
---@param block fun(way: string, open: fun(config?: table): moonpad.Service)
function toolCalls.everywhere(block)
  support.each_store(function(open, store)
    for index, way in ipairs(toolCalls.WAYS) do
      if not isLeftOut(store, index) then
        turns.describe("in " .. way, turns.isDue(index, #toolCalls.WAYS), function() block(way, open) end)
      end
    end
  end)
end

---The same, with a service for each test and a function that plays calls on it.
---@param block fun(play: fun(scene: spec.Calls): table, service: fun(): moonpad.Service)
function toolCalls.eachWay(block)
  toolCalls.everywhere(function(way, open)
    local service
    busted.before_each(function() service = open { durability = "normal" } end)
    block(function(scene) return toolCalls.play(service, way, scene) end, function() return service end)
  end)
end

return toolCalls
