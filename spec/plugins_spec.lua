-- Plugins and callbacks: their order, whose answer counts, and what travels on which event.
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

local AROUND = {
  "beforeAgentCallback", "beforeModelCallback", "afterModelCallback", "beforeToolCallback", "afterToolCallback",
  "afterAgentCallback",
}

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function run(fields, plugins, message)
    local definition = { name = "A", model = function() return "hello" end }
    for name, value in pairs(fields) do definition[name] = value end
    return support.run(moonpad.runner {
      appName = "app", agent = moonpad.agent(definition), sessionService = service, plugins = plugins,
    }, message or "go")
  end

  local function withTool(fields, toolRun)
    fields.tools = { { name = "t", run = toolRun or function() return { ok = 1 } end } }
    fields.model = moonpad.models.scripted { support.calls { "t", { a = 1 }, "c1" }, "done" }
    return fields
  end

  describe("the order", function()
    it("is: plugins as they are registered, then the agent's own as they are listed", function()
      local order = {}
      local function noter(who, hook) return function() order[#order + 1] = who .. hook end end
      local first, second, fields = {}, {}, {}
      for _, hook in ipairs { "onUserMessage", "beforeRun", "onEvent", "afterRun" } do
        first[hook], second[hook] = noter("1", hook), noter("2", hook)
      end
      for _, hook in ipairs(AROUND) do
        first[hook], second[hook] = noter("1", hook), noter("2", hook)
        fields[hook] = { noter("a", hook), noter("b", hook) }
      end
      run(withTool(fields), { first, second })
      local expected = {}
      local function add(hook, ofAgent)
        for _, who in ipairs(ofAgent and { "1", "2", "a", "b" } or { "1", "2" }) do
          expected[#expected + 1] = who .. hook
        end
      end
      add "onUserMessage"
      add "beforeRun"
      add("beforeAgentCallback", true)
      add("beforeModelCallback", true)
      add("afterModelCallback", true)
      add "onEvent"
      add("beforeToolCallback", true)
      add("afterToolCallback", true)
      add "onEvent"
      add("beforeModelCallback", true)
      add("afterModelCallback", true)
      add "onEvent"
      add("afterAgentCallback", true)
      add "afterRun"
      assert.same(expected, order)
    end)

    it("ends with the first answer, be it an empty table; false is none, as nil is", function()
      local called = {}
      local function noter(name, answer) return function() called[#called + 1] = name return answer end end
      local events = run(withTool { beforeToolCallback = { noter "a", noter("b", {}), noter("c", { no = 1 }) } })
      assert.same({ "a", "b" }, called)
      assert.same({}, events[2]:functionResponses()[1].response)
      called = {}
      events = run(withTool { beforeToolCallback = noter("agent", { agent = 1 }) }, {
        { beforeToolCallback = noter("one", false) }, { beforeToolCallback = noter "two" },
      })
      assert.same({ "one", "two", "agent" }, called)
      assert.same({ agent = 1 }, events[2]:functionResponses()[1].response)
    end)
  end)

  describe("an answer", function()
    it("of a plugin comes before that of the agent, at every hook", function()
      local function answering(value) return function() return value end end
      assert.equal("plugin", run({ beforeAgentCallback = answering "agent" },
        { { beforeAgentCallback = answering "plugin" } })[1]:text())
      assert.equal("plugin", run({ beforeModelCallback = answering "agent" },
        { { beforeModelCallback = answering "plugin" } })[1]:text())
      assert.equal("plugin", run({ afterModelCallback = answering "agent" },
        { { afterModelCallback = answering "plugin" } })[1]:text())
      assert.equal("plugin", run({ afterAgentCallback = answering "agent" },
        { { afterAgentCallback = answering "plugin" } })[2]:text())
      assert.equal("plugin", run({ model = function() error "x" end, onModelErrorCallback = answering "agent" },
        { { onModelErrorCallback = answering "plugin" } })[1]:text())
      assert.same({ by = "plugin" }, run(withTool { afterToolCallback = answering { by = "agent" } },
        { { afterToolCallback = answering { by = "plugin" } } })[2]:functionResponses()[1].response)
      assert.same({ by = "plugin" }, run(withTool({ onToolErrorCallback = answering { by = "agent" } },
        function() error "x" end), { { onToolErrorCallback = answering { by = "plugin" } } })[2]
        :functionResponses()[1].response)
    end)

    it("of beforeModel is not counted as a model call, and afterModel does not see it", function()
      local seen = 0
      run {
        beforeModelCallback = function() return "cached" end, afterModelCallback = function() seen = seen + 1 end,
        model = function() error "must not be called" end,
      }
      assert.equal(0, seen)
    end)

    it("of beforeTool, or of the error callback, goes through afterTool", function()
      local seen = {}
      local function after(_, _, _, result) seen[#seen + 1] = result.by end
      run(withTool { beforeToolCallback = function() return { by = "before" } end, afterToolCallback = after })
      run(withTool({ onToolErrorCallback = function() return { by = "error" } end, afterToolCallback = after },
        function() error "x" end))
      assert.same({ "before", "error" }, seen)
    end)

    it("of the error callback to an unknown tool is taken, without afterTool", function()
      local called = 0
      local events = run {
        model = moonpad.models.scripted { support.calls { "nothing", {} }, "done" },
        onToolErrorCallback = function(_, tool, _, err)
          assert.equal("nothing", tool.name)
          assert.matches("unknown tool", err.message)
          return { handled = true }
        end,
        afterToolCallback = function() called = called + 1 end,
      }
      assert.same({ handled = true }, events[2]:functionResponses()[1].response)
      assert.equal(0, called)
    end)

    it("of beforeRun ends the run, state and all, and afterRun still comes", function()
      local after = false
      local events = run({ model = function() error "no" end }, { {
        beforeRun = function(context) context.state.stopped = true return "closed today" end,
        afterRun = function() after = true end,
      } })
      assert.equal(1, #events)
      assert.equal("closed today", events[1]:text())
      assert.same({ stopped = true }, events[1].actions.stateDelta)
      assert.is_true(after)
    end)

    it("of onEvent is what is stored and shown; who the event is stays", function()
      local events = run({ outputKey = "out" }, { { onEvent = function(_, event)
        return { id = "mine", invocationId = "mine", timestamp = 1, customMetadata = { seen = event:text() },
          content = { role = "model", parts = { { text = "changed" } } } }
      end } })
      assert.equal("changed", events[1]:text())
      assert.same({ seen = "hello" }, events[1].customMetadata)
      assert.not_equal("mine", events[1].id)
      assert.not_equal("mine", events[1].invocationId)
      local stored = support.stored(service)
      assert.equal("changed", stored.events[2]:text())
      assert.equal("changed", stored.state.out)
    end)
  end)

  describe("the content that onEvent answers", function()
    local function with(content)
      return run({ outputKey = "out" }, { { onEvent = function() return { content = content } end } })
    end

    it("may be a text, and is taken as an answer of a model is", function()
      assert.same({ "changed", "model" }, { with("changed")[1]:text(), support.stored(service).events[2].content.role })
      local events = with { parts = { { text = "again", thought = moonpad.null, functionCall = moonpad.null } } }
      assert.same({ "again", true }, { events[1]:text(), events[1]:isFinalResponse() })
      assert.equal("again", support.stored(service).state.out)
    end)

    it("is refused where it cannot be one", function()
      for message, content in pairs {
        ["parts[1].text: expected a string, got number"] = { parts = { { text = 5 } } },
        ["parts[1].functionCall.id: expected a string, got number"] = {
          parts = { { functionCall = { id = 5, name = "t" } } },
        },
        ["expected a string, a part, a list of parts or a Content"] = 5,
      } do
        local err = failure(with, content)
        assert.equal("invalid_argument", err.code)
        assert.matches("onEvent: content", err.message)
        assert.matches(message, err.message, 1, true)
      end
    end)
  end)

  describe("state", function()
    it("is on one event only, however many responses a model gives", function()
      local events = run { model = function(_, context)
        local count = 0
        return function()
          count = count + 1
          if count == 1 then context.state.first = true end
          if count == 2 then context.state.second = true end
          if count <= 3 then return { content = { parts = { { text = "part " .. count } } } } end
        end
      end }
      assert.equal(3, #events)
      assert.same({ first = true }, events[1].actions.stateDelta)
      assert.same({ second = true }, events[2].actions.stateDelta)
      assert.same({}, events[3].actions.stateDelta)
    end)

    it("of all callbacks of one phase is on one event", function()
      local events = run({ afterAgentCallback = {
        function(context) context.state.b = 1 end, function(context) context.state.c = 1 end,
      } }, { { afterAgentCallback = function(context) context.state.a = 1 end } })
      assert.equal(2, #events)
      assert.same({ a = 1, b = 1, c = 1 }, events[2].actions.stateDelta)
    end)

    it("of callbacks around an empty answer is not lost", function()
      local events = run {
        model = function() return { content = { parts = {} } } end,
        beforeModelCallback = function(context) context.state.before = 1 end,
        afterModelCallback = function(context) context.state.after = 1 end,
      }
      assert.equal(1, #events)
      assert.same({ before = 1, after = 1 }, events[1].actions.stateDelta)
    end)

    it("written by onUserMessage is on the user's event, by the other hooks of a run on events of their own", function()
      local events = run({}, { {
        onUserMessage = function(context) context.state.a = 1 end,
        beforeRun = function(context) context.state.b = 1 end,
        afterRun = function(context) context.state.c = 1 end,
      } })
      assert.same({ b = 1 }, events[1].actions.stateDelta)
      assert.same({ c = 1 }, events[3].actions.stateDelta)
      assert.same({ a = 1 }, support.stored(service).events[1].actions.stateDelta)
    end)

    it("is seen by onEvent as the event will carry it", function()
      local seen = {}
      run({
        outputKey = "out", beforeAgentCallback = function(context)
          context.state:update { list = { 1 }, ["temp:t"] = 1 }
          context.state:increment "n"
          context.state.gone = nil
        end,
      }, { { onEvent = function(_, event) seen[#seen + 1] = event.actions.stateDelta end } })
      assert.same({ { list = { 1 }, ["temp:t"] = 1, n = 1, gone = moonpad.removed }, { out = "hello" } }, seen)
    end)

    it("that onEvent answers is stored; what it leaves alone stays what it was, and nothing is lost", function()
      local events = run({
        beforeAgentCallback = function(context)
          context.state:increment("user:n", 2)
          context.state:update { secret = "1234", kept = { a = 1 } }
        end,
      }, { { onEvent = function(_, event)
        local delta = event.actions.stateDelta
        if not delta.secret then return end
        -- Somebody else counts in between: the increment must still be one.
        service:incrementState { appName = "app", userId = "u", key = "n", by = 5 }
        delta.secret, delta.kept, delta.more = "****", nil, true
        return event
      end } })
      assert.same({ ["user:n"] = 7, secret = "****", kept = { a = 1 }, more = true }, events[1].actions.stateDelta)
      local state = support.stored(service).state
      assert.same({ ["user:n"] = 7, secret = "****", kept = { a = 1 }, more = true }, state:getAll())
    end)

    it("of an event that is replaced follows the text that is stored", function()
      local events = run({ outputKey = "out" }, { { onEvent = function(_, event)
        event.content.parts[1].text = "changed"
        return event
      end } })
      assert.same({ out = "changed" }, events[1].actions.stateDelta)
      local fixed = run({
        outputKey = "out", outputSchema = { type = "integer" }, model = function() return "about 4" end,
      }, { { onEvent = function() return { content = { role = "model", parts = { { text = "4" } } } } end } })
      assert.same({ out = 4 }, fixed[1].actions.stateDelta)
    end)

    it("is not lost by an onEvent that makes a whole event partial, or a part whole: it is refused", function()
      local fields = { model = function()
        local chunks, index = { "he", "llo" }, 0
        return function()
          index = index + 1
          return chunks[index]
        end
      end, afterModelCallback = function(context) context.state.seen = true end }
      local err = failure(run, { outputKey = "out" }, { { onEvent = function() return { partial = true } end } })
      assert.equal("invalid_argument", err.code)
      assert.matches("onEvent: partial: ", err.message)
      assert.same({}, support.stored(service).state:getAll())
      err = failure(run, fields, { { onEvent = function() return { partial = false } end } })
      assert.matches("onEvent: partial: ", err.message)
      -- What it leaves as it is may be named.
      local events = run(fields, { { onEvent = function(_, event) return { partial = event.partial or false } end } })
      assert.same({ true, true, "hello" }, { events[1].partial, events[2].partial, events[3]:text() })
      assert.same({ seen = true }, support.stored(service).state:getAll())
    end)

    it("and actions of an event stay where onEvent answers nulls, which take other fields away", function()
      local events = run({ beforeAgentCallback = function(context)
        context.state.n = 1
        context:escalate()
        return "bye"
      end }, { { onEvent = function()
        return { actions = moonpad.null, partial = moonpad.null, author = moonpad.null, customMetadata = { a = 1 } }
      end } })
      assert.same({ "bye", "A", true, { n = 1 }, { a = 1 } }, {
        events[1]:text(), events[1].author, events[1].actions.escalate, events[1].actions.stateDelta,
        events[1].customMetadata,
      })
    end)

    it("but not its words, where onEvent takes them away", function()
      for _, nothing in ipairs { moonpad.null, {}, { role = "model" }, { parts = moonpad.null }, { parts = {} } } do
        local events = run({ outputKey = "said", model = function(_, context)
          context.state.n = 1
          return { content = { parts = { { text = "secret" } } }, customMetadata = { seen = "secret" } }
        end }, { { onEvent = function() return { content = nothing, customMetadata = moonpad.null } end } })
        assert.same({ "", {} }, { events[1]:text(), { events[1].customMetadata } })
        assert.same({ n = 1 }, support.stored(service).state:getAll())
        assert.is_nil(moonpad.json.encode(support.stored(service).events[2]):find "secret")
      end
    end)

    it("and an empty list of parts stays a list", function()
      local events = run({}, { { onEvent = function() return { content = { parts = moonpad.array {} } } end } })
      assert.matches('"parts":%[%]', moonpad.json.encode(events[1].content))
      assert.matches('"parts":%[%]', moonpad.json.encode(support.stored(service).events[2].content))
    end)

    it("cannot be written in onEvent", function()
      local err
      run({}, { { onEvent = function(context)
        err = failure(function() context.state.n = 1 end)
      end } })
      assert.equal("invalid_argument", err.code)
    end)
  end)

  it("callbacks that only escalate, transfer or touch an artifact have their event", function()
    local other = moonpad.agent { name = "B", model = function() return "B" end }
    local events = run { subAgents = { other }, afterAgentCallback = function(context)
      context:escalate()
      context.actions.artifactDelta = { ["plan.txt"] = 0 }
      context:transferToAgent "B"
    end }
    assert.equal(3, #events)
    assert.is_nil(events[2].content)
    assert.is_true(events[2].actions.escalate)
    assert.same({ ["plan.txt"] = 0 }, events[2].actions.artifactDelta)
    assert.equal("B", events[2].actions.transferToAgent)
    assert.is_false(events[2]:isFinalResponse())
    assert.equal("B", events[3]:text())
  end)

  it("a plugin that fails ends the run, and afterRun does not come", function()
    local after = false
    local err = failure(run, {}, { {
      beforeModelCallback = function() error({ message = "plugin broken" }) end, afterRun = function() after = true end,
    } })
    assert.equal("plugin broken", err.message)
    assert.is_false(after)
  end)

  it("a hook may be a list, the first answer of which counts, as an agent's may", function()
    local order, said = {}, {}
    local function noter(name, answer) return function() order[#order + 1] = name return answer end end
    local plugin = {
      onUserMessage = { noter "message", noter("replaced", "other"), noter "never" },
      beforeAgentCallback = { noter "first", noter "second" }, onEvent = {},
      afterRun = setmetatable({}, { __call = function() order[#order + 1] = "called" end }),
    }
    local child = moonpad.agent { name = "Child", model = function(request)
      said[#said + 1] = request.contents[1].parts[1].text
      return "x"
    end }
    run({
      model = moonpad.models.scripted { support.calls { "Child", { request = "inner" } }, "done" },
      tools = { moonpad.agentTool { agent = child } },
    }, { plugin })
    assert.same({
      "message", "replaced", "first", "second", "message", "replaced", "first", "second", "called", "called",
    }, order)
    assert.same({ "other" }, said)
  end)

  it("a hook that cannot be called is refused when the runner is made", function()
    for name, hook in pairs {
      onEvent = "text", beforeRun = { 5 }, onUserMessage = false, beforeToolCallback = { a = function() end },
    } do
      local err = failure(moonpad.runner, {
        appName = "app", sessionService = service, plugins = { { [name] = hook } },
        agent = moonpad.agent { name = "A", model = function() end },
      })
      assert.equal("invalid_argument", err.code)
      assert.matches("runner.plugins[1]." .. name, err.message, 1, true)
    end
  end)

  it("two plugins of one name are refused", function()
    local err = failure(run, {}, { { name = "log" }, { name = "other" }, { name = "log" } })
    assert.equal("invalid_argument", err.code)
    assert.matches('runner.plugins%[3%]: two plugins are called "log"', err.message)
  end)

  it("a callback may wait", function()
    local events = run { beforeModelCallback = function() coroutine.yield() return "late" end }
    assert.equal("late", events[1]:text())
  end)
end)
