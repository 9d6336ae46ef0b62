--- Runners: an agent, a service, and the runs of the one on the sessions of the other.
local agents = require "moonpad.agents.base"
local callbacks = require "moonpad.agents.callbacks"
local closing = require "moonpad.runtime.closing"
local content = require "moonpad.events.content"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local invocationContexts = require "moonpad.runtime.invocation_context"
local invocations = require "moonpad.runtime.invocation"
local methodOf = require "moonpad.util.method_of"
local openAll = require "moonpad.services.open_all"
local runs = require "moonpad.runtime.run"
local services = require "moonpad.services.of_context"
local trees = require "moonpad.agents.tree"
local turn = require "moonpad.runtime.turn"

local runners = {}

---@class moonpad.RunnerDefinition
---@field appName string
---@field agent moonpad.Agent
---@field sessionService moonpad.Service? needed without `url`
---@field url string? in place of the three services: the runner opens them there, and closes them
---@field plugins table[]?
---@field maxLlmCalls integer? of one run; default 500, 0 for no limit
---@field templateSyntax "both"|"braces"|"angles"|nil
---@field artifactService moonpad.ArtifactService?
---@field memoryService moonpad.MemoryService?

---@class moonpad.RunOptions
---@field userId string
---@field sessionId string? a missing session is created; without an id, a new one
---@field newMessage string|moonpad.Content|nil
---@field stateDelta table? changes of state that go with the message
---@field numRecentEvents integer? how much history the run gets to see

---@class moonpad.Runner: moonpad.RunnerDefinition
local Runner = { __name = "moonpad.runner" }
Runner.__index = Runner

-- runner -> the services that it has opened by its url.
local openedBy = setmetatable({}, { __mode = "k" })

local function isSessionService(value)
  return type(value) == "userdata" and methodOf(value, "getSession") ~= nil
end

---@type moonpad.FieldTest
runners.SESSION_SERVICE = { is = isSessionService, what = "what moonpad.open returns" }

runners.FIELDS = fields.new {
  { "appName", fields.text, required = true },
  { "agent", { is = agents.isAgent, what = "a moonpad.agent" }, required = true },
  { "sessionService", runners.SESSION_SERVICE },
  { "artifactService", services.artifactService },
  { "memoryService", services.memoryService },
  { "url", "string" },
  { "plugins", callbacks.plugins },
  { "maxLlmCalls", fields.integerFrom(0), default = 500 },
  { "templateSyntax", fields.oneOf { "both", "braces", "angles" } },
  { "summarizer", fields.later },
}

-- The id as the service stores it, so that " a" and "a" stand in one line.
local function trimmed(id)
  return type(id) == "string" and id:match "^[ \t\r\n\f\v]*(.-)[ \t\r\n\f\v]*$" or nil
end

local function userContent(message, where)
  local result = content.normalize(message, "user", where)
  if content.isEmpty(result) then fields.refuse(where, "has no parts") end
  for index, part in ipairs(result.parts) do
    if part.functionCall ~= nil then
      fields.refuse(("%s.parts[%d]"):format(where, index), "a user cannot call functions; only a model can")
    end
  end
  return result
end

local RUN_FIELDS = fields.new {
  { "userId", fields.text, required = true },
  { "sessionId", "string" },
  { "newMessage", userContent },
  { "stateDelta", "table" },
  { "numRecentEvents", fields.integerFrom(0) },
}

-- A plugin may answer in place of all models.
local function checkModels(root, plugins, where)
  for _, plugin in ipairs(plugins) do
    if plugin.beforeModelCallback then return end
  end
  local agent = trees.withoutModel(root)
  if agent then
    fields.refuse(where .. ".agent", ('"%s" has no model, nor has an agent above it'):format(agent.name))
  end
end

local function checkServices(definition, where)
  if definition.url == nil then
    if definition.sessionService ~= nil then return end
    fields.refuse(where .. ".sessionService", ("expected what moonpad.open returns, or %s.url, got nil"):format(where))
  end
  for _, field in ipairs { "sessionService", "artifactService", "memoryService" } do
    if definition[field] ~= nil then
      fields.refuse(where .. ".url", ("opens the services itself; leave %s away"):format(field))
    end
  end
end

---Makes a runner for a function that takes the fields of one.
---@param definition table whose names have been checked
---@param where string for messages
---@return moonpad.Runner
function runners.new(definition, where)
  local runner, opened = runners.FIELDS:read(definition, where), {}
  runner.plugins = runner.plugins or {}
  checkServices(runner, where)
  checkModels(runner.agent, runner.plugins, where)
  if runner.url then
    local given
    given, opened = openAll(runner.url)
    runner.sessionService, runner.artifactService = given.sessionService, given.artifactService
    runner.memoryService, runner.url = given.memoryService, nil
  end
  setmetatable(runner, Runner)
  openedBy[runner] = opened
  return runner
end

---Makes a runner.
---@param definition moonpad.RunnerDefinition
---@return moonpad.Runner
function runners.define(definition)
  runners.FIELDS:checkNames(definition, "runner")
  return (runners.new(definition, "runner"))
end

local function checkSelf(self, call)
  if getmetatable(self) ~= Runner then fields.refuse("runner:" .. call, "call it with a colon, not with a dot") end
end

local function start(self, options, method, outer)
  checkSelf(self, method .. "{...}")
  closing.check(self, method)
  local read = RUN_FIELDS:take(options, "runner:" .. method)
  local sessionId = trimmed(read.sessionId)
  if sessionId == nil or sessionId == "" then sessionId = core.uuid4(self.sessionService) end
  local invocationContext = invocationContexts.new {
    id = "e-" .. core.uuid4(self.sessionService),
    runner = self,
    artifactService = self.artifactService,
    memoryService = self.memoryService,
    userId = read.userId,
    sessionId = sessionId,
    numRecentEvents = read.numRecentEvents,
    stateDelta = copy(read.stateDelta),
    userContent = read.newMessage,
    isInner = outer ~= nil,
    usage = outer and outer.usage,
    onCommit = outer and outer.onCommit,
  }
  -- Names contain no NUL, so different sessions have different keys.
  local key = table.concat({ self.appName, read.userId, sessionId }, "\0")
  return invocations.new(runs.new(invocationContext, turn.run, key))
end

---Runs the agent on a message: `for event in runner:run{...} do ... end`. Leaving the loop early
---cancels the run.
---@param options moonpad.RunOptions
---@return fun(): moonpad.Event? iterator
function Runner:run(options)
  return invocations.iterate(start(self, options, "run"))
end

---Starts a run that is driven by `step` or `wait`, for programs with a loop of their own.
---@param options moonpad.RunOptions
---@return moonpad.Invocation
function Runner:start(options)
  return start(self, options, "start")
end

---Runs the agent on a message to the end. An error of the run is raised.
---@param options moonpad.RunOptions
---@return string text of the final answers, a line for each
---@return moonpad.Event[] events
function Runner:ask(options)
  local texts, events = {}, {}
  for event in invocations.iterate(start(self, options, "ask")) do
    events[#events + 1] = event
    local text = event:isFinalResponse() and event:text() or ""
    if text ~= "" then texts[#texts + 1] = text end
  end
  return table.concat(texts, "\n"), events
end

---Cancels the runs of this runner, and closes the toolsets of its agents and the services that it
---has opened by its `url`. Closing twice is no error.
function Runner:close()
  checkSelf(self, "close()")
  closing.close(self, openedBy[self])
end

function Runner:__close()
  closing.close(self, openedBy[self])
end

---Starts a run for the sake of another one.
---@param runner moonpad.Runner
---@param options moonpad.RunOptions
---@param outer { usage: table, onCommit: function } where its model calls count, and what stores its events and notes
---what was written
---@return moonpad.Invocation
function runners.startWithin(runner, options, outer)
  return start(runner, options, "start", outer)
end

return runners
