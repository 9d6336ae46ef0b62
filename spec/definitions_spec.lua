-- What is wrong with a definition is said where it is made, in one form of words: the path, what
-- was expected, what is there instead.
local moonpad = require "moonpad"
local checks = require "spec.support.checks"

local function nothing() end

local function model() return "Hello!" end

-- A table that can be called, as a function of the same kind would be.
local function callable(run)
  return setmetatable({}, { __call = function(_, ...) return run(...) end })
end

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
      { { outputKey = ("k"):rep(1025) },
        ('agent "A".outputKey: state key "%s...": 1025 bytes, at most 1024 are allowed'):format(("k"):rep(60)) },
      { { outputKey = "k\xFF" }, 'agent "A".outputKey: state key "k\\xFF": invalid UTF-8 at byte 2' },
      { { description = "caf\xE9" }, 'agent "A".description: the string is not valid UTF-8 (byte 4)' },
      { { instruction = "caf\xE9" }, 'agent "A".instruction: the string is not valid UTF-8 (byte 4)' },
      { { globalInstruction = "\xE9" }, 'agent "A".globalInstruction: the string is not valid UTF-8 (byte 1)' },
      { { outputSchema = { title = "\xE9" } }, 'agent "A".outputSchema.title: the string is not valid UTF-8 (byte 1)' },
      { { inputSchema = { default = 0 / 0 } }, 'agent "A".inputSchema.default: NaN cannot be encoded' },
      { { outputSchema = "string" }, 'agent "A".outputSchema: expected a table, got string' },
      { { outputSchema = { type = "text" } }, 'agent "A".outputSchema.type: "text" is no type; there are '
        .. "array, boolean, integer, null, number, object, string" },
      { { config = 1 }, 'agent "A".config: expected a table, got number' },
      { { includeContents = "all" }, 'agent "A".includeContents: expected "default" or "none", got "all"' },
      { { templateSyntax = false },
        'agent "A".templateSyntax: expected "both", "braces" or "angles", got boolean' },
      { { disallowTransferToPeers = 1 }, 'agent "A".disallowTransferToPeers: expected a boolean, got number' },
      { { tools = { 5 } }, 'agent "A".tools[1]: expected a moonpad.tool, got number' },
      { { tools = { moonpad.agent { name = "B", model = print } } },
        'agent "A".tools[1]: an agent is no tool; make it one: moonpad.agentTool{ agent = ... }' },
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
      { { description = "\xE9" }, 'agent "A".description: the string is not valid UTF-8 (byte 1)' },
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
      { { description = "\xE9" }, 'tool "t".description: the string is not valid UTF-8 (byte 1)' },
      { { parameters = 5 }, 'tool "t".parameters: expected a table, got number' },
      { { parameters = { description = nothing } },
        'tool "t".parameters.description: a function cannot be encoded' },
      { { parameters = { properties = { n = { default = 0 / 0 } } } },
        'tool "t".parameters.properties.n.default: NaN cannot be encoded' },
      { { parameters = { properties = { n = { maximum = math.huge } } } },
        'tool "t".parameters.properties.n.maximum: an infinite number cannot be encoded' },
      { { parameters = { title = "\xFF" } },
        'tool "t".parameters.title: the string is not valid UTF-8 (byte 1)' },
      { { parameters = { properties = { ["caf\xE9"] = {} } } },
        'tool "t".parameters.properties: a key is not valid UTF-8 (byte 4)' },
      { { parameters = { properties = { ["caf\xE9"] = { type = "x" } } } },
        'tool "t".parameters.properties["caf?"].type: "x" is no type; there are '
        .. "array, boolean, integer, null, number, object, string" },
      { { parameters = { ["not"] = { not_json = { [2] = 1 } } } },
        'tool "t".parameters.not.not_json: an array with holes (there is no item 1) cannot be encoded' },
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
      { { appName = ("a"):rep(256) }, "runner.appName: 256 bytes, at most 255 are allowed" },
      { { appName = "a\0b" }, "runner.appName: a NUL byte is not allowed" },
      { { appName = "caf\xE9" }, "runner.appName: the string is not valid UTF-8 (byte 4)" },
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
        { { userId = "u\0" }, where .. "userId: a NUL byte is not allowed" },
        { { sessionId = 5 }, where .. "sessionId: expected a string, got number" },
        { { sessionId = ("s"):rep(256) }, where .. "sessionId: 256 bytes, at most 255 are allowed" },
        { { sessionId = " \xE9" }, where .. "sessionId: the string is not valid UTF-8 (byte 1)" },
        { { stateDelta = "x" }, where .. "stateDelta: expected a table, got string" },
        { { stateDelta = { a = { f = print } } }, where .. "stateDelta.a.f: a function cannot be stored" },
        { { stateDelta = { 1 } }, where .. "stateDelta: must be an object" },
        { { stateDelta = { [("k"):rep(1025)] = 1 } }, ('%sstateDelta: state key "%s...": 1025 bytes, '):format(
          where, ("k"):rep(60)) .. "at most 1024 are allowed" },
        { { newMessage = "caf\xE9" }, where .. "newMessage.parts[1].text: the string is not valid UTF-8 (byte 4)" },
        { { newMessage = { parts = { "x", { functionResponse = { id = "c", response = { n = 0 / 0 } } } } } },
          where .. "newMessage.parts[2].functionResponse.response.n: NaN cannot be stored" },
        { { numRecentEvents = -1 }, where .. "numRecentEvents: expected an integer from 0, got -1" },
        { { newMessage = { parts = {} } }, where .. "newMessage: has no parts" },
        { { usrId = 1 }, where .. "usrId: unknown field, did you mean userId?" },
      })
      assert.equal("runner:" .. method .. ": expected a table, got string", checks.failure(start, "Hi").message)
      assert.equal(0, #needed.sessionService:listSessions { appName = "app" })
    end
  end)

  it("of a name that is taken is said when the agent is made", function()
    for _, make in ipairs { moonpad.agent, moonpad.sequentialAgent, moonpad.loopAgent, moonpad.parallelAgent } do
      for name, says in pairs {
        user = 'gent.name: "user" is who sends the messages; take another name',
        model = 'gent.name: "model" is who says what plugins answer before and after a run; take another name',
      } do
        checks.raises("invalid_argument", says, make, { name = name })
      end
    end
    assert.is_true(pcall(moonpad.agent, { name = "Model" }))
  end)

  it("of a session service that is closed is said when the runner is made", function()
    local closed = moonpad.open "memory:"
    closed:close()
    checks.raises("closed", "runner.sessionService: the service is closed", moonpad.runner,
      { appName = "app", agent = moonpad.agent { name = "A", model = model }, sessionService = closed })
  end)

  it("of an agent that is a tool is said by the runner of those that have it", function()
    local function runner(inner, plugins)
      local middle = moonpad.agent { name = "Middle", model = model, tools = { moonpad.agentTool { agent = inner } } }
      local root = moonpad.sequentialAgent { name = "Root", subAgents = {
        moonpad.agent { name = "A", model = model, tools = { moonpad.agentTool { agent = middle } } },
      } }
      return moonpad.runner {
        appName = "app", agent = root, sessionService = moonpad.open "memory:", plugins = plugins,
      }
    end
    local inner = moonpad.agent { name = "Inner", subAgents = { moonpad.agent { name = "Child" } } }
    local says = 'runner.agent: "Inner" has no model, nor has an agent above it'
    checks.raises("invalid_argument", says, runner, inner)
    checks.raises("invalid_argument", says, runner, inner, { { beforeModelCallback = {} } })
    assert.is_true(pcall(runner, inner, { { beforeModelCallback = nothing } }))
    assert.is_true(pcall(runner, moonpad.agent { name = "Own", beforeModelCallback = nothing }))
    moonpad.agent { name = "Parent", model = model, subAgents = { inner } }
    assert.is_true(pcall(runner, inner))
    local flow = moonpad.sequentialAgent { name = "Flow", subAgents = { moonpad.agent { name = "Step" } } }
    checks.raises("invalid_argument", '"Step" has no model', runner, flow)
    local child = moonpad.agent { name = "Moody", config = { mood = "warm" } }
    local heir = moonpad.agent { name = "Heir", model = "gpt-4o", subAgents = { child } }
    checks.raises("invalid_argument", 'agent "Moody".config: mood: unknown field', runner, heir)
  end)

  it("of settings that no provider can be sent is said where the model is one's", function()
    local openai = moonpad.models.openai { model = "m", apiKey = "x" }
    refuses(moonpad.agent, { name = "A", model = openai }, {
      { { config = { temperature = 0 / 0 } }, 'agent "A".config.temperature: NaN cannot be encoded' },
      { { config = { temperature = 1 / 0 } }, 'agent "A".config.temperature: an infinite number cannot be encoded' },
      { { config = { maxOutputTokens = 0 } },
        'agent "A".config.maxOutputTokens: expected a whole number from 1, got 0' },
      { { config = { maxOutputTokens = 2.5 } },
        'agent "A".config.maxOutputTokens: expected a whole number from 1, got 2.5' },
      { { config = { extra = { f = print } } }, 'agent "A".config.extra.f: a function cannot be encoded' },
      { { config = { stopSequences = { "\xE9" } } },
        'agent "A".config.stopSequences[1]: the string is not valid UTF-8 (byte 1)' },
      { { config = { responseSchema = { type = "text" } } }, 'agent "A".config.responseSchema.type: "text" is no type; '
        .. "there are array, boolean, integer, null, number, object, string" },
    })
    assert.is_true(pcall(moonpad.agent, { name = "A", model = openai, config = {
      temperature = 0.5, extra = { list = moonpad.array {}, null = moonpad.null }, responseSchema = { type = "OBJECT" },
    } }))
    -- Who writes the model knows what it can take.
    assert.is_true(pcall(moonpad.agent, { name = "A", model = model, config = { extra = { f = print } } }))
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
    checks.raises("invalid_argument", 'model "gtp-4o": no provider is known for this name', moonpad.agent,
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
    checks.raises("invalid_argument", "runner.plugins[1]: onEvent and onEventCallback are two names of one field",
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

  it("must not misspell a hook, whatever is to be called there", function()
    local object, where = callable(nothing), "runner.plugins[1]"
    for _, held in ipairs { nothing, { nothing }, { object, nothing } } do
      for given, says in pairs {
        beforRun = ", did you mean beforeRun?", before_run = ", did you mean beforeRun?",
        onToolErorCallback = ", did you mean onToolErrorCallback?", whenever = " (known: onUserMessage",
      } do
        checks.raises("invalid_argument", ("%s: %s: unknown field%s"):format(where, given, says), define,
          { [given] = held })
      end
    end
    -- An object that can be called, a class for one, may be data of the plugin's own.
    assert.is_true(pcall(define, { class = object, options = { nothing, verbose = true }, list = { 1 }, none = {} }))
    checks.raises("invalid_argument", where .. ".beforRun: unknown field, did you mean beforeRun?", define,
      { beforRun = object })
    local Class = { onEvents = { nothing } }
    Class.__index = Class
    checks.raises("invalid_argument", where .. ".onEvents: unknown field, did you mean onEvent?", define,
      setmetatable({}, Class))
  end)

  it("may have a name, which is a text", function()
    for _, case in ipairs { { 5, "number" }, { "", '""' }, { nothing, "function" }, { moonpad.null, "null" } } do
      checks.raises("invalid_argument",
        "runner.plugins[1].name: expected a non-empty string, got " .. case[2], define, { name = case[1] })
    end
    assert.is_true(pcall(define, setmetatable({}, { __index = { name = "of its class" } })))
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

describe("models of providers", function()
  it("refuse options of a wrong type when they are made", function()
    for _, name in ipairs { "openai", "anthropic", "gemini" } do
      for field, wrong in pairs {
        timeoutMs = "x", idleTimeoutMs = 0.5, maxRetries = -1, caFile = 3, headers = { ["a b"] = "x" },
      } do
        local options = { model = "m", apiKey = "k", [field] = wrong }
        checks.raises("invalid_argument", ("models.%s.%s: "):format(name, field), moonpad.models[name], options)
      end
      for _, headers in ipairs { { x = 3 }, { x = "a\nb" }, { "x" } } do
        local options = { model = "m", apiKey = "k", headers = headers }
        checks.raises("invalid_argument", "headers", moonpad.models[name], options)
      end
      -- They would make the rest of a body the beginning of somebody else's request.
      for _, header in ipairs { "Content-Length", "transfer-encoding", "Connection", "Expect", "TE" } do
        local said = ("models.%s.headers.%s: is not for you to set"):format(name, header)
        checks.raises("invalid_argument", said, moonpad.models[name],
          { model = "m", apiKey = "k", headers = { [header] = "5" } })
        checks.raises("invalid_argument", ("http.request.headers.%s: is not for you to set"):format(header),
          moonpad.http.request, { url = "http://127.0.0.1:1", headers = { [header] = "5" } })
      end
      assert.equal("m", moonpad.models[name] { model = "m", apiKey = "k", headers = { ["x-one"] = "1" } }.name)
    end
  end)
end)
