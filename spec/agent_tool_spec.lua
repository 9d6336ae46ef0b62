-- Agents as tools of other agents.
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

describe("moonpad.agentTool", function()
  it("takes an agent, and gets its name and description", function()
    local agent = moonpad.agent { name = "Poet", description = "writes", model = function() return "x" end }
    local tool = moonpad.agentTool { agent = agent }
    assert.same({ "Poet", "writes" }, { tool.name, tool.description })
    assert.same({ "request" }, tool.parameters.required)
    assert.equal("invalid_argument", failure(moonpad.agentTool, { agent = "Poet" }).code)
    assert.equal("invalid_argument", failure(moonpad.agentTool, { agnet = agent }).code)
    local err = failure(moonpad.agentTool, agent)
    assert.equal("invalid_argument", err.code)
    assert.equal("agentTool: expected options, got an agent; write moonpad.agentTool { agent = ... }", err.message)
    assert.equal("invalid_argument", failure(moonpad.agentTool, { agent = agent, skipSummarization = 1 }).code)
  end)

  it("can be run by hand, with the context of a test", function()
    local testing = require "moonpad.testing"
    local tool = moonpad.agentTool { agent = moonpad.agent { name = "Poet", model = function(request, context)
      context.state.n = context.state.n + 1
      return "About " .. request.contents[1].parts[1].text
    end } }
    local context = testing.toolContext { state = { n = 1 } }
    assert.equal("About sea", tool.run({ request = "sea" }, context))
    assert.same({ n = 2 }, context.state:delta())
  end)
end)

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  -- Runs an agent that calls `child` as a tool (once per request) and then says "done".
  local function run(child, options)
    options = options or {}
    local calls = {}
    for index, request in ipairs(options.requests or { "sea" }) do
      calls[index] = { child.name, { request = request } }
    end
    local agent = { name = "Caller", model = moonpad.models.scripted { support.calls(table.unpack(calls)), "done" },
      tools = { moonpad.agentTool { agent = child, skipSummarization = options.skipSummarization } } }
    for name, value in pairs(options.fields or {}) do agent[name] = value end
    local runner = moonpad.runner { appName = "app", agent = moonpad.agent(agent), sessionService = service,
      plugins = options.plugins, maxLlmCalls = options.maxLlmCalls }
    return support.run(runner, { userId = "u", sessionId = "s", newMessage = "go", stateDelta = options.start })
  end

  local function responseOf(events)
    return events[2]:functionResponses()[1].response
  end

  local function poet(fields)
    local definition = { name = "Poet" }
    function definition.model(request) return "On " .. request.contents[1].parts[1].text end
    for name, value in pairs(fields or {}) do definition[name] = value end
    return moonpad.agent(definition)
  end

  describe("an agent as a tool", function()
    it("is given the request as its message, and answers with its last text", function()
      local events = run(poet())
      assert.same({ result = "On sea" }, responseOf(events))
      assert.equal("done", events[3]:text())
      assert.equal(3, #events)
    end)

    it("joins the parts of the text, leaving out thoughts", function()
      local events = run(poet { model = function()
        return { content = { parts = { { text = "hm", thought = true }, { text = "one" }, { text = "two" } } } }
      end })
      assert.same({ result = "one\ntwo" }, responseOf(events))
    end)

    it("starts from the caller's state without temp:, in a session that nobody else sees", function()
      local seen
      run(poet { model = function(_, context)
        seen = context.state:getAll()
        assert.equal(1, #context.session.events)
        return "x"
      end }, {
        start = { a = 1, ["user:b"] = 2, ["app:c"] = 3, ["temp:d"] = 4 },
        fields = { beforeToolCallback = function(context) context.state.pending = true end },
      })
      assert.same({ a = 1, pending = true, ["user:b"] = 2, ["app:c"] = 3 }, seen)
      assert.equal(1, #service:listSessions { appName = "app" })
    end)

    it("gives its changes back on the function response, deletions included and temp: not", function()
      local events = run(poet { outputKey = "poem", model = function(_, context)
        context.state.count = context.state.count + 1
        context.state.old = nil
        context.state["user:b"] = "new"
        context.state["temp:d"] = 1
        return "verse"
      end }, { start = { count = 1, old = "x" } })
      local delta = events[2].actions.stateDelta
      assert.same({ count = 2, old = moonpad.removed, poem = "verse", ["user:b"] = "new" }, delta)
      local state = support.stored(service).state
      assert.same({ count = 2, poem = "verse", ["user:b"] = "new" }, state:getAll())
    end)

    it("called twice in one answer gives back both", function()
      local events = run(poet { model = function(request, context)
        local text = request.contents[1].parts[1].text
        context.state[text] = true
        coroutine.yield()
        return text
      end }, { requests = { "a", "b" } })
      assert.same({ a = true, b = true }, events[2].actions.stateDelta)
      assert.equal("b", events[2]:functionResponses()[2].response.result)
    end)

    it("called twice in one answer adds what both add, and joins what both write into one table", function()
      local events = run(poet { model = function(request, context)
        local text = request.contents[1].parts[1].text
        context.state:increment "count"
        context.state:increment("user:count", 2)
        context.state:append("list", text)
        context.state.prefs[text] = true
        table.insert(context.state.extended, text)
        coroutine.yield()
        context.state:increment "count"
        return text
      end, afterAgentCallback = function(context)
        context.state:increment "count"
        context.state:append("list", "bye")
        context.state.prefs["after " .. context.userContent.parts[1].text] = context.state.count
      end }, { requests = { "a", "b" }, start = { count = 10, prefs = { old = true }, extended = { "x" } } })
      assert.same({
        count = 16, ["user:count"] = 4, list = { "a", "bye", "b", "bye" }, extended = { "x", "a", "b" },
        prefs = { old = true, a = true, b = true, ["after a"] = 13, ["after b"] = 13 },
      }, events[2].actions.stateDelta)
      assert.same(events[2].actions.stateDelta, support.stored(service).state:getAll())
    end)

    it("adds to what its caller's callbacks have written before, and takes in what was emitted by hand", function()
      local child = moonpad.customAgent { name = "Poet", run = function(context)
        context.state:increment "count"
        context:emit { actions = { stateDelta = { byHand = { 1 }, gone = moonpad.removed, ["temp:x"] = 1 } } }
        context.state:increment "count"
        context:emit "done"
      end }
      local events = run(child, { start = { count = 1, gone = 1 }, fields = {
        beforeToolCallback = function(context) context.state:increment("count", 10) end,
      } })
      assert.same({ count = 13, byHand = { 1 }, gone = moonpad.removed }, events[2].actions.stateDelta)
    end)

    -- Somebody else writes while the agent works.
    local function meanwhile(delta)
      local other = support.stored(service)
      service:appendEvent(other, { author = "other", actions = { stateDelta = delta } })
    end

    it("looks at no key that its agent does not look at", function()
      local events = run(poet { model = function(_, context)
        meanwhile { ["user:a"] = 1, ["user:b"] = 1, ["user:c"] = 1 }
        context.state["user:a"] = 2
        return "x"
      end }, { start = { ["user:a"] = 0, ["user:b"] = 0, ["user:c"] = 0 }, fields = {
        afterToolCallback = function(context) context.state["user:b"] = 2 end,
      } })
      assert.same({ ["user:a"] = 2, ["user:b"] = 2 }, events[2].actions.stateDelta)
      assert.equal(1, support.stored(service).state["user:c"])
    end)

    it("conflicts where its agent has decided by what somebody else has changed since", function()
      local err = failure(run, poet { model = function(_, context)
        meanwhile { ["user:a"] = 5 }
        context.state["user:a"] = context.state["user:a"] + 1
        return "x"
      end }, { start = { ["user:a"] = 0 } })
      assert.equal("conflict", err.code)
      assert.same({ "user:a" }, err.keys)
      local whole = failure(run, poet { model = function(_, context)
        meanwhile { ["user:a"] = 7 }
        context.state["user:a"] = #context.state:getAll()
        return "x"
      end })
      assert.same({ "user:a" }, whole.keys)
    end)

    -- One branch waits in its tool until the other one has stored what it wrote.
    local function sideBySide(work)
      local isStored = false
      local slow = moonpad.agentTool { agent = poet { name = "Slow", model = function(_, context)
        work(context, function()
          while not isStored do coroutine.yield() end
        end)
        return "x"
      end } }
      local function caller(fields)
        fields.model = moonpad.models.scripted { support.calls { fields.tools[1].name, { request = "x" } }, "done" }
        return moonpad.agent(fields)
      end
      support.run(moonpad.runner { appName = "app", sessionService = service, agent = moonpad.parallelAgent {
        name = "P", subAgents = {
          caller { name = "One", tools = { slow } },
          caller { name = "Two", tools = { { name = "write", run = function(_, context) context.state.a = "two" end } },
            afterAgentCallback = function() isStored = true end },
        },
      } }, { userId = "u", sessionId = "s", newMessage = "go", stateDelta = { a = "start" } })
      return support.stored(service).state.a
    end

    it("on a branch overwrites without a look what a sibling has stored, and conflicts after a look", function()
      assert.equal("one", sideBySide(function(context, wait)
        wait()
        context.state.a = "one"
      end))
      local err = failure(sideBySide, function(context, wait)
        local before = context.state.a
        wait()
        context.state.a = before .. " one"
      end)
      assert.equal("conflict", err.code)
      assert.same({ "a" }, err.keys)
    end)

    it("gives back once what it wrote before an event that could not be stored, and after it", function()
      service = open { maxEventBytes = 5000 }
      local codes, long = {}, ("x"):rep(6000)
      local events = run(moonpad.customAgent { name = "Counter", run = function(context)
        context.state:increment("n", 1)
        context.state:append("list", "a")
        context.state["user:word"] = "one"
        for _, event in ipairs { long, { content = "x", actions = { stateDelta = { lost = long } } }, "well" } do
          local ok, err = pcall(context.emit, context, event)
          codes[#codes + 1] = ok and "fine" or err.code
        end
        context.state:increment("n", 10)
        context.state:append("list", "b")
      end })
      assert.same({ "limit", "limit", "fine" }, codes)
      assert.same({ result = "well" }, responseOf(events))
      assert.same({ n = 11, list = { "a", "b" }, ["user:word"] = "one" }, events[2].actions.stateDelta)
      assert.same({ n = 11, list = { "a", "b" }, ["user:word"] = "one" }, support.stored(service).state:getAll())
    end)

    it("never conflicts over a counter", function()
      run(poet { model = function(_, context)
        meanwhile { ["user:a"] = 5 }
        context.state:increment "user:a"
        return "x"
      end }, { start = { ["user:a"] = 0 } })
      assert.equal(6, support.stored(service).state["user:a"])
    end)

    it("that fails tells the model why, and has changed nothing", function()
      local events = run(poet { tools = { { name = "t", run = function() end } }, model = function(_, context)
        context.state.lost = 1
        error "no muse"
      end })
      assert.matches("no muse", responseOf(events).error)
      assert.is_nil(support.stored(service).state.lost)
      assert.is_truthy(next(events[2].customMetadata.toolErrors))
    end)

    it("whose model answers with an error tells it", function()
      local events = run(poet { model = function() return { errorCode = "SAFETY", errorMessage = "not this" } end })
      assert.matches("not this", responseOf(events).error)
    end)

    it("with an outputSchema answers with the value", function()
      local schema = { type = "object", properties = { lines = { type = "integer" } }, required = { "lines" } }
      assert.same({ lines = 3 }, responseOf(run(poet {
        outputSchema = schema, model = function() return '```json\n{ "lines": 3 }\n```' end,
      })))
      assert.matches("lines", responseOf(run(poet { outputSchema = schema, model = function() return "{}" end })).error)
    end)

    it("with an outputSchema answers with a callback's words where these are the last", function()
      for _, hook in ipairs { "beforeAgentCallback", "beforeModelCallback", "afterAgentCallback" } do
        assert.same({ result = "Sorry, no." }, responseOf(run(poet {
          outputSchema = { type = "integer" }, model = function() return "3" end,
          [hook] = function() return "Sorry, no." end,
        })))
      end
    end)

    it("answers what its agent has said, not what a plugin says after it; one that answers before counts", function()
      local function answerWith(plugin) return responseOf(run(poet(), { plugins = { plugin } })) end
      local said = responseOf(run(poet()))
      assert.same(said, answerWith { afterRun = function() return "bye" end })
      local runs = 0
      assert.same({ result = "closed" }, answerWith { beforeRun = function()
        runs = runs + 1
        return runs == 2 and "closed" or nil
      end, afterRun = function() return "bye" end })
    end)

    it("has the caller's plugins, and counts its model calls with the caller's", function()
      local agents = {}
      local events = run(poet(), { plugins = { { beforeModelCallback = function(context)
        agents[#agents + 1] = context.agentName
      end } } })
      assert.same({ "Caller", "Poet", "Caller" }, agents)
      assert.equal(3, #events)
      assert.equal("limit", failure(run, poet(), { maxLlmCalls = 2 }).code)
    end)

    it("saves its artifacts with the caller's, and tells of them on the function response", function()
      local artifacts = moonpad.artifactService "memory:"
      local caller = moonpad.agent { name = "Caller",
        model = moonpad.models.scripted { support.calls { "Poet", { request = "x" } }, "done" },
        tools = { moonpad.agentTool { agent = poet { beforeAgentCallback = function(context)
          context:saveArtifact("poem.txt", "roses")
        end } } } }
      local runner = moonpad.runner {
        appName = "app", agent = caller, sessionService = service, artifactService = artifacts,
      }
      local events = support.run(runner, "go")
      assert.same({ ["poem.txt"] = 0 }, events[2].actions.artifactDelta)
      local part = artifacts:load { appName = "app", userId = "u", sessionId = "s", filename = "poem.txt" }
      assert.equal("roses", part.text)
    end)

    it("with skipSummarization gives the final answer", function()
      local events = run(poet(), { skipSummarization = true })
      assert.equal(2, #events)
      assert.is_true(events[2]:isFinalResponse())
    end)

    it("may consist of several agents, and may itself call agents", function()
      local inner = moonpad.agentTool { agent = moonpad.agent { name = "Muse", model = function() return "wind" end } }
      local events = run(moonpad.sequentialAgent { name = "Flow", subAgents = {
        poet { tools = { inner }, outputKey = "draft",
          model = moonpad.models.scripted { support.calls { "Muse", { request = "?" } }, "draft" } },
        moonpad.agent { name = "Editor", instruction = "Edit <draft>.", model = function(request)
          return request.systemInstruction
        end },
      } })
      assert.same({ result = "Edit draft." }, responseOf(events))
      assert.same({ draft = "draft" }, events[2].actions.stateDelta)
    end)

    it("may wait, and hears of a cancelled run", function()
      local waits, heard
      local caller = moonpad.agent { name = "Caller",
        model = moonpad.models.scripted { support.calls { "Poet", { request = "x" } }, "done" },
        tools = { moonpad.agentTool { agent = poet { model = function()
          waits = true
          local ok, err = pcall(coroutine.yield)
          heard = not ok and err.code
          error(err, 0)
        end } } } }
      local runner = moonpad.runner { appName = "app", agent = caller, sessionService = service }
      local invocation = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
      support.step(invocation)
      support.stepUntil(invocation, function() return waits end)
      invocation:cancel()
      assert.equal("cancelled", heard)
      assert.is_nil(invocation:step())
    end)
  end)
end)
