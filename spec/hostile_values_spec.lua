-- Values of every kind in the place of every argument and field: what is wrong is told by an error
-- object, never by Lua's own words for an accident within moonpad.
local checks = require "spec.support.checks"
local hostile = require "spec.support.hostile_values"
local http = require "moonpad.http"
local moonpad = require "moonpad"
local testing = require "moonpad.testing"

local isChosen = checks.chooser()
local problems, try

local function model() return "x" end

local function anAgent()
  return moonpad.agent { name = "A", model = model }
end

local function runIt(agent)
  local runner = moonpad.runner { appName = "app", agent = agent, sessionService = moonpad.open "memory:" }
  for _ in runner:run { userId = "u", newMessage = "x" } do end -- luacheck: ignore 542
end

-- Each value at each position; the others are as they should be, or all the same.
local function positions(where, run, arguments)
  try(where .. "()", run)
  for _, value in ipairs(hostile.values) do
    local count = select("#", arguments())
    for position = 1, count do
      if isChosen() then
        local given = { arguments() }
        given[position] = value[2]()
        try(("%s, argument %d: %s"):format(where, position, value[1]), run, table.unpack(given, 1, count))
      end
    end
    try(("%s, all arguments: %s"):format(where, value[1]), run, value[2](), value[2](), value[2]())
  end
end

-- Each value in each field of a table; what comes of it is used, if there is a way to.
local function fields(where, run, definition, names, use)
  for _, value in ipairs(hostile.values) do
    for name in names:gmatch "%S+" do
      if isChosen() then
        local given = definition()
        given[name] = value[2]()
        local place = ("%s.%s: %s"):format(where, name, value[1])
        local result = try(place, run, given)
        if result ~= nil and use then try(place .. ", used", use, result) end
      end
    end
  end
end

local function with(fieldsOf)
  return function()
    local copy = {}
    for key, value in pairs(fieldsOf) do copy[key] = value end
    return copy
  end
end

local nothing = with {}

local METHODS = { "text", "isFinalResponse", "functionCalls", "functionResponses" }

local HOOKS = "beforeAgentCallback afterAgentCallback beforeModelCallback afterModelCallback onModelErrorCallback "
  .. "beforeToolCallback afterToolCallback onToolErrorCallback"

describe("a hostile value", function()
  before_each(function()
    local _
    problems, _, try = hostile.newJudge()
  end)

  -- Values with finalizers go while the test that made them runs.
  after_each(function()
    collectgarbage()
    assert.same({}, problems)
  end)

  it("given to a function of the module", function()
    for _, name in ipairs {
      "open", "array", "state", "toTable", "event", "agent", "sequentialAgent", "loopAgent", "parallelAgent",
      "customAgent", "agentTool", "tool", "runner", "artifactService", "memoryService", "injectSessionState",
    } do
      positions(name, moonpad[name], function() return {}, {} end)
    end
    for _, name in ipairs { "encode", "decode" } do
      positions("json." .. name, moonpad.json[name], function() return {}, {} end)
    end
    positions("open", moonpad.open, function() return "memory:", {} end)
    positions("injectSessionState", moonpad.injectSessionState, function() return "x", moonpad.state {} end)
    positions("models.scripted", moonpad.models.scripted, function() return {} end)
  end)

  it("in a field of the config of a store", function()
    fields("open", function(config) return moonpad.open("memory:", config) end, nothing,
      [[durability busyTimeoutMs onConflict numRecentEvents maxValueBytes maxEventBytes maxStateBytes clock maxEvents
      eventTtlSeconds sessionTtlSeconds userTtlSeconds appTtlSeconds sweepIntervalSeconds maxSessionsPerUser
      onMaxSessions]],
      function(service) service:createSession { appName = "a", userId = "u" } end)
    for _, open in ipairs { "artifactService", "memoryService" } do
      fields(open, function(config) return moonpad[open]("memory:", config) end, nothing, "durability busyTimeoutMs")
    end
  end)

  it("given to a method of a service", function()
    local service = moonpad.open "memory:"
    local session = service:createSession { appName = "a", userId = "u", sessionId = "s" }
    local name = with { appName = "a", userId = "u", sessionId = "s" }
    for method in ([[createSession getSession listSessions deleteSession appendEvent updateSession refresh getAppState
      getUserState updateAppState updateUserState incrementState stateAt fork rewind export import backup
      sweep]]):gmatch "%S+" do
      if method ~= "backup" then
        positions("service:" .. method, service[method], function() return service, session, {} end)
      end
      fields("service:" .. method, function(options) return service[method](service, options) end, name,
        [[appName userId sessionId state numRecentEvents afterTimestamp limit after order key by session event lines
        invocationId revision at]])
    end
    -- Where each value is tried, deleteSession has been at work.
    if checks.stride == 1 then assert.equal("s", service:createSession(name()).id) end
  end)

  it("in a field of an event", function()
    local service = moonpad.open "memory:"
    local function append(event)
      return service:appendEvent(service:createSession { appName = "a", userId = "u" }, event)
    end
    local function ask(event)
      if event.partial then return end
      for _, method in ipairs(METHODS) do event[method](event) end
    end
    fields("event", append, with { author = "x" }, [[id invocationId author timestamp content actions partial branch
      longRunningToolIds usageMetadata customMetadata errorCode errorMessage mine removedStateKeys revision]], ask)
    fields("event.content", function(content) return append { author = "x", content = content } end, nothing,
      "parts role", ask)
    fields("event.actions", function(actions) return append { author = "x", actions = actions } end, nothing,
      [[stateDelta artifactDelta transferToAgent escalate skipSummarization compaction rewindBeforeInvocationId
      rewindToRevision]], ask)
    local function byHand(change)
      return function(value)
        local event = moonpad.event {}
        change(event, value)
        ask(event)
      end
    end
    fields("event by hand", byHand(function(event, given)
      for key, value in pairs(given) do event[key] = value end
    end), nothing, "content actions longRunningToolIds author")
    fields("content by hand", byHand(function(event, given) event.content = given end), nothing, "parts")
    fields("part by hand", byHand(function(event, given) event.content = { parts = { given, given } } end), nothing,
      "text thought functionCall functionResponse codeExecutionResult")
    for _, method in ipairs(METHODS) do
      positions("event:" .. method, moonpad.event({})[method], function() return moonpad.event {} end)
    end
  end)

  it("given to a state, a node, a session or its events", function()
    local service = moonpad.open "memory:"
    local session = service:createSession { appName = "a", userId = "u", state = { list = { 1 }, map = { a = 1 } } }
    local state = session.state
    for method in ([[get set has delete update setDefault getAll toTable hasDelta delta increment
      append]]):gmatch "%S+" do
      positions("state:" .. method, state[method], function() return state, "k", 1 end)
    end
    for _, object in ipairs { state, state.map, state.list, session, session.events } do
      for _, value in ipairs(hostile.values) do
        local name = ("%s: %s"):format(object, value[1])
        try("reading " .. name, function() return object[value[2]()] end)
        try("writing the key of " .. name, function() object[value[2]()] = 1 end)
        try("writing into " .. name, function() object.x = value[2]() end)
        try("writing at 1 into " .. name, function() object[1] = value[2]() end)
      end
    end
  end)

  it("in the definition of an agent", function()
    fields("agent", moonpad.agent, with { name = "A", model = model }, [[name description model instruction
      globalInstruction tools outputKey outputSchema includeContents config subAgents templateSyntax
      disallowTransferToParent disallowTransferToPeers ]] .. HOOKS, runIt)
    for _, kind in ipairs { "sequentialAgent", "loopAgent", "parallelAgent" } do
      fields(kind, moonpad[kind], with { name = "A" }, "name description subAgents maxIterations afterAgentCallback",
        runIt)
    end
    fields("customAgent", moonpad.customAgent, with { name = "A", run = function() end },
      "name description run subAgents afterAgentCallback", runIt)
  end)

  it("in the definition of a tool", function()
    fields("tool", moonpad.tool, with { name = "t", run = model }, "name description parameters run longRunning")
    fields("parameters", function(parameters)
      return moonpad.tool { name = "t", run = model, parameters = parameters }
    end, with { type = "object" }, "type properties required items enum nullable anyOf minimum minLength description")
    fields("agentTool", moonpad.agentTool, function() return { agent = anAgent() } end, "agent skipSummarization")
    positions("agentTool.run", moonpad.agentTool({ agent = anAgent() }).run, function()
      return { request = "x" }, testing.toolContext()
    end)
    fields("agentTool.run", function(arguments)
      return moonpad.agentTool({ agent = anAgent() }).run(arguments, testing.toolContext())
    end, nothing, "request")
  end)

  it("in the definition of a runner or a plugin", function()
    local function definition()
      return { appName = "a", agent = anAgent(), sessionService = moonpad.open "memory:" }
    end
    local function run(runner)
      for _ in runner:run { userId = "u", newMessage = "x" } do end -- luacheck: ignore 542
    end
    fields("runner", moonpad.runner, definition,
      "appName agent sessionService artifactService memoryService plugins summarizer maxLlmCalls templateSyntax", run)
    fields("plugin", function(plugin)
      local given = definition()
      given.plugins = { plugin }
      return moonpad.runner(given)
    end, nothing, "onUserMessage beforeRun onEvent afterRun name mine " .. HOOKS, run)
  end)

  it("in the options of a run", function()
    local runner = moonpad.runner { appName = "a", agent = anAgent(), sessionService = moonpad.open "memory:" }
    local names = "userId sessionId newMessage stateDelta numRecentEvents"
    local options = with { userId = "u", newMessage = "x" }
    local function finish(invocation) while invocation:wait() do end end -- luacheck: ignore 542
    fields("run", function(given) return runner:run(given) end, options, names, function(iterator) iterator() end)
    fields("start", function(given) return runner:start(given) end, options, names, finish)
    fields("a part", function(part)
      finish(runner:start { userId = "u", newMessage = { parts = { part, { text = "x" } } } })
    end, nothing, "text functionCall functionResponse thought inlineData")
    positions("runner:run", runner.run, function() return runner, options() end)
    positions("runner:start", runner.start, function() return runner, options() end)
    local invocation = runner:start(options())
    finish(invocation)
    for _, method in ipairs { "step", "wait", "cancel" } do
      positions("invocation:" .. method, invocation[method], function() return invocation, 0 end)
    end
  end)

  it("given to moonpad.testing", function()
    for _, name in ipairs { "toolContext", "run", "scriptedModel", "clock" } do
      positions("testing." .. name, testing[name], function() return {} end)
    end
    fields("toolContext", testing.toolContext, nothing, "state appName userId sessionId agentName functionCallId "
      .. "userContent artifactService memoryService", function(context)
        assert(context.userContent or context.agentName)
        context:saveArtifact("a", "x")
      end)
    fields("testing.run", testing.run, function() return { agent = anAgent(), messages = "x" } end,
      "agent state service appName userId sessionId messages plugins clock artifactService memoryService maxLlmCalls")
    local function asked(step) return testing.scriptedModel({ step }):generate { contents = {}, tools = {} } end
    fields("step", asked, with { reply = "x" }, "expect reply")
    fields("expect", function(expect) return asked { expect = expect, reply = "x" } end, nothing,
      "text instruction functionResponse tools")
    for _, scripted in ipairs { testing.scriptedModel { "x" }, moonpad.models.scripted { "x" } } do
      positions("generate", scripted.generate, function() return scripted, { contents = {} } end)
    end
  end)

  it("given to a context", function()
    local function newContext()
      return testing.toolContext {
        artifactService = moonpad.artifactService "memory:", memoryService = moonpad.memoryService "memory:",
      }
    end
    local context = newContext()
    for method in ([[transferToAgent escalate await saveArtifact loadArtifact listArtifacts searchMemory emit
      runAgent]]):gmatch "%S+" do
      positions("context:" .. method, context[method], function() return context, "x", "x" end)
    end
    for _, value in ipairs(hostile.values) do
      for name, object in pairs { context = context, actions = context.actions, session = context.session } do
        try(("%s[%s]"):format(name, value[1]), function() return object[value[2]()] end)
        try(("%s[%s] = 1"):format(name, value[1]), function() object[value[2]()] = 1 end)
      end
      for action in ("skipSummarization escalate transferToAgent artifactDelta stateDelta mine"):gmatch "%S+" do
        try(("actions.%s = %s"):format(action, value[1]), function() context.actions[action] = value[2]() end)
      end
    end
  end)

  it("given to artifacts and memory", function()
    local file = with { appName = "a", userId = "u", sessionId = "s", filename = "f", part = "x" }
    for method in ("save load list versions delete deleteUser"):gmatch "%S+" do
      local artifacts = moonpad.artifactService "memory:"
      positions("artifacts:" .. method, artifacts[method], function() return artifacts, file() end)
      fields("artifacts:" .. method, function(options) return artifacts[method](artifacts, options) end, function()
        local options = file()
        if method ~= "save" then options.part = nil end
        if method == "list" or method == "deleteUser" then options.filename = nil end
        if method == "deleteUser" then options.sessionId = nil end
        return options
      end, "appName userId sessionId filename part version")
    end
    local artifacts = moonpad.artifactService "memory:"
    local function save(part)
      local options = file()
      options.part = part
      return artifacts:save(options)
    end
    fields("a part", save, nothing, "text inlineData fileData")
    fields("inlineData", function(data) return save { inlineData = data } end, with { mimeType = "a/b", data = "x" },
      "mimeType data displayName")
    local memory = moonpad.memoryService "memory:"
    for _, method in ipairs { "addSession", "searchMemory", "deleteUser" } do
      positions("memory:" .. method, memory[method], function() return memory, {} end)
      fields("memory:" .. method, function(options) return memory[method](memory, options) end,
        with { appName = "a", userId = "u", query = "x" }, "appName userId query limit")
    end
    for _, service in ipairs { artifacts, memory } do
      positions("close", service.close, function() return service end)
    end
  end)

  it("given to HTTP #http", function()
    local request = with { url = "http://127.0.0.1:1/", attempts = 1 }
    positions("http.request", http.request, function() return {} end)
    fields("http.request", http.request, request, [[url method headers body timeoutMs connectTimeoutMs idleTimeoutMs
      attempts retryDelayMs maxRetryDelayMs retryAdvice maxBodyBytes maxUnreadBytes caFile]],
      function(job) job:close() end)
    local job = http.request(request())
    job:wait()
    for _, method in ipairs { "wait", "read", "receive", "collect", "poll", "release", "close", "step" } do
      positions("job:" .. method, job[method], function() return job, 0 end)
    end
    for _, value in ipairs(hostile.values) do
      local seconds = value[2]()
      -- That would be long.
      if seconds ~= math.huge then try("http.poll: " .. value[1], http.poll, seconds) end
    end
  end)
end)
