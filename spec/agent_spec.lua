local moonpad = require "moonpad"
local support = require "spec.support"

local function text(part)
  return { role = "user", parts = { { text = part } } }
end

local failure = require("spec.support.checks").failure

local function anAgent(fields)
  local definition = { name = "Greeter", model = function() return "Hello!" end }
  for name, value in pairs(fields or {}) do definition[name] = value end
  return moonpad.agent(definition)
end

describe("the definition of an agent", function()
  it("that is refused leaves its sub-agents free for the right one", function()
    local child, parent = anAgent { name = "Child" }, nil
    local function work() end
    local wrong = {
      { moonpad.agent, { outputSchema = 5 } }, { moonpad.agent, { model = 5 } }, { moonpad.agent, { tools = { 5 } } },
      { moonpad.agent, { tools = { {} } } }, { moonpad.agent, { includeContents = "some" } },
      { moonpad.agent, { beforeModelCallback = 5 } }, { moonpad.agent, { description = 5 } },
      { moonpad.agent, { subAgents = { child, child } } }, { moonpad.agent, { subAgents = { child, 5 } } },
      { moonpad.agent, { name = "Child" } }, { moonpad.loopAgent, { maxIterations = -1 } }, { moonpad.customAgent, {} },
      { moonpad.sequentialAgent, { name = "" } }, { moonpad.parallelAgent, { model = work } },
    }
    for _, case in ipairs(wrong) do
      local definition = { name = "A", subAgents = { child } }
      for name, value in pairs(case[2]) do definition[name] = value end
      assert.equal("invalid_argument", failure(case[1], definition).code)
      assert.is_nil(child.parent)
    end
    assert.is_true(pcall(function() parent = moonpad.agent { name = "A", subAgents = { child } } end))
    assert.equal(parent, child.parent)
  end)

  it("names the nearest known field for one that it does not know", function()
    local err = failure(moonpad.agent, { name = "A", instructions = "x" })
    assert.equal("invalid_argument", err.code)
    assert.matches("instructions", tostring(err))
    assert.matches("did you mean instruction", tostring(err))
  end)

  it("needs a name, which is not that of the user", function()
    assert.matches("agent.name", tostring(failure(moonpad.agent, {})))
    for _, kind in ipairs { "agent", "sequentialAgent", "parallelAgent", "loopAgent", "customAgent" } do
      assert.equal(kind .. ": expected a table, got string", failure(moonpad[kind], "A").message)
      local unknown = failure(moonpad[kind], { instructon = "x" }).message
      assert.equal(kind .. ": instructon: unknown field", unknown:match "^[^,(]*field")
      assert.equal(kind .. ".name: expected a non-empty string, got nil", failure(moonpad[kind], {}).message)
    end
    assert.matches("agent.name", tostring(failure(moonpad.agent, { name = "" })))
    assert.matches("user", tostring(failure(moonpad.agent, { name = "user" })))
  end)

  it("refuses values of the wrong kind and says where", function()
    assert.matches('agent "A".outputKey', tostring(failure(moonpad.agent, { name = "A", outputKey = 1 })))
    assert.matches("includeContents", tostring(failure(moonpad.agent, { name = "A", includeContents = "all" })))
    assert.matches("generate", tostring(failure(moonpad.agent, { name = "A", model = {} })))
    assert.matches("beforeModelCallback%[2%]", tostring(failure(moonpad.agent, {
      name = "A", beforeModelCallback = { function() end, 3 },
    })))
  end)

  it("refuses one item, or items under names, where a list is expected", function()
    local tool = moonpad.tool { name = "look", run = function() end }
    local other = moonpad.agent { name = "B", model = print }
    for message, fields in pairs {
      ['agent "A".tools: expected a list of tools, got moonpad.tool'] = { tools = tool },
      ['agent "A".tools: expected a list of tools, got a table with the key "a"'] = { tools = { a = tool } },
      ['agent "A".tools: expected a list of tools, got a table with the key "b"'] = { tools = { tool, b = tool } },
      ['agent "A".tools: expected a list of tools, there is nothing at [1]'] = { tools = { nil, tool } },
      ['agent "A".tools: expected a list of tools, got string'] = { tools = "look" },
      ['agent "A".subAgents: expected a list of agents, got moonpad.agent'] = { subAgents = other },
      ['agent "A".subAgents: expected a list of agents, got a table with the key "b"'] = { subAgents = { b = other } },
      ['agent "A".afterModelCallback: expected a list of functions, got a table with the key "f"'] =
        { afterModelCallback = { f = print } },
      ['agent "A".afterModelCallback: expected a list of functions, there is nothing at [2]'] =
        { afterModelCallback = { print, nil, print } },
    } do
      fields.name = "A"
      assert.equal(message, failure(moonpad.agent, fields).message)
    end
    assert.equal('models.scripted: expected a list of answers, got a table with the key "content"',
      failure(moonpad.models.scripted, { content = {} }).message)
    assert.equal('testing.run.messages: expected a list of messages, got a table with the key "txt"',
      failure(moonpad.testing.run, { agent = other, messages = { txt = "x" } }).message)
    assert.equal('testing.scriptedModel: expected a list of steps, got a table with the key "reply"',
      failure(moonpad.testing.scriptedModel, { reply = "x" }).message)
  end)

  it("refuses a part in the place of the list of a message or an answer", function()
    local service <close> = moonpad.open "memory:"
    local agent = anAgent { model = function() return { content = { parts = { text = "x" } } } end }
    local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
    assert.equal('runner:run: newMessage.parts: expected a list of parts, got a table with the key "text"',
      failure(support.run, runner, { parts = { text = "x" } }).message)
    local err = failure(support.run, runner, "x")
    assert.equal('agent "Greeter": the model\'s answer.content.parts: expected a list of parts, got a table with the '
      .. 'key "text"', err.message)
    assert.equal("model", err.code)
  end)

  it("refuses a plugin in the place of a list of plugins", function()
    local service <close> = moonpad.open "memory:"
    local err = failure(moonpad.runner, {
      appName = "app", agent = anAgent(), sessionService = service, plugins = { beforeRun = print },
    })
    assert.equal('runner.plugins: expected a list of plugins, got a table with the key "beforeRun"', err.message)
  end)

  describe("without a model", function()
    local function runnerOf(agent, plugins)
      local service = moonpad.open "memory:"
      return moonpad.runner { appName = "app", agent = agent, sessionService = service, plugins = plugins }
    end

    it("has that of the nearest agent above it, and the request says its name", function()
      local seen = {}
      local function model(name)
        return { name = name, generate = function(_, request, context)
          seen[#seen + 1] = context.agentName .. " " .. name .. " " .. request.model
          return name
        end }
      end
      local leaf, own = moonpad.agent { name = "Leaf" }, moonpad.agent { name = "Own", model = model "m2" }
      local flow = moonpad.sequentialAgent { name = "Flow", subAgents = { leaf, own } }
      local root = moonpad.agent { name = "Root", model = model "m1", subAgents = { flow },
        beforeAgentCallback = function(context) context:transferToAgent "Flow" end }
      support.run(runnerOf(root), "go")
      assert.same({ "Leaf m1 m1", "Own m2 m2" }, seen)
      seen = {}
      support.run(runnerOf(leaf), "go")
      assert.same({ "Leaf m1 m1" }, seen)
    end)

    it("nor one above it is refused when the runner is made", function()
      local flow = moonpad.sequentialAgent { name = "Flow", subAgents = { moonpad.agent { name = "Leaf" } } }
      local err = failure(runnerOf, flow)
      assert.equal("invalid_argument", err.code)
      assert.equal('runner.agent: "Leaf" has no model, nor has an agent above it', err.message)
    end)

    it("may let a callback answer, its own or a plugin's", function()
      local function answer() return "by hand" end
      assert.equal("by hand",
        support.run(runnerOf(moonpad.agent { name = "A", beforeModelCallback = answer }), "go")[1]:text())
      assert.equal("by hand",
        support.run(runnerOf(moonpad.agent { name = "A" }, { { beforeModelCallback = answer } }), "go")[1]:text())
      local silent = moonpad.agent { name = "A", beforeModelCallback = function() end }
      assert.equal('agent "A" has no model', failure(support.run, runnerOf(silent), "go").message)
    end)
  end)

  it("refuses two tools of one name", function()
    local tool = moonpad.tool { name = "look", run = function() end }
    local err = failure(moonpad.agent, { name = "A", tools = { tool, tool } })
    assert.matches('two tools are called "look"', tostring(err))
  end)
end)

support.any_store(function(open)
  local function runnerOf(fields, runnerFields)
    local definition = { appName = "app", agent = anAgent(fields), sessionService = open() }
    for name, value in pairs(runnerFields or {}) do definition[name] = value end
    return moonpad.runner(definition), definition.sessionService
  end

  describe("a model", function()
    it("may tell what went wrong in bytes that are no UTF-8", function()
      local runner, service = runnerOf { model = function() return { errorCode = "E", errorMessage = "caf\xe9" } end }
      assert.equal("caf?", support.run(runner, "Hi")[1].errorMessage)
      assert.equal("caf?", support.stored(service).events[2].errorMessage)
    end)

    it("answers with a string", function()
      local runner, service = runnerOf()
      local events = support.run(runner, "Hi")
      assert.equal(1, #events)
      assert.equal("Greeter", events[1].author)
      assert.equal("model", events[1].content.role)
      assert.equal("Hello!", events[1]:text())
      assert.is_true(events[1]:isFinalResponse())
      local stored = support.stored(service).events
      assert.equal(2, #stored)
      assert.equal("user", stored[1].author)
      assert.equal("Hi", stored[1]:text())
      assert.equal(events[1].id, stored[2].id)
      assert.equal(events[1].invocationId, stored[1].invocationId)
    end)

    it("answers with a response, whose fields travel on the event", function()
      local runner = runnerOf { model = function()
        return {
          content = { parts = { { text = "thinking", thought = true }, { text = "Hello!" } } },
          usageMetadata = { totalTokenCount = 7 }, finishReason = "STOP",
        }
      end }
      local event = support.run(runner, "Hi")[1]
      assert.equal("Hello!", event:text())
      assert.equal("model", event.content.role)
      assert.same({ totalTokenCount = 7 }, event.usageMetadata)
      assert.equal("STOP", event.finishReason)
    end)

    it("may be an object with a name", function()
      local seen
      local model = { name = "mine", generate = function(self, request) seen = request.model return self.name end }
      local runner = runnerOf { model = model }
      assert.equal("mine", support.run(runner, "Hi")[1]:text())
      assert.equal("mine", seen)
    end)

    it("gets a request with instruction, contents, tools and config, which a callback may change", function()
      local seen = {}
      local function spoil(_, request)
        seen[#seen + 1] = moonpad.json.encode(request)
        request.config.temperature, request.tools[1].name = 9, "spoilt"
        request.contents[1].parts[1].text = "spoilt"
      end
      local runner = runnerOf {
        instruction = "Be kind.",
        config = { temperature = 0 },
        tools = { { name = "look", description = "looks", parameters = { type = "object" }, run = function() end } },
        beforeModelCallback = spoil,
        model = function(request)
          assert.equal("spoilt", request.contents[1].parts[1].text)
          return "ok"
        end,
      }
      support.run(runner, "Hi")
      support.run(runner, "Again")
      local request = moonpad.json.decode(seen[1])
      assert.equal("Be kind.", request.systemInstruction)
      assert.same({ text("Hi") }, request.contents)
      assert.same({ { name = "look", description = "looks", parameters = { type = "object" } } }, request.tools)
      assert.same({ temperature = 0 }, request.config)
      local second = moonpad.json.decode(seen[2])
      assert.equal("Hi", second.contents[1].parts[1].text)
      assert.same({ role = "model", parts = { { text = "ok" } } }, second.contents[2])
      assert.equal(0, second.config.temperature)
      assert.equal("look", second.tools[1].name)
    end)

    it("may stream: partial events are shown and not stored, the last one is", function()
      local runner, service = runnerOf { outputKey = "reply", model = function()
        local chunks = {
          { content = { parts = { { text = "Hel" } } }, partial = true },
          { content = { parts = { { text = "lo" } } }, partial = true },
          { content = { parts = { { text = "Hello" } } } },
        }
        local index = 0
        return function() index = index + 1 return chunks[index] end
      end }
      local events = support.run(runner, "Hi")
      assert.equal(3, #events)
      assert.is_true(events[1].partial)
      assert.is_false(events[2]:isFinalResponse())
      assert.equal(events[1].id, events[3].id)
      assert.equal("Hello", events[3]:text())
      assert.is_nil(events[1].revision)
      local session = support.stored(service)
      assert.equal(2, #session.events)
      assert.equal("Hello", session.state.reply)
    end)

    it("may stream strings: what was streamed becomes the answer", function()
      local runner = runnerOf { model = function()
        return coroutine.wrap(function() coroutine.yield "Hel" coroutine.yield "lo" end)
      end }
      local events = support.run(runner, "Hi")
      assert.same({ "Hel", "lo", "Hello" }, { events[1]:text(), events[2]:text(), events[3]:text() })
      assert.is_nil(events[3].partial)
    end)

    it("that answers nothing ends the run without an event, and loses no state of its callbacks", function()
      local runner, service = runnerOf { model = function() return { content = { parts = {} } } end }
      assert.equal(0, #support.run(runner, "Hi"))
      local other, otherService = runnerOf {
        model = function() return { content = { parts = {} } } end,
        beforeModelCallback = function(context) context.state.asked = true end,
      }
      local events = support.run(other, "Hi")
      assert.equal(1, #events)
      assert.is_false(events[1]:isFinalResponse())
      assert.is_true(support.stored(otherService).state.asked)
      assert.is_nil(support.stored(service).state.asked)
    end)

    it("that fails ends the run with its error, and the session can be used at once", function()
      local fail = true
      local runner, service = runnerOf {
        beforeModelCallback = function(context) context.state.written = true end,
        model = function() if fail then error "no network" end return "back" end,
      }
      local err = failure(support.run, runner, "Hi")
      assert.equal("model", err.code)
      assert.matches("no network", tostring(err))
      assert.is_nil(support.stored(service).state.written)
      fail = false
      assert.equal("back", support.run(runner, "Hi")[1]:text())
    end)

    it("may raise an error of its own, which the caller gets as it is", function()
      local mine = setmetatable({}, { __tostring = function() return "mine" end })
      local runner = runnerOf { model = function() error(mine) end }
      assert.equal(mine, failure(support.run, runner, "Hi"))
    end)

    it("that raises nothing, or a table of its own, fails with an error that says so", function()
      local err = failure(support.run, (runnerOf { model = function() error() end }), "Hi")
      assert.same({ "model", 'the model of agent "Greeter" failed: it failed without an error value' },
        { err.code, err.message })
      local seen
      local runner = runnerOf {
        model = function() error { code = "limit", message = "too much" } end,
        onModelErrorCallback = function(_, _, given) seen = given end,
      }
      err = failure(support.run, runner, "Hi")
      assert.equal(seen, err)
      assert.equal("limit: too much", tostring(err))
      assert.same({ code = "limit", message = "too much" }, err.cause)
      err = failure(support.run, (runnerOf { model = function() error { status = 7 } end }), "Hi")
      assert.equal('model: the model of agent "Greeter" failed: {"status":7}', tostring(err))
    end)

    it("object whose generate is called with a dot says so", function()
      for _, model in ipairs {
        moonpad.models.scripted { "x" }, moonpad.testing.scriptedModel { "x" },
        moonpad.models.openai { model = "gpt-4o", apiKey = "x" },
      } do
        assert.equal("model:generate(request): call it with a colon, not with a dot",
          failure(model.generate, { contents = {} }).message)
      end
    end)

    it("must answer something, and must be there", function()
      local runner = runnerOf { model = function() end }
      assert.equal("model", failure(support.run, runner, "Hi").code)
      assert.equal("model", failure(support.run, (runnerOf { model = function() return 42 end }), "Hi").code)
      local err = failure(runnerOf, { model = "no-such-model" })
      assert.equal("invalid_argument", err.code)
      assert.matches("no%-such%-model", tostring(err))
    end)

    it("whose answer has fields that no response has ends the run, and they are named", function()
      local function messageOf(fields)
        local err = failure(support.run, (runnerOf(fields)), "Hi")
        return err.code .. " " .. err.message
      end
      local function wrong() return { contents = { parts = { { text = "x" } } } } end
      local form = "; a response is a string, a part such as { text = ... }, a list of parts, or "
        .. "{ content = { parts = { ... } }, ... }"
      local refusal = "contents: unknown field, did you mean content?" .. form
      assert.equal('model agent "Greeter": the model\'s answer: ' .. refusal, messageOf { model = wrong })
      assert.equal('model agent "Greeter": a chunk of the model\'s answer: ' .. refusal,
        messageOf { model = function() return wrong end })
      for _, hook in ipairs { "beforeModelCallback", "afterModelCallback" } do
        assert.equal(('invalid_argument agent "Greeter": %s: %s'):format(hook, refusal), messageOf { [hook] = wrong })
      end
      local message = messageOf { model = function() return { text = "x", finishReason = "STOP" } end }
      assert.matches("text: unknown field %(known: content, partial, ", message)
      assert.equal(form, message:sub(-#form))
      assert.equal(1, select(2, message:gsub("finishReason", "")))
    end)

    it("may not answer an empty table; one without parts is no event", function()
      local err = failure(support.run, (runnerOf { model = function() return {} end }), "Hi")
      assert.equal("model", err.code)
      assert.matches('agent "Greeter" returned an empty table', err.message)
      local runner = runnerOf { model = function() return { finishReason = "STOP" } end }
      assert.same({}, support.run(runner, "Hi"))
    end)

    it("is not called more often than maxLlmCalls", function()
      local count = 0
      local runner = runnerOf({
        model = function() count = count + 1 return support.calls { "again" } end,
        tools = { { name = "again", run = function() return {} end } },
      }, { maxLlmCalls = 3 })
      assert.equal("limit", failure(support.run, runner, "Hi").code)
      assert.equal(3, count)
    end)
  end)

  describe("a context", function()
    it("tells who and where", function()
      local seen
      local runner = runnerOf { beforeAgentCallback = function(context)
        seen = {
          context.agentName, context.userContent.parts[1].text, context.session.id, context.session.userId,
          context.session.appName, #context.session.events, context.invocationId, context.functionCallId,
        }
      end }
      support.run(runner, "Hi")
      assert.same({ "Greeter", "Hi", "s", "u", "app", 1 }, { table.unpack(seen, 1, 6) })
      assert.matches("^e%-", seen[7])
      assert.is_nil(seen[8])
    end)

    it("shows a session that cannot be written", function()
      local runner = runnerOf { beforeAgentCallback = function(context)
        context.state.x = 1
        assert.equal(1, context.session.state.x)
        assert.is_false(pcall(function() context.session.state.x = 2 end))
        assert.is_false(pcall(function() context.session.id = "other" end))
        assert.is_false(pcall(function() context.agentName = "other" end))
      end }
      assert.same({ x = 1 }, support.run(runner, "Hi")[1].actions.stateDelta)
    end)

    it("has actions, which travel on the event", function()
      local runner = runnerOf { beforeAgentCallback = function(context)
        context.actions.stateDelta.x = 1
        context.actions.stateDelta = { y = 2 }
        context.actions.stateDelta = { z = moonpad.null, gone = moonpad.removed }
        context.actions.artifactDelta = { file = 3 }
        assert.same({ file = 3 }, context.actions.artifactDelta)
      end }
      local event = support.run(runner, { userId = "u", newMessage = "Hi", stateDelta = { gone = 1 } })[1]
      assert.same({ stateDelta = { x = 1, y = 2, z = moonpad.null, gone = moonpad.removed },
        artifactDelta = { file = 3 } }, event.actions)
    end)

    it("says so when a method is called with a dot", function()
      local runner = runnerOf { beforeAgentCallback = function(context) context.escalate() end }
      local err = failure(support.run, runner, "Hi")
      assert.equal("invalid_argument", err.code)
      assert.matches("colon", tostring(err))
    end)

    it("cannot be written any more when its phase is over", function()
      local kept
      local runner = runnerOf { beforeAgentCallback = function(context) kept = context.state end }
      support.run(runner, "Hi")
      local err = failure(function() kept.late = true end)
      assert.equal("invalid_argument", err.code)
      assert.matches("over", tostring(err))
    end)

    it("refuses services that the runner does not have", function()
      local runner = runnerOf { beforeAgentCallback = function(context)
        assert.equal("unsupported", failure(context.saveArtifact, context, "a", {}).code)
        assert.equal("unsupported", failure(context.searchMemory, context, "a").code)
        assert.equal("unsupported", failure(context.emit, context, {}).code)
        assert.equal("invalid_argument", failure(context.transferToAgent, context, "B").code)
        assert.equal("unsupported", failure(context.runAgent, context, "B").code)
      end }
      assert.equal(1, #support.run(runner, "Hi"))
    end)
  end)

  describe("an instruction", function()
    it("may be a function: verbatim, with a read-only context, and free to inject", function()
      local seen
      local runner = runnerOf {
        beforeAgentCallback = function(context) context.state.name = "Ann" end,
        instruction = function(context)
          assert.is_false(pcall(function() context.state.x = 1 end))
          return "{name} is " .. moonpad.injectSessionState("{name}", context)
        end,
        model = function(request) seen = request.systemInstruction return "ok" end,
      }
      support.run(runner, "Hi")
      assert.equal("{name} is Ann", seen)
    end)

    it("follows the global one", function()
      local seen
      local runner = runnerOf {
        globalInstruction = "Be brief, {user:name}.", instruction = "Greet.",
        model = function(request) seen = request.systemInstruction return "ok" end,
      }
      support.run(runner, { userId = "u", newMessage = "Hi", stateDelta = { ["user:name"] = "Ann" } })
      assert.equal("Be brief, Ann.\n\nGreet.", seen)
    end)

    it("that names a missing key ends the run, naming key and agent", function()
      local err = failure(support.run, (runnerOf { instruction = "Hello {nobody}" }), "Hi")
      assert.equal("template", err.code)
      assert.matches("nobody", tostring(err))
      assert.matches("Greeter", tostring(err))
    end)
  end)

  describe("contents of a request", function()
    local function contentsOf(fields, prepare)
      local seen
      fields.model = function(request) seen = request.contents return "ok" end
      local runner, service = runnerOf(fields)
      local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
      prepare(function(event) return service:appendEvent(session, event) end, service, session)
      support.run(runner, "Now")
      return seen
    end

    local function call(id) return { functionCall = { id = id, name = "look", args = { n = id } } } end
    local function response(id, value)
      return { functionResponse = { id = id, name = "look", response = { value = value } } }
    end

    it("skip events that only change state, and thoughts", function()
      local contents = contentsOf({}, function(append)
        append { author = "user", content = text "Hi" }
        append { author = "Greeter", actions = { stateDelta = { x = 1 } } }
        append { author = "Greeter", content = { role = "model", parts = { { text = "hm", thought = true } } } }
        append { author = "Greeter", content = { role = "model", parts = { { text = "" } } } }
      end)
      assert.same({ text "Hi", text "Now" }, contents)
    end)

    it("answer calls that were left open, and keep the answers next to their calls", function()
      local contents = contentsOf({}, function(append)
        append { author = "Greeter", content = { role = "model", parts = { call "1", call "2" } } }
        append { author = "user", content = text "Wait" }
        append { author = "Greeter", content = { role = "user", parts = { response("2", "two") } } }
      end)
      assert.same({
        { role = "model", parts = { call "1", call "2" } },
        { role = "user", parts = {
          { functionResponse = { id = "1", name = "look", response = { error = "cancelled" } } }, response("2", "two"),
        } },
        text "Wait", text "Now",
      }, contents)
    end)

    it("know calls that share an id by their order, and drop answers without a call", function()
      local contents = contentsOf({}, function(append)
        append { author = "Greeter", content = { role = "user", parts = { response("9", "lost") } } }
        append { author = "Greeter", content = { role = "model", parts = { call "1" } } }
        append { author = "Greeter", content = { role = "user", parts = { response("1", "first") } } }
        append { author = "Greeter", content = { role = "model", parts = { call "1", call "1" } } }
        append { author = "Greeter", content = {
          role = "user", parts = { response("1", "2nd"), response("1", "3rd") },
        } }
      end)
      assert.same({
        { role = "model", parts = { call "1" } }, { role = "user", parts = { response("1", "first") } },
        { role = "model", parts = { call "1", call "1" } },
        { role = "user", parts = { response("1", "2nd"), response("1", "3rd") } },
        text "Now",
      }, contents)
    end)

    it("leave out what was rewound", function()
      local contents = contentsOf({}, function(append, service, session)
        append { author = "user", invocationId = "one", content = text "First" }
        append { author = "user", invocationId = "two", content = text "Second" }
        append { author = "user", invocationId = "three", content = text "Third" }
        service:rewind(session, { invocationId = "two" })
      end)
      assert.same({ text "First", text "Now" }, contents)
    end)

    it("tell what other agents did as context", function()
      local contents = contentsOf({}, function(append)
        append { author = "Other", content = { role = "model", parts = { { text = "I looked." }, call "1" } } }
      end)
      assert.equal("user", contents[1].role)
      assert.same({
        { text = "For context:" }, { text = "[Other] said: I looked." },
        { text = '[Other] called tool `look` with parameters: {"n":"1"}' },
      }, contents[1].parts)
    end)

    it("begin at the current turn with includeContents = none", function()
      local contents = contentsOf({ includeContents = "none" }, function(append)
        append { author = "user", content = text "Before" }
        append { author = "Greeter", content = { role = "model", parts = { { text = "Hello" } } } }
      end)
      assert.same({ text "Now" }, contents)
    end)
  end)
end)
