-- Tools whose answer comes later, in a message of the user.
local moonpad = require "moonpad"
local support = require "spec.support"

local function failure(run, ...)
  local ok, err = pcall(run, ...)
  assert.is_false(ok)
  return err
end

support.each_store(function(open)
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

  it("an answer to a call that nobody has made is refused, and nothing is stored", function()
    local runner = runnerOf(moonpad.agent { name = "A", model = function() return "x" end })
    support.run(runner, "go")
    local err = failure(support.run, runner, answer("c9", { ok = true }))
    assert.equal("invalid_argument", err.code)
    assert.matches("newMessage.parts%[1%]: .*c9", err.message)
    assert.equal(2, #support.stored(service).events)
  end)
end)
