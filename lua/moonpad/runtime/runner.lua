--- Runners: an agent, a service, and the runs of the one on the sessions of the other.
local agents = require "moonpad.agents.base"
local callbacks = require "moonpad.agents.callbacks"
local closing = require "moonpad.runtime.closing"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local invocationContexts = require "moonpad.runtime.invocation_context"
local invocations = require "moonpad.runtime.invocation"
local methodOf = require "moonpad.util.method_of"
local modelConfig = require "moonpad.agents.model_config"
local openAll = require "moonpad.services.open_all"
local runOptions = require "moonpad.runtime.run_options"
local runs = require "moonpad.runtime.run"
local services = require "moonpad.services.of_context"
local summarizers = require "moonpad.agents.summarizer"
local trees = require "moonpad.agents.tree"
local turn = require "moonpad.runtime.turn"

local runners = {}

---@class moonpad.RunnerDefinition
---@field appName string
---@field agent moonpad.Agent
---@field sessionService moonpad.Service? needed without `url`
---@field url string? in place of the three services: the runner opens them there, and closes them
---@field plugins moonpad.Plugin[]?
---@field maxLlmCalls integer? of a run that does not say it itself; default 500, 0 for no limit
---@field templateSyntax "both"|"braces"|"angles"|nil
---@field artifactService moonpad.ArtifactService?
---@field memoryService moonpad.MemoryService?
---@field summarizer moonpad.Summarizer? compacts long histories, after its runs
---@field tracer moonpad.Tracer? is told what its runs do, see moonpad.tracing

---@class moonpad.Runner: moonpad.RunnerDefinition
---@field package model function|moonpad.Model|string|nil asked in place of the models of all agents, in tests
local Runner = { __name = "moonpad.runner" }
Runner.__index = Runner

-- runner -> the services that it has opened by its url.
local openedBy = setmetatable({}, { __mode = "k" })

local function isSessionService(value)
  return type(value) == "userdata" and methodOf(value, "getSession") ~= nil
end

local function isTracer(value)
  return type(value) == "table" and methodOf(value, "record") ~= nil
end

---@type moonpad.FieldTest
runners.SESSION_SERVICE = { is = isSessionService, what = "what moonpad.open returns" }

runners.FIELDS = fields.new {
  { "appName", fields.serviceName, required = true },
  { "agent", { is = agents.isAgent, what = "a moonpad.agent" }, required = true },
  { "sessionService", runners.SESSION_SERVICE },
  { "artifactService", services.artifactService },
  { "memoryService", services.memoryService },
  { "url", "string" },
  { "plugins", callbacks.plugins },
  { "maxLlmCalls", fields.integerFrom(0), default = 500 },
  { "templateSyntax", fields.oneOf { "both", "braces", "angles" } },
  { "summarizer", { is = summarizers.is, what = "a moonpad.summarizer" } },
  { "tracer", { is = isTracer, what = "a tracer, such as moonpad.tracing.memory{}" } },
}:describes "moonpad.RunnerDefinition"

-- A plugin may answer in place of all models.
local function checkModels(root, plugins, where)
  for _, plugin in ipairs(plugins) do
    if #(plugin.beforeModelCallback or {}) > 0 then return end
  end
  local agent = trees.withoutModel(root)
  if agent then
    fields.refuse(where .. ".agent", ('"%s" has no model, nor has an agent above it'):format(agent.name))
  end
end

local function checkSessionService(service, where)
  if service == nil then
    fields.refuse(where .. ".sessionService", ("expected what moonpad.open returns, or %s.url, got nil"):format(where))
  end
  -- That asks no store, only whether there still is one.
  local ok, err = pcall(core.now, service)
  if not ok and core.isError(err) and err.code == "closed" then
    core.error("closed", where .. ".sessionService: the service is closed")
  end
end

local function checkServices(definition, where)
  if definition.url == nil then return checkSessionService(definition.sessionService, where) end
  for _, field in ipairs { "sessionService", "artifactService", "memoryService" } do
    if definition[field] ~= nil then
      fields.refuse(where .. ".url", ("opens the services itself; leave %s away"):format(field))
    end
  end
end

---Makes a runner for a function that takes the fields of one.
---@param definition table whose names have been checked
---@param where string for messages
---@param model function|moonpad.Model|string|nil asked in place of the models of all agents
---@return moonpad.Runner
function runners.new(definition, where, model)
  local runner, opened = runners.FIELDS:read(definition, where), {}
  runner.plugins, runner.model = runner.plugins or {}, model
  checkServices(runner, where)
  if model == nil then checkModels(runner.agent, runner.plugins, where) end
  modelConfig.checkTree(runner.agent)
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

---@param value any
---@return boolean
function runners.isRunner(value)
  return getmetatable(value) == Runner
end

local function checkSelf(self, call)
  if getmetatable(self) ~= Runner then fields.refuse("runner:" .. call, "call it with a colon, not with a dot") end
end

-- `more`: fields of its invocation context.
local function start(self, options, method, more)
  checkSelf(self, method .. "{...}")
  closing.check(self, method)
  local asked = runOptions.check(self, options, "runner:" .. method)
  asked.id, asked.runner = "e-" .. core.uuid4(self.sessionService), self
  asked.artifactService, asked.memoryService = self.artifactService, self.memoryService
  asked.tracers = self.tracer and { self.tracer } or nil
  for name, value in pairs(more or {}) do asked[name] = value end
  -- Names contain no NUL, so different sessions have different keys.
  local key = table.concat({ self.appName, asked.userId, asked.sessionId }, "\0")
  return invocations.new(runs.new(invocationContexts.new(asked), turn.run, key))
end

---Runs the agent on a message: `for event in runner:run{...} do ... end`. Leaving the loop early
---cancels the run.
---@param options moonpad.RunOptions
---@return fun(): moonpad.Event? iterator
function Runner:run(options)
  return invocations.iterate(start(self, options, "run"))
end

---ADK's name of `run`.
Runner.runAsync = Runner.run

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
---@param outer { usage: table, onCommit: function, tracers: moonpad.Tracer[]?, span: moonpad.Span? } where its model
---calls count, what stores its events and notes what was written, who is told what it does
---@return moonpad.Invocation
function runners.startWithin(runner, options, outer)
  outer.isInner = true
  return start(runner, options, "start", outer)
end

---Starts a run that is traced for somebody else as well.
---@param runner moonpad.Runner
---@param options moonpad.RunOptions
---@param tracer moonpad.Tracer
---@param remoteParent moonpad.RemoteParent? the span of whoever has asked for it
---@return moonpad.Invocation
function runners.startTraced(runner, options, tracer, remoteParent)
  return start(runner, options, "start", { tracers = { tracer, runner.tracer }, remoteParent = remoteParent })
end

return runners
