--- Runners: an agent, a service, and the runs of the one on the sessions of the other.
local agents = require "moonpad.agents.base"
local callbacks = require "moonpad.agents.callbacks"
local closing = require "moonpad.runtime.closing"
local content = require "moonpad.events.content"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
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

runners.FIELDS = {
  "appName", "agent", "sessionService", "artifactService", "memoryService", "url", "plugins", "maxLlmCalls",
  "templateSyntax",
}
local RUN_FIELDS = { "userId", "sessionId", "newMessage", "stateDelta", "numRecentEvents" }
-- Promised for later versions. Looked for first, so that nobody is told that they are known.
local LATER = { "summarizer" }
local SYNTAXES = { both = true, braces = true, angles = true }

local DEFAULT_MAX_LLM_CALLS = 500

local function refuse(where, message)
  core.error("invalid_argument", where .. ": " .. message)
end

local function expectName(value, where)
  if type(value) ~= "string" then refuse(where, "expected a string, got " .. type(value)) end
  if value == "" then refuse(where, "must not be empty") end
end

local function checkServices(definition)
  local url, service = definition.url, definition.sessionService
  if url == nil then
    if type(service) ~= "userdata" or not methodOf(service, "getSession") then
      refuse("runner.sessionService", "expected what moonpad.open returns, or runner.url, got " .. type(service))
    end
    return services.check(definition, "runner")
  end
  if type(url) ~= "string" then refuse("runner.url", "expected a string, got " .. type(url)) end
  for _, field in ipairs { "sessionService", "artifactService", "memoryService" } do
    if definition[field] ~= nil then refuse("runner.url", "opens the services itself; leave " .. field .. " away") end
  end
end

local function checkDefinition(definition)
  expectName(definition.appName, "runner.appName")
  if not agents.isAgent(definition.agent) then
    refuse("runner.agent", "expected a moonpad.agent, got " .. type(definition.agent))
  end
  local limit, syntax = definition.maxLlmCalls, definition.templateSyntax
  if limit ~= nil and (math.type(limit) ~= "integer" or limit < 0) then
    refuse("runner.maxLlmCalls", "expected an integer from 0, got " .. errorText.show(limit))
  end
  if syntax ~= nil and not SYNTAXES[syntax] then
    refuse("runner.templateSyntax", 'expected "both", "braces" or "angles", got ' .. errorText.show(syntax))
  end
  checkServices(definition)
end

-- A plugin may answer in place of all models.
local function checkModels(root, plugins)
  for _, plugin in ipairs(plugins) do
    if plugin.beforeModelCallback then return end
  end
  local agent = trees.withoutModel(root)
  if agent then refuse("runner.agent", ('"%s" has no model, nor has an agent above it'):format(agent.name)) end
end

---Checks the names of the fields of a runner, or of what takes them as well.
---@param given table
---@param where string
---@param fields string[]
function runners.checkFields(given, where, fields)
  if type(given) ~= "table" then refuse(where, "expected a table, got " .. type(given)) end
  for _, field in ipairs(LATER) do
    if rawget(given, field) ~= nil then
      core.error("unsupported", ("%s.%s: not in this version (%s)"):format(where, field, core._VERSION))
    end
  end
  core.checkFields(given, where, fields)
end

---Makes a runner.
---@param definition moonpad.RunnerDefinition
---@return moonpad.Runner
function runners.define(definition)
  runners.checkFields(definition, "runner", runners.FIELDS)
  checkDefinition(definition)
  local plugins = callbacks.plugins(definition.plugins)
  checkModels(definition.agent, plugins)
  local given, opened = definition, {}
  if definition.url then given, opened = openAll(definition.url) end
  local runner = setmetatable({
    appName = definition.appName,
    agent = definition.agent,
    sessionService = given.sessionService,
    artifactService = given.artifactService,
    memoryService = given.memoryService,
    plugins = plugins,
    maxLlmCalls = definition.maxLlmCalls or DEFAULT_MAX_LLM_CALLS,
    templateSyntax = definition.templateSyntax,
  }, Runner)
  openedBy[runner] = opened
  return runner
end

local function userContent(message)
  if message == nil then return nil end
  local result = content.normalize(message, "user", "newMessage")
  if content.isEmpty(result) then refuse("newMessage", "has no parts") end
  for index, part in ipairs(result.parts) do
    if part.functionCall ~= nil then
      refuse(("newMessage.parts[%d]"):format(index), "a user cannot call functions; only a model can")
    end
  end
  return result
end

-- The id as the service stores it, so that " a" and "a" stand in one line.
local function sessionIdOf(options, service)
  local id = options.sessionId
  if id == nil then return core.uuid4(service) end
  if type(id) ~= "string" then refuse("run.sessionId", "expected a string, got " .. type(id)) end
  id = id:match "^[ \t\r\n\f\v]*(.-)[ \t\r\n\f\v]*$"
  return id == "" and core.uuid4(service) or id
end

local function checkSelf(self, call)
  if getmetatable(self) ~= Runner then refuse("runner:" .. call, "call it with a colon, not with a dot") end
end

local function start(self, options, method, outer)
  checkSelf(self, method .. "{...}")
  closing.check(self, method)
  if type(options) ~= "table" then refuse(method, "expected a table of options, got " .. type(options)) end
  core.checkFields(options, method, RUN_FIELDS)
  expectName(options.userId, method .. ".userId")
  if options.stateDelta ~= nil and type(options.stateDelta) ~= "table" then
    refuse(method .. ".stateDelta", "expected a table, got " .. type(options.stateDelta))
  end
  local invocationContext = invocationContexts.new {
    id = "e-" .. core.uuid4(self.sessionService),
    runner = self,
    artifactService = self.artifactService,
    memoryService = self.memoryService,
    userId = options.userId,
    sessionId = sessionIdOf(options, self.sessionService),
    numRecentEvents = options.numRecentEvents,
    stateDelta = copy(options.stateDelta),
    userContent = userContent(options.newMessage),
    isInner = outer ~= nil,
    usage = outer and outer.usage,
    onCommit = outer and outer.onCommit,
  }
  -- Names contain no NUL, so different sessions have different keys.
  local key = table.concat({ self.appName, options.userId, invocationContext.sessionId }, "\0")
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
