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
