-- What is wrong with a definition is said where it is made, in one form of words: the path, what
-- was expected, what is there instead.
local moonpad = require "moonpad"
local checks = require "spec.support.checks"

local function nothing() end

local function model() return "Hello!" end

-- Adds fields to those that are needed.
local function with(needed, given)
  local definition = {}
  for name, value in pairs(needed) do definition[name] = value end
  for name, value in pairs(given) do definition[name] = value end
  return definition
end

-- One case: what is given, and the message.
local function refuses(make, needed, cases)
  for _, case in ipairs(cases) do
    local given, says = case[1], case[2]
    local err = checks.failure(make, with(needed, given))
    assert.same({ "invalid_argument", says }, { err.code, err.message })
  end
  assert.is_true(pcall(make, needed))
end

describe("what is wrong with a definition", function()
  it("of an agent is said when it is made", function()
    refuses(moonpad.agent, { name = "A" }, {
      { { model = 5 }, 'agent "A".model: expected a function, a model object or the name of a model, got number' },
      { { model = {} }, 'agent "A".model: a model object needs a method generate(self, request, context)' },
      { { description = 5 }, 'agent "A".description: expected a string, got number' },
      { { instruction = {} }, 'agent "A".instruction: expected a string or a function, got table' },
      { { globalInstruction = true }, 'agent "A".globalInstruction: expected a string or a function, got boolean' },
      { { outputKey = moonpad.null }, 'agent "A".outputKey: expected a string, got null' },
      { { outputSchema = "string" }, 'agent "A".outputSchema: expected a table, got string' },
      { { outputSchema = { type = "text" } }, 'agent "A".outputSchema.type: "text" is no type; there are '
        .. "array, boolean, integer, null, number, object, string" },
      { { config = 1 }, 'agent "A".config: expected a table, got number' },
      { { includeContents = "all" }, 'agent "A".includeContents: expected "default" or "none", got "all"' },
      { { templateSyntax = false },
        'agent "A".templateSyntax: expected "both", "braces" or "angles", got boolean' },
      { { disallowTransferToPeers = 1 }, 'agent "A".disallowTransferToPeers: expected a boolean, got number' },
      { { tools = { 5 } }, 'agent "A".tools[1]: expected a moonpad.tool, got number' },
      { { subAgents = { {} } }, 'agent "A".subAgents[1]: expected an agent, got table' },
      { { afterToolCallback = "f" },
        'agent "A".afterToolCallback: expected a function or a list of functions, got string' },
      { { afterToolCallback = { nothing, 3 } }, 'agent "A".afterToolCallback[2]: expected a function, got number' },
    })
  end)

  it("of other agents is said when they are made", function()
    refuses(moonpad.loopAgent, { name = "A" }, {
      { { maxIterations = 1.5 }, 'agent "A".maxIterations: expected an integer from 0, got 1.5' },
      { { maxIterations = -1 }, 'agent "A".maxIterations: expected an integer from 0, got -1' },
      { { maxIterations = "3" }, 'agent "A".maxIterations: expected an integer from 0, got "3"' },
      { { beforeAgentCallback = 1 },
        'agent "A".beforeAgentCallback: expected a function or a list of functions, got number' },
    })
    refuses(moonpad.customAgent, { name = "A", run = nothing }, {
      { { run = moonpad.null }, 'agent "A".run: expected a function, got null' },
      { { run = {} }, 'agent "A".run: expected a function, got table' },
    })
    assert.equal('agent "A".run: expected a function, got nil',
      checks.failure(moonpad.customAgent, { name = "A" }).message)
    for _, make in ipairs { moonpad.sequentialAgent, moonpad.loopAgent, moonpad.parallelAgent } do
      checks.raises("invalid_argument", "model: unknown field", make, { name = "A", model = model })
    end
  end)

  it("of a tool is said when it is made", function()
    refuses(moonpad.tool, { name = "t", run = nothing }, {
      { { name = "" }, 'tool.name: expected a non-empty string, got ""' },
      { { name = 5 }, "tool.name: expected a non-empty string, got number" },
      { { run = "f" }, 'tool "t".run: expected a function, got string' },
      { { description = 5 }, 'tool "t".description: expected a string, got number' },
      { { parameters = 5 }, 'tool "t".parameters: expected a table, got number' },
      { { parameters = { type = "string" } }, 'tool "t".parameters.type: must be "object": arguments are one' },
      { { longRunning = "yes" }, 'tool "t".longRunning: expected a boolean, got string' },
    })
    assert.equal("tool: expected a table, got nil", checks.failure(moonpad.tool).message)
    refuses(moonpad.agentTool, { agent = moonpad.agent { name = "A", model = model } }, {
      { { agent = {} }, "agentTool.agent: expected an agent, got table" },
      { { skipSummarization = 1 }, "agentTool.skipSummarization: expected a boolean, got number" },
    })
  end)

  it("of a runner is said when it is made, and of a run when it is called", function()
    local agent = moonpad.agent { name = "A", model = model }
    local needed = { appName = "app", agent = agent, sessionService = moonpad.open "memory:" }
    refuses(moonpad.runner, needed, {
      { { appName = "" }, 'runner.appName: expected a non-empty string, got ""' },
      { { agent = "A" }, "runner.agent: expected a moonpad.agent, got string" },
      { { sessionService = "memory:" }, "runner.sessionService: expected what moonpad.open returns, got string" },
      { { maxLlmCalls = "9" }, 'runner.maxLlmCalls: expected an integer from 0, got "9"' },
      { { templateSyntax = "x" }, 'runner.templateSyntax: expected "both", "braces" or "angles", got "x"' },
      { { plugins = { 5 } }, "runner.plugins[1]: expected a table of hooks, got number" },
      { { plugins = { { onEvent = 5 } } },
        "runner.plugins[1].onEvent: expected a function or a list of functions, got number" },
      { { plugins = { { name = "p" }, { name = "p" } } }, 'runner.plugins[2]: two plugins are called "p"' },
    })
    local runner = moonpad.runner(needed)
    for _, method in ipairs { "run", "start" } do
      local function start(options) return runner[method](runner, options) end
      local where = "runner:" .. method .. ": "
      refuses(start, { userId = "u" }, {
        { { userId = 5 }, where .. "userId: expected a non-empty string, got number" },
        { { sessionId = 5 }, where .. "sessionId: expected a string, got number" },
        { { stateDelta = "x" }, where .. "stateDelta: expected a table, got string" },
        { { numRecentEvents = -1 }, where .. "numRecentEvents: expected an integer from 0, got -1" },
        { { newMessage = { parts = {} } }, where .. "newMessage: has no parts" },
        { { usrId = 1 }, where .. "usrId: unknown field, did you mean userId?" },
      })
      assert.equal("runner:" .. method .. ": expected a table, got string", checks.failure(start, "Hi").message)
    end
  end)

  it("of the settings of a model is said when the agent is made, or its runner", function()
    refuses(moonpad.agent, { name = "A" }, {
      { { config = { temperature = "warm" } }, 'agent "A".config.temperature: expected a number, got string' },
      { { config = { stopSequences = "END" } },
        'agent "A".config.stopSequences: expected a list of strings, got string' },
      { { config = { stopSequences = { "END", 5 } } },
        'agent "A".config.stopSequences[2]: expected a string, got number' },
      { { model = "gpt-4o", config = { temprature = 1 } },
        'agent "A".config: temprature: unknown field, did you mean temperature?' },
      { { model = moonpad.models.openai { model = "m", apiKey = "x" }, config = { temprature = 1 } },
        'agent "A".config: temprature: unknown field, did you mean temperature?' },
    })
    -- A function, or an object of one's own, may have others.
    for _, own in ipairs { model, { generate = model }, moonpad.models.scripted { "x" } } do
      assert.is_true(pcall(moonpad.agent, { name = "A", model = own, config = { mood = "warm" } }))
    end
    local child = moonpad.agent { name = "Child", config = { mood = "warm" } }
    local root = moonpad.agent { name = "Root", model = "gpt-4o", subAgents = { child } }
    checks.raises("invalid_argument", 'agent "Child".config: mood: unknown field', moonpad.runner,
      { appName = "app", agent = root, sessionService = moonpad.open "memory:" })
  end)

  it("of a model's name is said when the agent is made", function()
    checks.raises("invalid_argument", 'model "gtp-4o": no adapter is known for this name', moonpad.agent,
      { name = "A", model = "gtp-4o" })
  end)

  it("leaves the sub-agents free", function()
    local child = moonpad.agent { name = "Child" }
    for _, wrong in ipairs { { config = { temperature = "x" } }, { model = "nobody" }, { tools = { 5 } } } do
      wrong.name, wrong.subAgents = "A", { child }
      checks.failure(moonpad.agent, wrong)
      assert.is_nil(child.parent)
    end
    assert.is_true(pcall(moonpad.agent, { name = "A", subAgents = { child } }))
  end)

  it("of a test is said under the name of the test's function", function()
    local testing = require "moonpad.testing"
    refuses(testing.toolContext, {}, {
      { { state = 5 }, "testing.toolContext.state: expected a table, got number" },
      { { agentName = 5 }, "testing.toolContext.agentName: expected a string, got number" },
    })
    refuses(testing.run, { agent = moonpad.agent { name = "A", model = model }, messages = "Hi" }, {
      { { state = 5 }, "testing.run.state: expected a table, got number" },
      { { service = 5 }, "testing.run.service: expected what moonpad.open returns, got number" },
      { { maxLlmCalls = -1 }, "testing.run.maxLlmCalls: expected an integer from 0, got -1" },
      { { agent = 5 }, "testing.run.agent: expected a moonpad.agent, got number" },
    })
  end)
end)

describe("what is called", function()
  -- A table that can be called, as a function of the same kind would be.
  local function callable(run)
    return setmetatable({}, { __call = function(_, ...) return run(...) end })
  end

  local function textsOf(agent, plugins)
    local runner = moonpad.runner {
      appName = "app", agent = agent, sessionService = moonpad.open "memory:", plugins = plugins,
    }
    local texts = {}
    for event in runner:run { userId = "u", newMessage = "Hi" } do texts[#texts + 1] = event:text() end
    return texts
  end

  it("may be a table with __call, wherever a function may be", function()
    local seen = {}
    local agent = moonpad.agent {
      name = "A",
      instruction = callable(function(context) return "I am " .. context.agentName end),
      tools = { { name = "look", run = callable(function(args) return { seen = args.at } end) } },
      model = callable(function(request)
        seen[#seen + 1] = request.systemInstruction
        local last = request.contents[#request.contents].parts[1]
        if last.functionResponse then return "saw " .. last.functionResponse.response.seen end
        return { content = { parts = { { functionCall = { name = "look", args = { at = "sea" } } } } } }
      end),
      afterAgentCallback = callable(function(context) return context.agentName .. " is done" end),
    }
    local plugin = { afterRun = callable(function() return "Bye" end) }
    assert.same({ "", "", "saw sea", "A is done", "Bye" }, textsOf(agent, { plugin }))
    assert.same({ "I am A", "I am A" }, seen)
    local custom = moonpad.customAgent { name = "C", run = callable(function(context) context:emit "mine" end) }
    assert.same({ "mine" }, textsOf(custom))
    local object = setmetatable({ generate = callable(function() return "Hello!" end) }, {})
    assert.same({ "Hello!" }, textsOf(moonpad.agent { name = "A", model = object }))
  end)

  it("gets no self, and must not expect one", function()
    local plugin, definition = {}, { name = "A" }
    function plugin:onEvent(context, event) return self, context, event end
    function definition:beforeModelCallback(context, request) return self, context, request end
    local says = ": is called without self, as function(%s); write it with a dot in the place of the colon, "
      .. "without a parameter self"
    local function expect(path, arguments, make, given)
      assert.equal(path .. says:format(arguments), checks.failure(make, given).message)
    end
    local needed = {
      appName = "app", agent = moonpad.agent { name = "B", model = model }, sessionService = moonpad.open "memory:",
    }
    expect("runner.plugins[1].onEvent", "context, event", moonpad.runner, with(needed, { plugins = { plugin } }))
    expect('agent "A".beforeModelCallback', "context, request", moonpad.agent, definition)
    definition.beforeModelCallback = { nothing, definition.beforeModelCallback }
    expect('agent "A".beforeModelCallback[2]', "context, request", moonpad.agent, definition)
    local tool = { name = "t" }
    function tool:run(args) return self, args end
    expect('tool "t".run', "args, context", moonpad.tool, tool)
    local custom = { name = "C" }
    function custom:run(context) return self, context end
    expect('agent "C".run', "context", moonpad.customAgent, custom)
    -- An object has its self, and a function that takes less than it gets is fine.
    assert.is_true(pcall(moonpad.agent, { name = "A", afterAgentCallback = callable(nothing) }))
    local stripped = load(string.dump(plugin.onEvent, true))
    assert.is_true(pcall(moonpad.runner, with(needed, { plugins = { { onEvent = stripped } } })))
  end)
end)

describe("a plugin", function()
  local function define(plugin)
    return moonpad.runner {
      appName = "app", agent = moonpad.agent { name = "A", model = model }, sessionService = moonpad.open "memory:",
      plugins = { plugin },
    }
  end

  local function run(plugin)
    for _ in define(plugin):run { userId = "u", newMessage = "Hi" } do end
  end

  it("may call its hooks as ADK does", function()
    local called, plugin = {}, {}
    for _, hook in ipairs { "onUserMessage", "beforeRun", "onEvent", "afterRun" } do
      plugin[hook .. "Callback"] = function() called[#called + 1] = hook end
    end
    run(plugin)
    assert.same({ "onUserMessage", "beforeRun", "onEvent", "afterRun" }, called)
    plugin.onEvent = nothing
    checks.raises("invalid_argument", "runner.plugins[1]: onEvent and onEventCallback are two names of one hook",
      define, plugin)
    checks.raises("invalid_argument", "runner.plugins[1].onEventCallback: expected a function", define,
      { onEventCallback = 5 })
  end)

  it("may be an object of a class", function()
    local called, Base, Class = {}, {}, {}
    Base.__index, Class.__index = Base, Class
    function Base.onEvent() called[#called + 1] = "onEvent" end
    function Class.beforeRun() called[#called + 1] = "beforeRun" end
    function Class.new() return setmetatable({}, Class) end
    setmetatable(Class, Base)
    run(Class.new())
    assert.same({ "beforeRun", "onEvent" }, called)
    function Base.onEvents() end
    checks.raises("invalid_argument", "runner.plugins[1].onEvents: unknown field, did you mean onEvent?", define,
      Class.new())
    Base.onEvents = nil
    function Class:afterRun(context) return self, context end
    checks.raises("invalid_argument", "runner.plugins[1].afterRun: is called without self", define, Class.new())
    Class.afterRun = nil
    -- A class that is above itself is an error in Lua, and not a plugin that is looked at for ever.
    setmetatable(Base, Class)
    assert.matches("loop", tostring(checks.failure(define, Class.new())))
  end)

  it("whose hooks answer false has not answered", function()
    local called = {}
    local plugin = {}
    for _, hook in ipairs {
      "onUserMessage", "beforeRun", "onEvent", "afterRun", "beforeAgentCallback", "afterAgentCallback",
      "beforeModelCallback", "afterModelCallback",
    } do
      plugin[hook] = function() called[#called + 1] = hook return false end
    end
    run(plugin)
    assert.same({
      "onUserMessage", "beforeRun", "beforeAgentCallback", "beforeModelCallback", "afterModelCallback", "onEvent",
      "afterAgentCallback", "afterRun",
    }, called)
  end)

  it("whose hook of a failure answers false leaves it one", function()
    local runner = moonpad.runner {
      appName = "app", agent = moonpad.agent { name = "A", model = function() error "broken" end },
      sessionService = moonpad.open "memory:", plugins = { { onModelErrorCallback = function() return false end } },
    }
    assert.matches("broken", tostring(checks.failure(function()
      for _ in runner:run { userId = "u", newMessage = "Hi" } do end
    end)))
  end)
end)
