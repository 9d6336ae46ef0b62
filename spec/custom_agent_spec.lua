-- Agents that are a function of the user's.
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function run(root, options)
    options = options or {}
    options.userId, options.sessionId, options.newMessage = "u", "s", options.newMessage or "go"
    return support.run(moonpad.runner { appName = "app", agent = root, sessionService = service }, options)
  end

  local function custom(body, fields)
    local definition = { name = "C", run = body }
    for name, value in pairs(fields or {}) do definition[name] = value end
    return moonpad.customAgent(definition)
  end

  local function agent(name, fields)
    local definition = { name = name, model = function() return name .. " speaks" end }
    for field, value in pairs(fields or {}) do definition[field] = value end
    return moonpad.agent(definition)
  end

  describe("customAgent", function()
    it("needs a function", function()
      assert.matches('agent "C".run: expected a function, got nil', failure(custom).message)
      assert.matches("did you mean run", failure(moonpad.customAgent, { name = "C", runs = print }).message)
    end)

    it("emits events under its name; each carries what was written before it", function()
      local stored
      local events = run(custom(function(context)
        context.state.a = 1
        stored = context:emit { content = { parts = { { text = "one" } } }, customMetadata = { mood = "fine" } }
        context.state.b = 2
        context:emit { actions = { stateDelta = { c = 3 } } }
      end))
      assert.equal(2, #events)
      assert.equal("C", events[1].author)
      assert.equal("model", events[1].content.role)
      assert.same({ mood = "fine" }, events[1].customMetadata)
      assert.same({ a = 1 }, events[1].actions.stateDelta)
      assert.same({ b = 2, c = 3 }, events[2].actions.stateDelta)
      assert.equal(events[1].id, stored.id)
      assert.equal(2, stored.revision)
      assert.equal(events[1].invocationId, events[2].invocationId)
    end)

    it("sends what was written after the last one as one event", function()
      local events = run(custom(function(context)
        context:emit "one"
        context.state.after = true
        context:escalate()
      end))
      assert.equal(2, #events)
      assert.same({ after = true }, events[2].actions.stateDelta)
      assert.is_true(events[2].actions.escalate)
      assert.is_nil(events[2].content)
    end)

    it("sends nothing when it has done nothing", function()
      assert.equal(0, #run(custom(function() end)))
    end)

    it("emits what is null as absent, and refuses a partial that is neither true nor false", function()
      local err
      local events = run(custom(function(context)
        context.state.a = 1
        context:emit { content = { parts = { { text = "x", functionCall = moonpad.null } } }, partial = moonpad.null,
          actions = moonpad.null }
        context:emit { content = moonpad.null, author = moonpad.null, actions = { stateDelta = { b = 1 } } }
        err = failure(context.emit, context, { content = "y", partial = "yes" })
      end))
      assert.same({ 2, "x", 0, { a = 1 } },
        { #events, events[1]:text(), #events[1]:functionCalls(), events[1].actions.stateDelta })
      assert.same({ { b = 1 }, "C" }, { events[2].actions.stateDelta, events[2].author })
      assert.same({ "invalid_argument", "context:emit.partial: expected a boolean, got string" },
        { err.code, err.message })
    end)

    it("emits partial events without storing them, and what is pending stays pending", function()
      local events = run(custom(function(context)
        context.state.a = 1
        context:emit { partial = true, content = "o" }
        context:emit { content = "one" }
      end))
      assert.is_true(events[1].partial)
      assert.same({}, events[1].actions.stateDelta)
      assert.same({ a = 1 }, events[2].actions.stateDelta)
      assert.equal(2, #support.stored(service).events)
    end)

    it("sees what it has written, and what the message was", function()
      local seen
      run(custom(function(context)
        context.state["temp:n"] = 1
        context:emit "x"
        local message = context.userContent.parts[1].text
        seen = { context.state["temp:n"], message, context.agentName, #context.session.events }
      end))
      assert.same({ 1, "go", "C", 2 }, seen)
    end)

    it("has its callbacks around it", function()
      local order = {}
      local function note(name) return function() order[#order + 1] = name end end
      run(custom(note "run", { beforeAgentCallback = note "before", afterAgentCallback = note "after" }))
      assert.same({ "before", "run", "after" }, order)
      assert.equal("no", run(custom(function() error "never" end, {
        beforeAgentCallback = function() return "no" end,
      }))[1]:text())
    end)

    it("loses what is pending when it fails, and keeps what it has emitted", function()
      local err = failure(run, custom(function(context)
        context.state.a = 1
        context:emit "x"
        context.state.b = 2
        error "broken"
      end))
      assert.matches("broken", err)
      assert.same({ a = 1 }, support.stored(service).state:getAll())
    end)

    it("refuses events that are none", function()
      local errors = {}
      run(custom(function(context)
        for _, event in ipairs { 1, { stateDelta = { a = 1 } }, { invocation_id = "x" }, { content = 5 } } do
          errors[#errors + 1] = failure(context.emit, context, event)
        end
        errors[#errors + 1] = failure(context.emit, { content = "dot" })
      end))
      assert.equal(5, #errors)
      for _, err in ipairs(errors) do assert.equal("invalid_argument", err.code) end
      assert.matches("stateDelta", errors[2].message)
      assert.matches("invocation_id", errors[3].message)
      assert.matches("with a colon", errors[5].message)
    end)

    it("refuses to emit from a coroutine of its own making", function()
      local err
      run(custom(function(context)
        coroutine.wrap(function()
          err = failure(context.emit, context, "x")
          assert.equal("invalid_argument", failure(context.runAgent, context, "A").code)
        end)()
        context:emit "y"
      end, { subAgents = { agent "A" } }))
      assert.equal("invalid_argument", err.code)
      assert.matches("not from a coroutine of your own", err.message)
      assert.equal(2, #support.stored(service).events)
    end)

    it("may wait, also with await", function()
      local done = false
      local events = run(custom(function(context)
        local count = 0
        local job = { poll = function() count = count + 1 return count == 3, "result" end }
        done = context:await(job)
        coroutine.yield()
        context:emit "x"
      end))
      assert.equal("result", done)
      assert.equal(1, #events)
    end)

    it("can hand the conversation over", function()
      local events = run(custom(function(context) context:transferToAgent "A" end, { subAgents = { agent "A" } }))
      assert.equal("A", events[1].actions.transferToAgent)
      assert.equal("A speaks", events[2]:text())
      events = run(custom(function(context)
        context:transferToAgent "A"
        context:emit "bye"
        context.state.n = 1
      end, { subAgents = { agent "A" } }))
      assert.same({ "bye", "", "A speaks" }, { events[1]:text(), events[2]:text(), events[3]:text() })
    end)
  end)

  describe("runAgent", function()
    it("runs another agent of the tree, and returns its final event", function()
      local answers = {}
      local one = agent("One")
      local events = run(custom(function(context)
        answers[1] = context:runAgent(one):text()
        answers[2] = context:runAgent("Two"):text()
        answers[3] = context:runAgent "Silent"
      end, { subAgents = { one, moonpad.sequentialAgent { name = "S", subAgents = { agent "Two" } },
        moonpad.customAgent { name = "Silent", run = function() end } } }))
      assert.same({ "One speaks", "Two speaks" }, answers)
      assert.equal(2, #events)
    end)

    it("first stores what is pending, so that the other sees it", function()
      local seen
      local events = run(custom(function(context)
        context.state.topic, context.state["temp:x"] = "sea", 1
        context:runAgent "A"
        seen = { context.state.answer, context.state["temp:y"] }
        context.state.done = true
      end, { subAgents = { agent("A", {
        instruction = "About <topic> <temp:x>.", outputKey = "answer",
        model = function(request, context)
          context.state["temp:y"] = 2
          return request.systemInstruction
        end,
      }) } }))
      assert.same({ "About sea 1.", 2 }, seen)
      assert.same({ topic = "sea" }, events[1].actions.stateDelta)
      assert.same({ done = true }, events[3].actions.stateDelta)
      assert.equal(3, #events)
    end)

    it("never conflicts with the one that it runs", function()
      run(custom(function(context)
        local n = context.state.n
        context:runAgent "A"
        context.state.n = n + 10
      end, { subAgents = { agent("A", { beforeAgentCallback = function(context)
        context.state.n = context.state.n + 1
      end }) } }), { stateDelta = { n = 1 } })
      assert.equal(11, support.stored(service).state.n)
    end)

    it("knows only agents of the tree, and none that is under way", function()
      local errors = {}
      local stranger = agent "Stranger"
      run(custom(function(context)
        for _, which in ipairs { "Nobody", stranger, "C", 1 } do
          errors[#errors + 1] = failure(context.runAgent, context, which)
        end
      end))
      for _, err in ipairs(errors) do assert.equal("invalid_argument", err.code) end
      assert.matches('put it into subAgents of "C"', errors[2].message)
      assert.matches('"C" is being run right now', errors[3].message)
      assert.matches("expected an agent or the name of one", errors[4].message)
    end)

    it("passes errors on; one that is caught leaves no trace", function()
      local bad = agent("A", { model = function(_, context) context.state.lost = 1 error "broken" end })
      run(custom(function(context)
        local err = failure(context.runAgent, context, "A")
        assert.equal("model", err.code)
        context:emit "on"
      end, { subAgents = { bad } }))
      assert.is_nil(support.stored(service).state.lost)
      assert.equal("model", failure(run, custom(function(context) context:runAgent "B" end, {
        subAgents = { agent("B", { model = function() error "broken" end }) },
      })).code)
    end)

    it("within an agent that is run tells both of the answer", function()
      local answers = {}
      local inner = moonpad.customAgent { name = "Inner", subAgents = { agent "A" }, run = function(context)
        answers[1] = context:runAgent("A"):text()
      end }
      run(custom(function(context) answers[2] = context:runAgent(inner):text() end, { subAgents = { inner } }))
      assert.same({ "A speaks", "A speaks" }, answers)
    end)

    it("cannot go on after the run was cancelled", function()
      local waits = false
      local runner = moonpad.runner { appName = "app", sessionService = service, agent = custom(function(context)
        pcall(context.runAgent, context, "A")
        context:emit "must not be stored"
      end, { subAgents = { agent("A", { model = function()
        waits = true
        coroutine.yield()
        return "x"
      end }) } }) }
      local invocation = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
      support.stepUntil(invocation, function() return waits end)
      invocation:cancel()
      assert.equal(1, #support.stored(service).events)
    end)
  end)
end)
