local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

local function echo(request)
  local contents = request.contents
  return "echo " .. contents[#contents].parts[1].text
end

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function runnerOf(fields)
    local definition = { name = "A", model = echo }
    for name, value in pairs(fields or {}) do definition[name] = value end
    return moonpad.runner { appName = "app", agent = moonpad.agent(definition), sessionService = service }
  end

  local function options(message, session)
    return { userId = "u", sessionId = session or "s", newMessage = message }
  end

  -- An agent whose tool waits as long as `gate.closed`.
  local function waiting(gate)
    return runnerOf {
      model = function(request)
        local last = request.contents[#request.contents]
        return last.parts[1].functionResponse and "done" or support.calls { "wait" }
      end,
      tools = { { name = "wait", run = function(_, context)
        context.state.waiting = true
        gate.isReached = true
        while gate.closed do
          local ok, err = pcall(coroutine.yield)
          if not ok then
            gate.err = err
            error(err, 0)
          end
        end
        return {}
      end } },
    }
  end

  local function stepTo(invocation, gate)
    support.stepUntil(invocation, function() return gate.isReached end)
  end

  local function textsOf()
    local texts = {}
    for _, event in ipairs(support.stored(service).events) do
      local text = event:text()
      if text ~= "" then texts[#texts + 1] = text end
    end
    return texts
  end

  describe("the definition of a runner", function()
    it("refuses unknown fields, wrong kinds and what is not there yet", function()
      local agent = moonpad.agent { name = "A", model = echo }
      local function define(fields)
        local definition = { appName = "app", agent = agent, sessionService = service }
        for name, value in pairs(fields) do definition[name] = value end
        return failure(moonpad.runner, definition)
      end
      assert.matches("did you mean sessionService", tostring(define { sesionService = 1 }))
      assert.matches("runner.appName", tostring(define { appName = 1 }))
      assert.matches("runner.agent", tostring(define { agent = {} }))
      assert.matches("runner.sessionService", tostring(define { sessionService = {} }))
      assert.matches("runner.maxLlmCalls", tostring(define { maxLlmCalls = -1 }))
      assert.matches("runner.templateSyntax", tostring(define { templateSyntax = "x" }))
      assert.matches("runner.artifactService", tostring(define { artifactService = {} }))
      assert.matches("runner.memoryService", tostring(define { memoryService = "memory:" }))
    end)
  end)

  describe("run", function()
    it("checks its options at the call", function()
      local runner = runnerOf()
      local err = failure(runner.run, runner, { userId = "u", sesionId = "s" })
      assert.equal("invalid_argument", err.code)
      assert.matches("did you mean sessionId", tostring(err))
      assert.matches("userId", tostring(failure(runner.run, runner, {})))
      assert.matches("newMessage", tostring(failure(runner.run, runner, { userId = "u", newMessage = 1 })))
      assert.matches("newMessage", tostring(failure(runner.run, runner, { userId = "u", newMessage = { parts = {} } })))
      assert.matches("colon", tostring(failure(runner.run, { userId = "u" })))
      assert.matches("call functions", tostring(failure(runner.run, runner, {
        userId = "u", newMessage = { parts = { { functionCall = { name = "x" } } } },
      })))
    end)

    it("creates a missing session, and goes on with one that is there", function()
      local runner = runnerOf()
      support.run(runner, "one")
      support.run(runner, "two")
      assert.same({ "one", "echo one", "two", "echo two" }, textsOf())
      local session = support.stored(service)
      assert.equal(2, session.conversationCount)
      assert.equal(4, session.revision)
    end)

    it("gives a session an id when the caller has none", function()
      support.run(runnerOf(), { userId = "u", newMessage = "Hi" })
      local sessions = service:listSessions { appName = "app", userId = "u" }
      assert.equal(1, #sessions)
      assert.matches("^%x+%-", sessions[1].id)
    end)

    it("takes a Content as message", function()
      local events = support.run(runnerOf(), { parts = { { text = "Hi" } } })
      assert.equal("echo Hi", events[1]:text())
      assert.equal("user", support.stored(service).events[1].content.role)
    end)

    it("puts stateDelta on the user's event, or without a message on one of its own", function()
      local runner = runnerOf()
      local with = options "Hi"
      with.stateDelta = { x = 1, ["user:y"] = 2, ["temp:z"] = 3 }
      support.run(runner, with)
      local stored = support.stored(service)
      assert.same({ x = 1, ["user:y"] = 2 }, stored.events[1].actions.stateDelta)
      local seen
      local silent = runnerOf { model = function(_, context) seen = context.state.x return "ok" end }
      support.run(silent, { userId = "u", sessionId = "s", stateDelta = { x = moonpad.removed } })
      assert.is_nil(seen)
      stored = support.stored(service)
      assert.is_nil(stored.state.x)
      assert.is_nil(stored.events[3].content)
      assert.equal("user", stored.events[3].author)
    end)

    it("sees as much history as numRecentEvents says", function()
      local seen
      local runner = runnerOf { model = function(request) seen = #request.contents return "ok" end }
      for _ = 1, 3 do support.run(runner, "Hi") end
      assert.equal(5, seen)
      local short = options "Hi"
      short.numRecentEvents = 2
      support.run(runner, short)
      assert.equal(3, seen)
    end)

    it("stores an event before the caller sees it", function()
      local runner = runnerOf { afterAgentCallback = function() return "bye" end }
      local count = 1
      for event in runner:run(options "Hi") do
        count = count + 1
        local stored = support.stored(service).events
        assert.equal(count, #stored)
        assert.equal(event.id, stored[count].id)
      end
      assert.equal(3, count)
    end)

    it("shares temp: within the run, and only there", function()
      local seen = {}
      local runner = runnerOf {
        beforeAgentCallback = function(context)
          seen[#seen + 1] = tostring(context.state["temp:x"])
          context.state["temp:x"] = 1
        end,
        model = function(_, context) seen[#seen + 1] = tostring(context.state["temp:x"]) return "ok" end,
      }
      support.run(runner, "one")
      support.run(runner, "two")
      assert.same({ "nil", "1", "nil", "1" }, seen)
    end)

    it("that is left early is cancelled: what is stored stays, the rest does not happen", function()
      local after = false
      local runner = runnerOf { afterAgentCallback = function() after = true end }
      for event in runner:run(options "Hi") do
        assert.equal("echo Hi", event:text())
        if event then break end
      end
      assert.is_false(after)
      assert.same({ "Hi", "echo Hi" }, textsOf())
      support.run(runner, "Next")
      assert.same({ "Hi", "echo Hi", "Next", "echo Next" }, textsOf())
    end)

    it("is cancelled by an error in the loop's body", function()
      local runner = runnerOf()
      local err = failure(function()
        for _ in runner:run(options "Hi") do error("mine", 0) end
      end)
      assert.equal("mine", err)
      assert.equal("echo Next", support.run(runner, "Next")[1]:text())
    end)

    it("is released when the coroutine that loops is dropped", function()
      local runner = runnerOf { afterAgentCallback = function() return "never" end }
      local loop = coroutine.wrap(function()
        for event in runner:run(options "Hi") do coroutine.yield(event) end
      end)
      assert.equal("echo Hi", loop():text())
      loop = nil
      collectgarbage()
      assert.equal("echo Next", support.run(runnerOf(), "Next")[1]:text())
      assert.same({ "Hi", "echo Hi", "Next", "echo Next" }, textsOf())
      assert.is_nil(loop)
    end)

    it("resumes a tool that waits, without anybody's help", function()
      local gate, count = { closed = true }, 0
      local runner = runnerOf {
        model = moonpad.models.scripted { support.calls { "wait" }, "done" },
        tools = { { name = "wait", run = function()
          repeat
            count = count + 1
            coroutine.yield()
          until count == 3
          return { count = count }
        end } },
      }
      assert.equal("done", support.run(runner, "Hi")[3]:text())
      assert.equal(3, count)
      assert.is_true(gate.closed)
    end)
  end)

  describe("start", function()
    it("gives an invocation that goes on step by step, and never blocks", function()
      local gate = { closed = true }
      local invocation <close> = waiting(gate):start(options "Hi")
      assert.equal("wait", support.step(invocation):functionCalls()[1].name)
      stepTo(invocation, gate)
      assert.equal("waiting", invocation:step())
      gate.closed = false
      assert.equal("wait", support.step(invocation):functionResponses()[1].name)
      assert.equal("done", support.step(invocation):text())
      assert.is_nil(support.step(invocation))
      assert.is_nil(invocation:step())
      assert.is_true(support.stored(service).state.waiting)
    end)

    it("can be waited for, with or without a limit", function()
      local gate = { closed = true }
      local invocation <close> = waiting(gate):start(options "Hi")
      assert.equal("wait", invocation:wait():functionCalls()[1].name)
      assert.equal("waiting", invocation:wait(0.01))
      gate.closed = false
      assert.equal("wait", invocation:wait(support.TIMEOUT_SECONDS):functionResponses()[1].name)
      assert.equal("done", invocation:wait():text())
      assert.is_nil(invocation:wait())
    end)

    it("can be cancelled: a tool that waits gets the error, and nothing more comes", function()
      local gate = { closed = true }
      local invocation = waiting(gate):start(options "Hi")
      support.step(invocation)
      stepTo(invocation, gate)
      invocation:cancel()
      assert.equal("cancelled", gate.err.code)
      assert.is_nil(invocation:step())
      assert.is_nil(invocation:wait())
      invocation:cancel()
      assert.is_nil(support.stored(service).state.waiting)
      assert.equal("echo Next", support.run(runnerOf(), "Next")[1]:text())
    end)

    it("can be cancelled while a model waits", function()
      local gate, got = {}, nil
      local invocation = runnerOf {
        model = function()
          gate.isReached = true
          local _, err = pcall(coroutine.yield)
          got = err
          return "too late"
        end,
        onModelErrorCallback = function() return "not asked" end,
      }:start(options "Hi")
      stepTo(invocation, gate)
      invocation:cancel()
      assert.equal("cancelled", got.code)
      assert.is_nil(invocation:step())
      assert.same({ "Hi" }, textsOf())
    end)

    it("can be cancelled before it begins, and from within", function()
      local invocation = runnerOf():start(options "Hi")
      invocation:cancel()
      assert.is_nil(invocation:step())
      assert.is_nil(support.stored(service))
      local own
      own = runnerOf {
        model = function() own:cancel() return "too late" end,
      }:start(options "Hi")
      assert.is_nil(support.step(own))
      assert.same({ "Hi" }, textsOf())
    end)

    it("that is dropped while a tool waits is released, and the tool's variables are closed", function()
      local gate, closed = {}, false
      local invocation = runnerOf {
        model = moonpad.models.scripted { support.calls { "wait" } },
        tools = { { name = "wait", run = function()
          local guard <close> = setmetatable({}, { __close = function() closed = true end })
          gate.isReached = true
          coroutine.yield(guard)
        end } },
      }:start(options "Hi")
      support.step(invocation)
      stepTo(invocation, gate)
      invocation = nil
      collectgarbage()
      collectgarbage()
      assert.is_true(closed)
      assert.is_nil(invocation)
      assert.equal("echo Next", support.run(runnerOf(), "Next")[1]:text())
    end)

    it("raises the error of the run once", function()
      local invocation = runnerOf { beforeAgentCallback = function() error("mine", 0) end }:start(options "Hi")
      assert.equal("mine", failure(support.step, invocation))
      assert.is_nil(invocation:step())
      assert.matches("mine", invocation.traceback)
    end)

    it("must be stepped with a colon", function()
      local invocation <close> = runnerOf():start(options "Hi")
      assert.matches("colon", tostring(failure(invocation.step)))
    end)
  end)

  describe("runs on one session", function()
    it("are queued in the order in which they were started", function()
      local runner = runnerOf()
      local first <close> = runner:start(options "1")
      local second <close> = runner:start(options " 2")
      assert.equal("waiting", second:step())
      assert.equal("echo 1", support.step(first):text())
      assert.equal("waiting", second:step())
      assert.is_nil(support.step(first))
      assert.equal("echo  2", support.step(second):text())
      assert.same({ "1", "echo 1", " 2", "echo  2" }, textsOf())
    end)

    it("are one line, however the id is padded; other sessions do not wait", function()
      local runner = runnerOf()
      local first <close> = runner:start(options "1")
      local padded <close> = runner:start(options("2", " s\t"))
      local other <close> = runner:start(options("3", "other"))
      assert.equal("waiting", padded:step())
      assert.equal("echo 3", support.step(other):text())
      assert.equal("waiting", padded:step())
      assert.equal("echo 1", support.step(first):text())
    end)

    it("are stepped by a blocking run behind them, and lose no event", function()
      local runner = runnerOf()
      local first <close> = runner:start(options "1")
      assert.equal("echo 2", support.run(runner, "2")[1]:text())
      assert.equal("echo 1", first:step():text())
      assert.is_nil(first:step())
      assert.same({ "1", "echo 1", "2", "echo 2" }, textsOf())
    end)

    it("that fail while somebody else steps them tell their owner", function()
      local first <close> = runnerOf { model = function() error("broken", 0) end }:start(options "1")
      support.run(runnerOf(), "2")
      assert.matches("broken", tostring(failure(first.step, first)))
    end)

    it("give busy when they could never come: in the loop of another", function()
      local runner = runnerOf()
      for _ in runner:run(options "1") do
        local err = failure(support.run, runner, "2")
        assert.equal("busy", err.code)
        assert.equal("echo 3", support.run(runner, options("3", "other"))[1]:text())
      end
      assert.equal("echo 4", support.run(runner, "4")[1]:text())
    end)

    it("give busy when they could never come: in a tool of another", function()
      local err
      local inner = runnerOf()
      local runner = runnerOf {
        model = moonpad.models.scripted { support.calls { "nest" }, "done" },
        tools = { { name = "nest", run = function()
          err = failure(support.run, inner, "2")
          return { other = support.run(inner, options("3", "other"))[1]:text() }
        end } },
      }
      local events = support.run(runner, "1")
      assert.equal("busy", err.code)
      assert.same({ other = "echo 3" }, events[2]:functionResponses()[1].response)
    end)

    it("step a loop that is suspended elsewhere", function()
      local runner = runnerOf { afterAgentCallback = function() return "bye" end }
      local loop = coroutine.wrap(function()
        for event in runner:run(options "1") do coroutine.yield(event:text()) end
        return "over"
      end)
      assert.equal("echo 1", loop())
      assert.equal("echo 2", support.run(runner, "2")[1]:text())
      assert.equal("bye", loop())
      assert.equal("over", loop())
      assert.same({ "1", "echo 1", "bye", "2", "echo 2", "bye" }, textsOf())
    end)

    it("a run inside a tool is cancelled with the run outside", function()
      local gate = { closed = true }
      local inner = waiting(gate)
      local outer = runnerOf {
        model = moonpad.models.scripted { support.calls { "nest" }, "done" },
        tools = { { name = "nest", run = function() return support.run(inner, options("in", "inner")) end } },
      }:start(options "out")
      support.step(outer)
      stepTo(outer, gate)
      outer:cancel()
      assert.equal("cancelled", gate.err.code)
      assert.equal("echo free", support.run(runnerOf(), options("free", "inner"))[1]:text())
    end)

    it("a run inside a tool waits without blocking whoever steps the outer one", function()
      local gate = { closed = true }
      local inner = waiting(gate)
      local outer <close> = runnerOf {
        model = moonpad.models.scripted { support.calls { "nest" }, "done" },
        tools = { { name = "nest", run = function()
          local events = support.run(inner, options("in", "inner"))
          return { text = events[#events]:text() }
        end } },
      }:start(options "out")
      support.step(outer)
      stepTo(outer, gate)
      gate.closed = false
      assert.same({ text = "done" }, outer:wait():functionResponses()[1].response)
    end)
  end)

  it("a conflict with another writer reaches the caller, and nothing half-done stays", function()
    local runner = runnerOf { beforeAgentCallback = function(context)
      context.state.x = (context.state.x or 0) + 1
      local other = service:getSession { appName = "app", userId = "u", sessionId = "s" }
      service:appendEvent(other, { author = "system", actions = { stateDelta = { x = 100 } } })
    end }
    local err = failure(support.run, runner, "Hi")
    assert.equal("conflict", err.code)
    assert.same({ "x" }, err.keys)
    assert.equal(100, support.stored(service).state.x)
    assert.equal(2, #support.stored(service).events)
  end)
end)
