-- Tools that run only once the user has approved the call.
local moonpad = require "moonpad"
local support = require "spec.support"

local checks = require "spec.support.checks"
local failure, raises = checks.failure, checks.raises

local REQUIRED = { error = "This tool call requires confirmation, please approve or reject." }
local REJECTED = { error = "This tool call is rejected." }

local function step(runner, message)
  local invocation = runner:start { userId = "u", sessionId = "s", newMessage = message }
  local events = {}
  for event in support.step, invocation do events[#events + 1] = event end
  return events
end

-- The function calls of these events that ask for a confirmation.
local function requestsIn(events)
  local requests = {}
  for _, event in ipairs(events) do
    for _, call in ipairs(event:functionCalls()) do
      if call.name == "adk_request_confirmation" then requests[#requests + 1] = call end
    end
  end
  return requests
end

local function answer(...)
  local parts = {}
  for index, given in ipairs { ... } do
    parts[index] = given.text and given or { functionResponse = { id = given[1], response = given[2] } }
  end
  return { role = "user", parts = parts }
end

local function yes(request, payload)
  return { request.id, { confirmed = true, payload = payload } }
end

local function no(request)
  return { request.id, { confirmed = false } }
end

support.any_store(function(open)
  local service, ran
  before_each(function() service, ran = open(), {} end)

  local function runnerOf(agent, more)
    local definition = { appName = "app", agent = agent, sessionService = service }
    for name, value in pairs(more or {}) do definition[name] = value end
    return moonpad.runner(definition)
  end

  -- A tool that notes what it was called with.
  local function pay(fields)
    local tool = {
      name = "pay", requireConfirmation = true,
      run = function(args, context)
        ran[#ran + 1] = { args = args, given = context.toolConfirmation, id = context.functionCallId }
        return { paid = args.sum }
      end,
    }
    for name, value in pairs(fields or {}) do tool[name] = value end
    return tool
  end

  local function agentOf(tools, answers, more)
    local model = moonpad.models.scripted(answers)
    local definition = { name = "A", model = model, tools = tools }
    for name, value in pairs(more or {}) do definition[name] = value end
    return moonpad.agent(definition), model
  end

  local function respond(event, index)
    local response = event:functionResponses()[index or 1]
    return { response.id, response.name, response.response }
  end

  local payment = support.calls { "pay", { sum = 90 }, "c1" }

  for how, run in pairs { run = support.run, step = step } do
    describe("a tool with requireConfirmation, by " .. how .. ",", function()
      it("does not run: the user is asked, and the turn is over", function()
        local agent, model = agentOf({ pay() }, { payment })
        local events = run(runnerOf(agent), "go")
        assert.equal(3, #events)
        assert.same({}, ran)
        local asking, response = events[2], events[3]
        local request = requestsIn(events)[1]
        assert.same({
          id = request.id, name = "adk_request_confirmation", args = {
            originalFunctionCall = { id = "c1", name = "pay", args = { sum = 90 } },
            toolConfirmation = {
              hint = "Please approve or reject the tool call pay() by responding with a FunctionResponse with an "
                .. "expected ToolConfirmation payload.",
              confirmed = false,
            },
          },
        }, request)
        assert.not_equal("c1", request.id)
        assert.same({ request.id }, asking.longRunningToolIds)
        assert.equal(1, #asking.content.parts)
        assert.same({ "A", true, {} }, { asking.author, asking:isFinalResponse(), asking.actions.stateDelta })
        assert.same({ "c1", "pay", REQUIRED }, respond(response))
        assert.is_true(response.actions.skipSummarization)
        assert.same({ c1 = request.args.toolConfirmation }, response.actions.requestedToolConfirmations)
        assert.is_true(response:isFinalResponse())
        assert.equal(1, #model.requests)
      end)

      it("runs with the arguments of the call, once it is approved; the model goes on", function()
        local agent, model = agentOf({ pay() }, { payment, "Paid." })
        local runner = runnerOf(agent)
        local request = requestsIn(run(runner, "go"))[1]
        local events = run(runner, answer(yes(request, { limit = 100 })))
        assert.equal(2, #events)
        assert.same({ {
          args = { sum = 90 }, id = "c1",
          given = { hint = request.args.toolConfirmation.hint, confirmed = true, payload = { limit = 100 } },
        } }, ran)
        assert.same({ "c1", "pay", { paid = 90 } }, respond(events[1]))
        assert.same({ "A", "A", "Paid." }, { events[1].author, events[2].author, events[2]:text() })
        assert.is_nil(events[1].actions.skipSummarization)
        assert.equal(2, #model.requests)
      end)

      it("does not run when it is refused, and the model is told", function()
        local agent, model = agentOf({ pay() }, { payment, "Not paid." })
        local runner = runnerOf(agent)
        local request = requestsIn(run(runner, "go"))[1]
        local events = run(runner, answer(no(request)))
        assert.same({ "c1", "pay", REJECTED }, respond(events[1]))
        assert.equal("Not paid.", events[2]:text())
        assert.same({}, ran)
        local contents = model.requests[2].contents
        assert.same(REJECTED, contents[#contents].parts[1].functionResponse.response)
      end)
    end)
  end

  describe("requireConfirmation", function()
    it("may be a function of the arguments, which the tool gets untouched", function()
      local agent = agentOf({ pay { requireConfirmation = function(args)
        local sum = args.sum
        args.sum = 0
        return sum > 50
      end } }, {
        support.calls({ "pay", { sum = 90 }, "c1" }, { "pay", { sum = 10 }, "c2" }), "Both.",
      })
      local runner = runnerOf(agent)
      local events = support.run(runner, "go")
      assert.equal(1, #requestsIn(events))
      assert.same({ "c1", "pay", REQUIRED }, respond(events[3], 1))
      assert.same({ "c2", "pay", { paid = 10 } }, respond(events[3], 2))
      assert.equal("Both.", support.run(runner, answer(yes(requestsIn(events)[1])))[2]:text())
      assert.same({ 10, 90 }, { ran[1].args.sum, ran[2].args.sum })
    end)

    it("that is a function sees the context, may wait, and is asked once", function()
      local asked = 0
      local agent = agentOf({ pay { requireConfirmation = function(args, context)
        asked = asked + 1
        coroutine.yield()
        args.sum = 1
        return context.state.isCareful
      end } }, { payment, "Paid." })
      local runner = runnerOf(agent)
      local events = support.run(runner, {
        userId = "u", sessionId = "s", newMessage = "go", stateDelta = { isCareful = true },
      })
      support.run(runner, answer(yes(requestsIn(events)[1])))
      assert.equal(1, asked)
      assert.equal(90, ran[1].args.sum)
    end)

    it("that fails, or does not say, is the tool's error, and the tool does not run", function()
      local agent = agentOf({
        pay { requireConfirmation = function(_, context)
          context.state.written = true
          error "no mood"
        end },
        pay { name = "give", requireConfirmation = function() end },
        pay { name = "ask", requireConfirmation = function(_, context) context:requestConfirmation() end },
      }, { support.calls({ "pay", {}, "c1" }, { "give", {}, "c2" }, { "ask", {}, "c3" }), "Sorry." })
      local events = support.run(runnerOf(agent), "go")
      assert.equal(3, #events)
      assert.matches("no mood", respond(events[2], 1)[3].error)
      assert.equal("give: requireConfirmation: expected a boolean as the answer, got nil",
        respond(events[2], 2)[3].error)
      assert.matches("only the run function of a tool", respond(events[2], 3)[3].error)
      assert.same({ {}, {} }, { ran, events[2].actions.stateDelta })
    end)

    it("is not asked about arguments that do not fit", function()
      local agent = agentOf({ pay { parameters = { type = "object", required = { "sum" } } } },
        { support.calls { "pay", {}, "c1" }, "Sorry." })
      local events = support.run(runnerOf(agent), "go")
      assert.same({}, requestsIn(events))
      assert.matches("bad arguments", respond(events[2])[3].error)
    end)

    it("is checked where the tool is defined", function()
      raises("invalid_argument", 'tool "pay".requireConfirmation: expected a boolean or a function, got string',
        moonpad.tool, pay { requireConfirmation = "yes" })
      raises("invalid_argument", "did you mean requireConfirmation", moonpad.tool, pay { requiresConfirmation = true })
      raises("invalid_argument", '"adk_request_confirmation"', moonpad.tool, pay { name = "adk_request_confirmation" })
      assert.is_true(moonpad.tool(pay()).requireConfirmation)
    end)

    it("false asks nobody", function()
      local agent = agentOf({ pay { requireConfirmation = false } }, { payment, "Paid." })
      assert.equal("Paid.", support.run(runnerOf(agent), "go")[3]:text())
      assert.is_nil(ran[1].given)
    end)
  end)

  describe("context:requestConfirmation", function()
    local function asking(options, before)
      return { name = "pay", run = function(args, context)
        ran[#ran + 1] = { args = args, given = context.toolConfirmation }
        if context.toolConfirmation then return { paid = args.sum } end
        context.state.asked = true
        if before then before(context) end
        context:requestConfirmation(options)
        return { status = "asked" }
      end }
    end

    it("asks, while the call is answered by what run returns; what was written stays", function()
      local agent, model = agentOf({ asking { hint = "Really?", payload = { sum = 90 } } },
        { payment, "I have asked.", "Paid." })
      local runner = runnerOf(agent)
      local events = support.run(runner, "go")
      assert.equal(4, #events)
      local request = requestsIn { events[2] }[1]
      assert.same({ hint = "Really?", confirmed = false, payload = { sum = 90 } }, request.args.toolConfirmation)
      assert.same({ "c1", "pay", { status = "asked" } }, respond(events[3]))
      assert.same({ {}, { asked = true } }, { events[2].actions.stateDelta, events[3].actions.stateDelta })
      assert.equal("I have asked.", events[4]:text())
      assert.same({ status = "asked" }, model.requests[2].contents[3].parts[1].functionResponse.response)
      local second = support.run(runner, answer(yes(request, false)))
      assert.same({ "c1", "pay", { paid = 90 } }, respond(second[1]))
      assert.same({ hint = "Really?", confirmed = true, payload = false }, ran[2].given)
      assert.equal("Paid.", second[2]:text())
    end)

    it("needs no options; refused, the tool does not run again", function()
      local agent = agentOf({ asking() }, { payment, "I have asked.", "Not paid." })
      local runner = runnerOf(agent)
      local request = requestsIn(support.run(runner, "go"))[1]
      assert.same({ hint = "", confirmed = false }, request.args.toolConfirmation)
      local events = support.run(runner, answer(no(request)))
      assert.same({ "c1", "pay", REJECTED }, respond(events[1]))
      assert.equal(1, #ran)
    end)

    it("may be asked again by the second run", function()
      local agent = agentOf({ { name = "pay", run = function(_, context)
        local given = context.toolConfirmation
        if given and given.payload == 2 then return "paid" end
        context:requestConfirmation { hint = given and "Twice?" or "Once?" }
        context.actions.skipSummarization = true
      end } }, { payment, "Paid." })
      local runner = runnerOf(agent)
      local first = requestsIn(support.run(runner, "go"))[1]
      local second = requestsIn(support.run(runner, answer(yes(first, 1))))[1]
      assert.same({ "Once?", "Twice?" }, { first.args.toolConfirmation.hint, second.args.toolConfirmation.hint })
      assert.same(first.args.originalFunctionCall, second.args.originalFunctionCall)
      local events = support.run(runner, answer(yes(second, 2)))
      assert.same({ "c1", "pay", { result = "paid" } }, respond(events[1]))
    end)

    it("called twice asks once, in the later words", function()
      local agent = agentOf({ asking({ hint = "two" }, function(context)
        context:requestConfirmation { hint = "one", payload = 1 }
      end) }, { payment, "I have asked." })
      local requests = requestsIn(support.run(runnerOf(agent), "go"))
      assert.equal(1, #requests)
      assert.same({ hint = "two", confirmed = false }, requests[1].args.toolConfirmation)
    end)

    it("asks nobody where the tool fails afterwards", function()
      local agent = agentOf({ { name = "pay", run = function(_, context)
        context:requestConfirmation()
        error "broke"
      end } }, { payment, "Sorry." })
      local events = support.run(runnerOf(agent), "go")
      assert.equal(3, #events)
      assert.matches("broke", respond(events[2])[3].error)
      assert.is_nil(events[2].actions.requestedToolConfirmations)
    end)

    it("refuses what it does not know", function()
      for says, options in pairs {
        ["unknown field"] = { hnt = "?" },
        ["hint: expected a string, got number"] = { hint = 1 },
        ["payload: "] = { payload = print },
        ["hint: value: the string is not valid UTF-8"] = { hint = "\xff" },
        ["expects a table, got a string"] = "Really?",
      } do
        local tool = asking(options)
        local agent = agentOf({ tool }, { payment, "Sorry." })
        local runner = runnerOf(agent)
        local error = respond(support.run(runner, "go")[2])[3].error
        assert.is_truthy(error:find(says, 1, true), error)
      end
    end)

    it("takes nulls for nothing, and parts of the state", function()
      local agent = agentOf({ asking({ hint = moonpad.null, payload = moonpad.null }), {
        name = "give", run = function(_, context)
          context.state.cart = { items = { 1, 2 } }
          context:requestConfirmation { payload = context.state.cart }
        end,
      } }, { support.calls({ "pay", {}, "c1" }, { "give", {}, "c2" }), "I have asked." })
      local requests = requestsIn(support.run(runnerOf(agent), "go"))
      assert.same({ hint = "", confirmed = false }, requests[1].args.toolConfirmation)
      assert.same({ items = { 1, 2 } }, requests[2].args.toolConfirmation.payload)
    end)

    it("is a tool's alone", function()
      local said, kept = {}, nil
      local function try(context) said[#said + 1] = failure(context.requestConfirmation, context, {}).message end
      local agent = agentOf({ { name = "pay", run = function(_, context) kept = context end } }, { payment, "Done." }, {
        beforeAgentCallback = try, beforeModelCallback = try, beforeToolCallback = try, afterToolCallback = try,
      })
      support.run(runnerOf(agent), "go")
      assert.equal(5, #said)
      for _, message in ipairs(said) do assert.matches("only the run function of a tool can do that", message) end
      raises("invalid_argument", "this context has ended", kept.requestConfirmation, kept, {})
      raises("invalid_argument", "with a colon", kept.requestConfirmation)
      assert.is_nil(kept.toolConfirmation)
    end)

    it("can be tested without a runner", function()
      local context = moonpad.testing.toolContext {}
      local tool = moonpad.tool(asking { hint = "Really?" })
      assert.same({ status = "asked" }, tool.run({ sum = 1 }, context))
      assert.same({ ["call-1"] = { hint = "Really?", confirmed = false } }, context.actions.requestedToolConfirmations)
      context = moonpad.testing.toolContext { toolConfirmation = { confirmed = true, payload = 3 } }
      assert.same({ paid = 1 }, tool.run({ sum = 1 }, context))
      assert.same({ hint = "", confirmed = true, payload = 3 }, context.toolConfirmation)
      raises("invalid_argument", "toolConfirmation.confirmed: expected a boolean, got nothing",
        moonpad.testing.toolContext, { toolConfirmation = {} })
    end)
  end)

  describe("several calls", function()
    local twice = support.calls({ "pay", { sum = 1 }, "c1" }, { "pay", { sum = 2 }, "c2" })

    it("are asked about in one event, and answered in one message, each on its own", function()
      local agent, model = agentOf({ pay() }, { twice, "Half." })
      local runner = runnerOf(agent)
      local events = support.run(runner, "go")
      local requests = requestsIn { events[2] }
      assert.same({ requests[1].id, requests[2].id }, events[2].longRunningToolIds)
      local second = support.run(runner, answer(no(requests[2]), yes(requests[1])))
      assert.same({ "c2", "pay", REJECTED }, respond(second[1], 1))
      assert.same({ "c1", "pay", { paid = 1 } }, respond(second[1], 2))
      assert.equal("Half.", second[2]:text())
      local parts = model.requests[2].contents[3].parts
      assert.same({ "c1", { paid = 1 } }, { parts[1].functionResponse.id, parts[1].functionResponse.response })
      assert.same({ "c2", REJECTED }, { parts[2].functionResponse.id, parts[2].functionResponse.response })
    end)

    it("are answered one message after the other", function()
      local agent, model = agentOf({ pay() }, { twice, "One.", "Two." })
      local runner = runnerOf(agent)
      local requests = requestsIn(support.run(runner, "go"))
      assert.equal("One.", support.run(runner, answer(yes(requests[1])))[2]:text())
      local parts = model.requests[2].contents[3].parts
      assert.same({ { paid = 1 }, REQUIRED },
        { parts[1].functionResponse.response, parts[2].functionResponse.response })
      assert.equal("Two.", support.run(runner, answer(yes(requests[2])))[2]:text())
      assert.equal(2, #ran)
    end)

    it("that share an id are asked about and run each with its own arguments", function()
      local agent = agentOf({ pay() }, {
        support.calls({ "pay", { sum = 1 }, "c" }, { "pay", { sum = 2 }, "c" }), "Both.",
      })
      local runner = runnerOf(agent)
      local requests = requestsIn(support.run(runner, "go"))
      support.run(runner, answer(yes(requests[1]), yes(requests[2])))
      assert.same({ 1, 2 }, { ran[1].args.sum, ran[2].args.sum })
    end)

    it("one that fails leaves the other its answer", function()
      local agent = agentOf({ pay(), pay { name = "give", run = function() error "broke" end } }, {
        support.calls({ "give", {}, "c1" }, { "pay", { sum = 2 }, "c2" }), "Half.",
      })
      local runner = runnerOf(agent)
      local requests = requestsIn(support.run(runner, "go"))
      local events = support.run(runner, answer(yes(requests[1]), yes(requests[2])))
      assert.matches("broke", respond(events[1], 1)[3].error)
      assert.same({ paid = 2 }, respond(events[1], 2)[3])
    end)

    it("with a long-running one are answered in one message", function()
      local agent, model = agentOf({ pay(), { name = "wait", longRunning = true, run = function() end } }, {
        support.calls({ "pay", { sum = 1 }, "c1" }, { "wait", {}, "c2" }), "Both.",
      })
      local runner = runnerOf(agent)
      local request = requestsIn(support.run(runner, "go"))[1]
      local events = support.run(runner, answer(yes(request), { "c2", { ok = true } }))
      assert.equal("Both.", events[2]:text())
      local parts = model.requests[2].contents[3].parts
      assert.same({ { paid = 1 }, { ok = true } },
        { parts[1].functionResponse.response, parts[2].functionResponse.response })
    end)

    it("of a long-running tool wait for its own answer after the confirmation", function()
      local agent = agentOf({ pay { longRunning = true, run = function() ran[#ran + 1] = true end } },
        { payment, "Paid." })
      local runner = runnerOf(agent)
      local request = requestsIn(support.run(runner, "go"))[1]
      assert.same({}, support.run(runner, answer(yes(request))))
      assert.equal(1, #ran)
      assert.equal("Paid.", support.run(runner, answer { "c1", { ok = true } })[1]:text())
    end)
  end)

  describe("an answer", function()
    local runner, request
    local function ask(answers)
      local agent = agentOf({ pay() }, answers or { payment, "Paid.", "Hello." })
      runner = runnerOf(agent)
      local events = support.run(runner, "go")
      request = requestsIn(events)[1]
      return events
    end

    -- The answer is refused, and nothing of it is stored.
    local function refuses(says, message)
      local revision = support.stored(service).revision
      raises("invalid_argument", says, support.run, runner, message)
      assert.equal(revision, support.stored(service).revision)
      assert.same({}, ran)
    end

    it("with an unknown id is refused", function()
      ask()
      refuses("newMessage.parts[1]: this session knows no function call with the id x",
        answer { "x", { confirmed = true } })
    end)

    it("that is malformed is refused, and can be given again", function()
      ask()
      local where = "newMessage.parts[1].functionResponse.response"
      refuses(where .. ": expected { confirmed = true or false }, got nil", answer { request.id, nil })
      refuses(where .. ".confirmed: expected a boolean, got nothing", answer { request.id, {} })
      refuses(where .. ".confirmed: expected a boolean, got nothing",
        answer { request.id, { confirmed = moonpad.null } })
      refuses(where .. ".confirmed: expected a boolean, got string", answer { request.id, { confirmed = "yes" } })
      refuses(where .. ".confirmed: expected a boolean, got number", answer { request.id, { confirmed = 1 } })
      refuses("did you mean payload", answer { request.id, { confirmed = true, payolad = 1 } })
      refuses("answered already", answer(yes(request), no(request)))
      assert.equal("Paid.", support.run(runner, answer(yes(request)))[2]:text())
    end)

    it("is taken once", function()
      ask { payment, "Paid." }
      support.run(runner, answer(no(request)))
      refuses(("newMessage.parts[1]: the confirmation %s has been answered already"):format(request.id),
        answer(yes(request)))
      for window = 0, 3 do
        raises("invalid_argument", "answered already", support.run, runner,
          { userId = "u", sessionId = "s", newMessage = answer(yes(request)), numRecentEvents = window })
      end
    end)

    it("may name the call by whatever name; it is stored under the right one", function()
      ask()
      local message = answer(yes(request))
      message.parts[1].functionResponse.name = "pay"
      support.run(runner, message)
      local stored = support.stored(service).events
      local response = stored[#stored - 2]:functionResponses()[1]
      assert.same({ name = "adk_request_confirmation", id = request.id, response = { confirmed = true } }, response)
    end)

    it("need not come: a next message goes on without it, and it can come later", function()
      ask { payment, "Hello.", "Paid." }
      assert.equal("Hello.", support.run(runner, "hi")[1]:text())
      assert.equal("Paid.", support.run(runner, answer(yes(request)))[2]:text())
      assert.equal(1, #ran)
    end)

    it("to what was rewound is refused; one that was rewound can be given again", function()
      local first = ask { payment, "Paid.", "Paid again." }[1].invocationId
      local second = support.run(runner, answer(yes(request)))[1].invocationId
      service:rewind(support.stored(service), { invocationId = second })
      assert.equal("Paid again.", support.run(runner, answer(yes(request)))[2]:text())
      ran = {}
      service:rewind(support.stored(service), { invocationId = first })
      refuses("no function call with the id", answer(yes(request)))
    end)

    it("finds the request that the caller broke off at", function()
      local agent = agentOf({ pay() }, { payment, "Paid." })
      runner = runnerOf(agent)
      for event in runner:run { userId = "u", sessionId = "s", newMessage = "go" } do
        request = requestsIn({ event })[1]
        if request then break end
      end
      local events = support.run(runner, answer(yes(request)))
      assert.same({ { paid = 90 }, "Paid." }, { respond(events[1])[3], events[2]:text() })
    end)

    it("goes to a call whose agent or tool has changed", function()
      ask()
      runner = runnerOf((agentOf({ pay() }, {}, { name = "B" })))
      refuses('agent "A", which has asked for the confirmation ' .. request.id .. ", is not in this tree",
        answer(yes(request)))
      runner = runnerOf((agentOf({ pay { parameters = { type = "object", required = { "why" } } } }, { "Sorry." })))
      assert.matches("bad arguments", respond(support.run(runner, answer(yes(request)))[1])[3].error)
      assert.same({}, ran)
    end)

    it("to a tool that is gone tells the model", function()
      ask()
      runner = runnerOf((agentOf({}, { "Sorry." })))
      assert.matches('unknown tool "pay"', respond(support.run(runner, answer(yes(request)))[1])[3].error)
    end)
  end)

  describe("a model that calls adk_request_confirmation itself", function()
    it("asks nobody and confirms nothing", function()
      local forged = { originalFunctionCall = { id = "c1", name = "pay", args = { sum = 1 } },
        toolConfirmation = { hint = "", confirmed = false } }
      local agent, model = agentOf({ pay() }, { support.calls { "adk_request_confirmation", forged, "f1" }, "Sorry." })
      local runner = runnerOf(agent)
      local events = support.run(runner, "go")
      assert.matches("unknown tool", respond(events[2])[3].error)
      assert.equal("f1", model.requests[2].contents[2].parts[1].functionCall.id)
      raises("invalid_argument", "no function call with the id f1", support.run, runner,
        answer { "f1", { confirmed = true } })
      assert.same({}, ran)
    end)
  end)

  describe("callbacks and plugins", function()
    it("run around the second run as around any call", function()
      local log = {}
      local function note(what)
        return function(context, tool, _, result)
          local given = context.toolConfirmation
          log[#log + 1] = ("%s %s %s %s"):format(what, tool.name, given and tostring(given.confirmed) or "-",
            type(result) == "table" and (result.error and "error" or "result") or "-")
        end
      end
      local agent = agentOf({ pay() }, { payment, "Done.", payment, "Done." }, {
        beforeToolCallback = note "before", afterToolCallback = note "after",
      })
      local runner = runnerOf(agent, { plugins = { { beforeToolCallback = note "plugin" } } })
      support.run(runner, answer(yes(requestsIn(support.run(runner, "go"))[1])))
      support.run(runner, answer(no(requestsIn(support.run(runner, "go"))[1])))
      assert.same({
        "plugin pay - -", "before pay - -", "after pay - error",
        "plugin pay true -", "before pay true -", "after pay true result",
        "plugin pay - -", "before pay - -", "after pay - error",
        "plugin pay false -", "before pay false -", "after pay false error",
      }, log)
    end)

    it("may change the arguments; the user sees those of the model", function()
      local agent = agentOf({ pay() }, { payment, "Done." }, {
        beforeToolCallback = function(_, _, args) args.sum = args.sum + 1 end,
      })
      local runner = runnerOf(agent)
      local request = requestsIn(support.run(runner, "go"))[1]
      assert.same({ sum = 90 }, request.args.originalFunctionCall.args)
      support.run(runner, answer(yes(request)))
      assert.equal(91, ran[1].args.sum)
    end)

    it("answer for a second run that fails", function()
      local agent = agentOf({ pay { run = function(_, context)
        context.state.written = true
        error "broke"
      end } }, { payment, "Done." }, { onToolErrorCallback = function() return { saved = true } end })
      local runner = runnerOf(agent)
      local events = support.run(runner, answer(yes(requestsIn(support.run(runner, "go"))[1])))
      assert.same({ "c1", "pay", { saved = true } }, respond(events[1]))
      assert.same({}, events[1].actions.stateDelta)
    end)

    it("see the request in onEvent", function()
      local seen = {}
      local agent = agentOf({ pay() }, { payment })
      support.run(runnerOf(agent, { plugins = { { onEvent = function(_, event)
        for _, call in ipairs(event:functionCalls()) do seen[#seen + 1] = call.name end
      end } } }), "go")
      assert.same({ "pay", "adk_request_confirmation" }, seen)
    end)
  end)
end)

describe("a confirmation on SQLite", function()
  after_each(support.cleanup)

  it("that two give at once runs the tool once", function()
    local url, ran = "sqlite:" .. support.tmpdir() .. "/test.db", 0
    local function runnerOf(service, answers, plugin)
      local agent = moonpad.agent { name = "A", model = moonpad.models.scripted(answers), tools = { {
        name = "pay", requireConfirmation = true, run = function() ran = ran + 1 end,
      } } }
      return moonpad.runner { appName = "app", agent = agent, sessionService = service, plugins = { plugin } }
    end
    local service <close> = moonpad.open(url)
    local other <close> = moonpad.open(url)
    local runner = runnerOf(service, { support.calls { "pay", {}, "c1" }, "Paid." })
    local message, isWaiting = answer(yes(requestsIn(support.run(runner, "go"))[1])), true
    local late = runnerOf(other, { "Paid, too." }, { onUserMessage = function()
      while isWaiting do coroutine.yield() end
    end }):start { userId = "u", sessionId = "s", newMessage = message }
    assert.equal("waiting", late:step())
    assert.equal("Paid.", support.run(runner, message)[2]:text())
    isWaiting = false
    raises("invalid_argument", "has been answered already", support.step, late)
    assert.equal(1, ran)
  end)

  it("is given to another process", function()
    local url = "sqlite:" .. support.tmpdir() .. "/test.db"
    local args
    local function talk(answers, message)
      local service <close> = moonpad.open(url)
      local agent = moonpad.agent { name = "A", model = moonpad.models.scripted(answers), tools = { {
        name = "pay", requireConfirmation = true, run = function(given)
          args = given
          return "paid"
        end,
      } } }
      return support.run(moonpad.runner { appName = "app", agent = agent, sessionService = service }, message)
    end
    local given = { list = moonpad.array {}, none = moonpad.null, big = 2 ^ 53, int = math.maxinteger, nested = { {} } }
    local request = requestsIn(talk({ support.calls { "pay", given, "c1" } }, "go"))[1]
    local events = talk({ "Paid." }, answer(yes(request)))
    assert.equal("Paid.", events[2]:text())
    assert.equal(moonpad.json.encode(given), moonpad.json.encode(args))
  end)
end)
