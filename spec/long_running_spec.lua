-- Tools whose answer comes later, in a message of the user.
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function answer(id, response, more)
    local parts = { { functionResponse = { id = id, response = response } } }
    parts[2] = more
    return { role = "user", parts = parts }
  end

  local function approval(run)
    return { name = "approve", longRunning = true, run = run or function() end }
  end

  local function runnerOf(agent)
    return moonpad.runner { appName = "app", agent = agent, sessionService = service }
  end

  describe("a long-running tool", function()
    it("is marked on the event that calls it, which is final", function()
      local agent = moonpad.agent { name = "A", tools = { approval() },
        model = moonpad.models.scripted { support.calls { "approve", {}, "c1" } } }
      local events = support.run(runnerOf(agent), "go")
      assert.equal(1, #events)
      assert.same({ "c1" }, events[1].longRunningToolIds)
      assert.is_true(events[1]:isFinalResponse())
    end)

    it("that has no answer yet ends the turn, and loses no state", function()
      local agent = moonpad.agent { name = "A",
        tools = { approval(function(_, context) context.state.asked = true end) },
        model = moonpad.models.scripted { support.calls { "approve", {}, "c1" } } }
      local events = support.run(runnerOf(agent), "go")
      assert.equal(2, #events)
      assert.is_nil(events[2].content)
      assert.same({ asked = true }, events[2].actions.stateDelta)
    end)

    it("that answers at once is like any other", function()
      local agent = moonpad.agent { name = "A", tools = { approval(function() return { status = "started" } end) },
        model = moonpad.models.scripted { support.calls { "approve", {}, "c1" }, "I have asked." } }
      local events = support.run(runnerOf(agent), "go")
      assert.same({ status = "started" }, events[2]:functionResponses()[1].response)
      assert.equal("I have asked.", events[3]:text())
    end)

    it("gets its answer from a message of the user; the agent that has called it goes on", function()
      local model = moonpad.models.scripted { support.calls { "approve", {}, "c1" }, "Granted." }
      local root = moonpad.agent { name = "Root", subAgents = {
        moonpad.agent { name = "Clerk", disallowTransferToParent = true, tools = { approval() }, model = model },
      }, model = function() return support.calls { "transfer_to_agent", { agent_name = "Clerk" } } end }
      local runner = runnerOf(root)
      support.run(runner, "go")
      local events = support.run(runner, answer("c1", { granted = true }))
      assert.equal(1, #events)
      assert.same({ "Clerk", "Granted." }, { events[1].author, events[1]:text() })
      local contents = model.requests[2].contents
      local response = contents[#contents].parts[1].functionResponse
      assert.same({ id = "c1", name = "approve", response = { granted = true } }, response)
      assert.equal("c1", contents[#contents - 1].parts[1].functionCall.id)
    end)

    it("may be answered again, and the later answer counts; text may go along", function()
      local model = moonpad.models.scripted {
        support.calls { "approve", {}, "c1" }, "I have asked.", "Granted.",
      }
      local agent = moonpad.agent { name = "A", model = model,
        tools = { approval(function() return { status = "pending" } end) } }
      local runner = runnerOf(agent)
      support.run(runner, "go")
      support.run(runner, answer("c1", { granted = true }, { text = "Here you are." }))
      local contents = model.requests[3].contents
      assert.same({ granted = true }, contents[3].parts[1].functionResponse.response)
      assert.equal("Here you are.", contents[#contents].parts[1].text)
    end)

    -- What a model is shown, a word for each part.
    local function outline(contents)
      local words = {}
      for _, content in ipairs(contents) do
        for _, part in ipairs(content.parts) do
          local call, response = part.functionCall, part.functionResponse
          words[#words + 1] = call and "call " .. call.id
            or response and "answer " .. response.id .. " " .. moonpad.json.encode(response.response)
            or content.role .. " " .. part.text
        end
      end
      return words
    end

    it("that is answered after the user has chatted: the request ends with the answer, without the chat", function()
      local model = moonpad.models.scripted {
        support.calls { "approve", {}, "c1" }, "Still waiting.", "Granted.", "Bye.",
      }
      local runner = runnerOf(moonpad.agent { name = "A", model = model, tools = { approval() } })
      support.run(runner, "go")
      support.run(runner, "And?")
      support.run(runner, answer("c1", { ok = true }))
      assert.same({ "user go", "call c1", 'answer c1 {"ok":true}' }, outline(model.requests[3].contents))
      support.run(runner, "Thanks")
      assert.same({
        "user go", "call c1", 'answer c1 {"ok":true}', "user And?", "model Still waiting.", "model Granted.",
        "user Thanks",
      }, outline(model.requests[4].contents))
    end)

    it("that was answered before another one is shown with its answer", function()
      local model = moonpad.models.scripted {
        support.calls { "approve", {}, "c1" }, support.calls { "approve", {}, "c2" }, "Granted 1.", "Granted 2.",
      }
      local runner = runnerOf(moonpad.agent { name = "A", model = model, tools = { approval() } })
      support.run(runner, "go")
      support.run(runner, "more")
      support.run(runner, answer("c1", { n = 1 }))
      support.run(runner, answer("c2", { n = 2 }))
      assert.same({ "user go", "call c1", 'answer c1 {"n":1}', "user more", "call c2", 'answer c2 {"n":2}' },
        outline(model.requests[4].contents))
    end)

    it("that is answered a second time: the request ends with the new answer", function()
      local model = moonpad.models.scripted {
        support.calls({ "approve", {}, "c1" }, { "look", {}, "c2" }), "I have asked.", "Granted.", "Taken back.",
      }
      local runner = runnerOf(moonpad.agent { name = "A", model = model, tools = {
        approval(function() return { status = "asked" } end),
        { name = "look", run = function() return { sea = 1 } end },
      } })
      support.run(runner, "go")
      support.run(runner, answer("c1", { ok = true }, { text = "Here." }))
      assert.same({ "user go", "call c1", "call c2", 'answer c1 {"ok":true}', 'answer c2 {"sea":1}', "user Here." },
        outline(model.requests[3].contents))
      support.run(runner, answer("c1", { ok = false }))
      assert.same({ "user go", "call c1", "call c2", 'answer c1 {"ok":false}', 'answer c2 {"sea":1}' },
        outline(model.requests[4].contents))
    end)

    it("that is answered late is shown to a model that sees its own turn only", function()
      local model = moonpad.models.scripted {
        "Hello.", support.calls { "approve", {}, "c1" }, "Still waiting.",
        support.calls { "look", {}, "c2" }, "Granted.",
      }
      local look = { name = "look", run = function() return { sea = 1 } end }
      local runner = runnerOf(moonpad.agent {
        name = "A", model = model, tools = { approval(), look }, includeContents = "none",
      })
      for _, message in ipairs { "hi", "go", "And?" } do support.run(runner, message) end
      support.run(runner, answer("c1", { ok = true }))
      assert.same({ "user go", "call c1", 'answer c1 {"ok":true}' }, outline(model.requests[4].contents))
      assert.same({
        "user go", "call c1", 'answer c1 {"ok":true}', "user And?", "model Still waiting.", "call c2",
        'answer c2 {"sea":1}',
      }, outline(model.requests[5].contents))
    end)

    it("is pending for a model that is asked before the answer has come", function()
      local model = moonpad.models.scripted { support.calls { "approve", {}, "c1" }, "Still waiting." }
      local runner = runnerOf(moonpad.agent { name = "A", model = model, tools = { approval() } })
      support.run(runner, "go")
      support.run(runner, "And?")
      assert.same({ status = "pending" }, model.requests[2].contents[3].parts[1].functionResponse.response)
    end)

    it("beside one that answers lets that answer be stored, and then the turn ends", function()
      local model = moonpad.models.scripted {
        support.calls({ "approve", {}, "c1" }, { "look", {}, "c2" }), "Granted, and seen.",
      }
      local runner = runnerOf(moonpad.agent { name = "A", model = model, tools = {
        approval(), { name = "look", run = function() return "sea" end },
      } })
      local events = support.run(runner, "go")
      assert.equal(2, #events)
      assert.same({ "c1" }, events[1].longRunningToolIds)
      assert.equal(1, #events[2]:functionResponses())
      assert.equal("Granted, and seen.", support.run(runner, answer("c1", { ok = true }))[1]:text())
      local parts = model.requests[2].contents[3].parts
      assert.same({ { ok = true }, { result = "sea" } },
        { parts[1].functionResponse.response, parts[2].functionResponse.response })
    end)

    it("that fails is answered with its error", function()
      local agent = moonpad.agent { name = "A", tools = { approval(function() error "no" end) },
        model = moonpad.models.scripted { support.calls { "approve", {}, "c1" }, "sorry" } }
      local events = support.run(runnerOf(agent), "go")
      assert.matches("no", events[2]:functionResponses()[1].response.error)
    end)

    it("on a branch goes on there", function()
      local model = moonpad.models.scripted { support.calls { "approve", {}, "c1" }, "Granted." }
      local root = moonpad.parallelAgent { name = "P", subAgents = {
        moonpad.agent { name = "A", model = model, tools = { approval() } },
        moonpad.agent { name = "B", model = function() return "B" end },
      } }
      local runner = runnerOf(root)
      support.run(runner, "go")
      local events = support.run(runner, answer("c1", { ok = true }))
      assert.equal(1, #events)
      assert.equal("P.A", events[1].branch)
      local stored = support.stored(service).events
      assert.equal("P.A", stored[#stored - 1].branch)
    end)
  end)

  describe("a call that lies before what the run sees", function()
    local model, runner
    -- Asks, beside a call that is answered at once, and chats a while.
    local function chat()
      model = moonpad.models.scripted {
        support.calls({ "approve", {}, "c1" }, { "look", {}, "c2" }), "Two.", "Three.", "Granted.", "Bye.",
      }
      runner = runnerOf(moonpad.agent { name = "A", model = model, tools = {
        approval(), { name = "look", run = function() return { sea = 1 } end },
      } })
      local first = support.run(runner, "one")[1].invocationId
      support.run(runner, "two")
      support.run(runner, "three")
      return first
    end

    local function say(message, window)
      return support.run(runner, { userId = "u", sessionId = "s", newMessage = message, numRecentEvents = window })
    end

    it("is found, and the model is shown it with all that answered it", function()
      for window = 0, 7 do
        service = open()
        chat()
        assert.equal("Granted.", say(answer("c1", { ok = true }), window)[1]:text())
        local contents = model.requests[4].contents
        local asked, answered = contents[#contents - 1].parts, contents[#contents].parts
        assert.same({ "c1", "c2" }, { asked[1].functionCall.id, asked[2].functionCall.id })
        assert.same({ { ok = true }, { sea = 1 } },
          { answered[1].functionResponse.response, answered[2].functionResponse.response })
      end
    end)

    it("leaves the rest of what the run sees as it was asked for", function()
      chat()
      say(answer("c1", { ok = true }), 1)
      say("Thanks", 1)
      assert.same({ "Granted.", "Thanks" },
        { model.requests[5].contents[1].parts[1].text, model.requests[5].contents[2].parts[1].text })
      assert.equal(2, #model.requests[5].contents)
    end)

    it("is found where the service's own setting hides it", function()
      service = open { numRecentEvents = 2 }
      chat()
      assert.equal("Granted.", say(answer("c1", { ok = true }))[1]:text())
    end)

    it("is shown in its place among others that are answered with it", function()
      model = moonpad.models.scripted {
        support.calls({ "approve", {}, "c1" }, { "approve", {}, "c2" }), support.calls { "approve", {}, "c3" },
        "Hello.", "Granted.",
      }
      runner = runnerOf(moonpad.agent { name = "A", model = model, tools = { approval() } })
      for _, message in ipairs { "one", "two", "three" } do say(message) end
      say({ parts = {
        { functionResponse = { id = "c3", response = { n = 3 } } },
        { functionResponse = { id = "c2", response = { n = 2 } } },
        { functionResponse = { id = "c1", response = { n = 1 } } },
      } }, 1)
      local seen = {}
      for _, content in ipairs(model.requests[4].contents) do
        for _, part in ipairs(content.parts) do
          seen[#seen + 1] = part.functionCall and part.functionCall.id
            or part.functionResponse and part.functionResponse.response.n or part.text
        end
      end
      assert.same({ "c1", "c2", 1, 2, "c3", 3 }, seen)
    end)

    it("is unknown when it was rewound, or never made", function()
      local first = chat()
      assert.matches("no function call with the id c9", failure(say, answer("c9", {}), 2).message)
      service:rewind(support.stored(service), { invocationId = first })
      say("again", 2)
      for _, window in ipairs { 0, 1, 3, 100 } do
        local err = failure(say, answer("c1", { ok = true }), window)
        assert.same({ "invalid_argument", "no function call with the id c1" },
          { err.code, err.message:match "no function call.*" })
      end
    end)
  end)

  describe("a message that answers several calls", function()
    local function clerk(name, id)
      local model = moonpad.models.scripted { support.calls { "approve", {}, id }, name .. " goes on." }
      return moonpad.agent { name = name, model = model, tools = { approval() } }, model
    end

    local function both(first, second)
      return { role = "user", parts = {
        { functionResponse = { id = first, response = { of = first } } },
        { functionResponse = { id = second, response = { of = second } } }, { text = "There." },
      } }
    end

    -- The response that a model got, and the text after it.
    local function got(model)
      local contents, response, text = model.requests[2].contents, nil, nil
      for _, content in ipairs(contents) do
        for _, part in ipairs(content.parts) do
          response = part.functionResponse and part.functionResponse.response.of or response
          text = part.text or text
        end
      end
      return { response, text }
    end

    it("of parallel branches lets each agent go on with its own, in the order of the answers", function()
      local a, modelA = clerk("A", "c1")
      local b, modelB = clerk("B", "c2")
      local runner = runnerOf(moonpad.parallelAgent { name = "P", subAgents = { a, b } })
      support.run(runner, "go")
      local events = support.run(runner, both("c2", "c1"))
      assert.same({ "B", "P.B", "A", "P.A" },
        { events[1].author, events[1].branch, events[2].author, events[2].branch })
      assert.same({ { "c1", "There." }, { "c2", "There." } }, { got(modelA), got(modelB) })
    end)

    it("of agents one after the other does the same", function()
      local a, modelA = clerk("A", "c1")
      local b, modelB = clerk("B", "c2")
      local runner = runnerOf(moonpad.sequentialAgent { name = "S", subAgents = { a, b } })
      support.run(runner, "go")
      local events = support.run(runner, both("c1", "c2"))
      assert.same({ "A", "B" }, { events[1].author, events[2].author })
      assert.equal("c1", got(modelA)[1])
      assert.equal("c2", got(modelB)[1])
    end)

    it("of one agent lets it go on once, with all", function()
      local model = moonpad.models.scripted {
        support.calls({ "approve", {}, "c1" }, { "approve", {}, "c2" }), "Both.",
      }
      local runner = runnerOf(moonpad.agent { name = "A", model = model, tools = { approval() } })
      support.run(runner, "go")
      local events = support.run(runner, both("c2", "c1"))
      assert.same({ 1, "Both." }, { #events, events[1]:text() })
      local parts = model.requests[2].contents[3].parts
      assert.same({ "c1", "c2" }, { parts[1].functionResponse.response.of, parts[2].functionResponse.response.of })
    end)
  end)

  it("a plugin may turn words into the answer to a call", function()
    local model = moonpad.models.scripted { support.calls { "approve", {}, "c1" }, "Granted." }
    local runner = moonpad.runner {
      appName = "app", sessionService = service,
      agent = moonpad.agent { name = "A", model = model, tools = { approval() } },
      plugins = { { onUserMessage = function(_, content)
        if content.parts[1].text == "yes" then return answer("c1", { ok = true }) end
      end } },
    }
    support.run(runner, "go")
    assert.equal("Granted.", support.run(runner, "yes")[1]:text())
    assert.equal("approve", support.stored(service).events[3]:functionResponses()[1].name)
  end)

  it("an answer needs the id of its call, also where a call in the history has none", function()
    local runner = runnerOf(moonpad.agent { name = "A", model = function() return "x" end })
    local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
    service:appendEvent(session, {
      author = "A", content = { role = "model", parts = { { functionCall = { name = "approve", args = {} } } } },
    })
    for _, id in ipairs { "none", moonpad.null, 5, true } do
      local err = failure(support.run, runner, answer(id ~= "none" and id or nil, { ok = true }))
      assert.equal("invalid_argument", err.code)
      assert.matches("newMessage.parts%[1%].functionResponse.id: ", err.message)
    end
    assert.equal(1, #support.stored(service).events)
  end)

  it("an answer to a call that nobody has made is refused, and nothing is stored", function()
    local runner = runnerOf(moonpad.agent { name = "A", model = function() return "x" end })
    support.run(runner, "go")
    local err = failure(support.run, runner, answer("c9", { ok = true }))
    assert.equal("invalid_argument", err.code)
    assert.matches("newMessage.parts%[1%]: .*c9", err.message)
    assert.equal(2, #support.stored(service).events)
  end)
end)
