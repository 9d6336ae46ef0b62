-- Confirmations within a conversation: what models are shown of them, and where they are asked for.
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = require("spec.support.checks").raises

local REQUIRED = "This tool call requires confirmation, please approve or reject."

local function requestsIn(events)
  local requests = {}
  for _, event in ipairs(events) do
    for _, call in ipairs(event:functionCalls()) do
      if call.name == "adk_request_confirmation" then requests[#requests + 1] = call end
    end
  end
  return requests
end

-- What a model is shown, a word for each part.
local function outline(request)
  local words = {}
  for _, content in ipairs(request.contents) do
    for _, part in ipairs(content.parts) do
      local call, response = part.functionCall, part.functionResponse
      words[#words + 1] = call and "call " .. call.id
        or response and "answer " .. response.id .. " " .. moonpad.json.encode(response.response)
        or content.role .. " " .. part.text
    end
  end
  return words
end

local function answer(given)
  local parts = {}
  for index, request in ipairs(given) do
    parts[index] = { functionResponse = { id = request.id, response = { confirmed = true } } }
  end
  if given.text then parts[#parts + 1] = { text = given.text } end
  return { role = "user", parts = parts }
end

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function pay(fields)
    local tool = { name = "pay", requireConfirmation = true, run = function(args) return { paid = args.sum } end }
    for name, value in pairs(fields or {}) do tool[name] = value end
    return tool
  end

  local look = { name = "look", run = function() return { sea = 1 } end }

  local function runnerOf(agent, more)
    local definition = { appName = "app", agent = agent, sessionService = service }
    for name, value in pairs(more or {}) do definition[name] = value end
    return moonpad.runner(definition)
  end

  local payment = support.calls { "pay", { sum = 90 }, "c1" }
  local open1 = ('answer c1 {"error":"%s"}'):format(REQUIRED)

  local function talk(answers, more)
    local model = moonpad.models.scripted(answers)
    local definition = { name = "A", model = model, tools = { pay(), look } }
    for name, value in pairs(more or {}) do definition[name] = value end
    return runnerOf(moonpad.agent(definition)), model
  end

  describe("a model", function()
    it("sees the call and its latest answer, neither the request nor what the user answered", function()
      local runner, model = talk { payment, "Paid.", "Bye." }
      support.run(runner, answer(requestsIn(support.run(runner, "go"))))
      support.run(runner, "Thanks")
      assert.same({ "user go", "call c1", 'answer c1 {"paid":90}' }, outline(model.requests[2]))
      assert.same({ "user go", "call c1", 'answer c1 {"paid":90}', "model Paid.", "user Thanks" },
        outline(model.requests[3]))
    end)

    it("sees what the user says when confirming, after the answer", function()
      local runner, model = talk { payment, support.calls { "look", {}, "c2" }, "Paid." }
      local message = answer(requestsIn(support.run(runner, "go")))
      message.parts[2] = { text = "Be quick." }
      support.run(runner, message)
      assert.same({ "user go", "call c1", 'answer c1 {"paid":90}', "user Be quick." }, outline(model.requests[2]))
      assert.same({
        "user go", "call c1", 'answer c1 {"paid":90}', "user Be quick.", "call c2", 'answer c2 {"sea":1}',
      }, outline(model.requests[3]))
    end)

    it("sees the answer of an open call, and later the new one as if nothing had come between", function()
      local runner, model = talk { payment, "Still waiting.", "Paid.", "Bye." }
      local requests = requestsIn(support.run(runner, "go"))
      support.run(runner, "And?")
      assert.same({ "user go", "call c1", open1, "user And?" }, outline(model.requests[2]))
      support.run(runner, answer { requests[1], text = "Yes." })
      assert.same({ "user go", "call c1", 'answer c1 {"paid":90}', "user Yes." }, outline(model.requests[3]))
      support.run(runner, "Thanks")
      assert.same({
        "user go", "call c1", 'answer c1 {"paid":90}', "user And?", "model Still waiting.", "user Yes.", "model Paid.",
        "user Thanks",
      }, outline(model.requests[4]))
    end)

    it("that sees its own turn only is shown the call", function()
      local runner, model = talk({
        "Hello.", payment, "Still waiting.", support.calls { "look", {}, "c2" }, "Paid.",
      }, { includeContents = "none" })
      support.run(runner, "hi")
      local requests = requestsIn(support.run(runner, "go"))
      support.run(runner, "And?")
      assert.same({ "user And?" }, outline(model.requests[3]))
      support.run(runner, answer { requests[1], text = "Yes." })
      assert.same({ "user go", "call c1", 'answer c1 {"paid":90}', "user Yes." }, outline(model.requests[4]))
      assert.same({
        "user go", "call c1", 'answer c1 {"paid":90}', "user And?", "model Still waiting.", "user Yes.", "call c2",
        'answer c2 {"sea":1}',
      }, outline(model.requests[5]))
    end)

    it("is shown the call where it lies before what the run sees", function()
      for window = 0, 9 do
        service = open()
        local both = support.calls({ "pay", { sum = 90 }, "c1" }, { "look", {}, "c2" })
        local runner, model = talk { both, "Two.", "Paid." }
        local requests = requestsIn(support.run(runner, "one"))
        support.run(runner, "two")
        local events = support.run(runner, {
          userId = "u", sessionId = "s", newMessage = answer { requests[1], text = "Yes." }, numRecentEvents = window,
        })
        assert.equal("Paid.", events[2]:text())
        local words = outline(model.requests[3])
        assert.same({ "call c1", "call c2", 'answer c1 {"paid":90}', 'answer c2 {"sea":1}', "user Yes." },
          table.move(words, #words - 4, #words, 1, {}))
      end
    end)

    it("sees the answers of a message that confirms one call and answers a later one", function()
      local runner, model = talk({ payment, support.calls { "wait", {}, "c2" }, "Both." }, { tools = {
        pay(), { name = "wait", longRunning = true, run = function() end },
      } })
      local requests = requestsIn(support.run(runner, "go"))
      support.run(runner, "and wait")
      local message = answer(requests)
      message.parts[2] = { functionResponse = { id = "c2", response = { ok = true } } }
      support.run(runner, message)
      assert.same({
        "user go", "call c1", 'answer c1 {"paid":90}', "user and wait", "call c2", 'answer c2 {"ok":true}',
      }, outline(model.requests[3]))
    end)

    it("that counts its ids anew sees the answer at the call that was confirmed", function()
      local runner, model = talk {
        payment, support.calls { "pay", { sum = 2 }, "c1" }, "Paid 90.", support.calls { "look", {}, "c1" }, "Paid 2.",
        "Bye.",
      }
      local first = requestsIn(support.run(runner, "go"))
      local second = requestsIn(support.run(runner, "more"))
      support.run(runner, answer(first))
      assert.same({ "user go", "call c1", 'answer c1 {"paid":90}' }, outline(model.requests[3]))
      support.run(runner, answer(second))
      assert.same({
        "user go", "call c1", 'answer c1 {"paid":90}', "user more", "call c1", 'answer c1 {"paid":2}',
      }, outline(model.requests[4]))
      assert.same({
        "user go", "call c1", 'answer c1 {"paid":90}', "user more", "call c1", 'answer c1 {"paid":2}', "model Paid 90.",
        "call c1", 'answer c1 {"sea":1}',
      }, outline(model.requests[5]))
      support.run(runner, "Thanks")
      assert.same({
        "user go", "call c1", 'answer c1 {"paid":90}', "user more", "call c1", 'answer c1 {"paid":2}', "model Paid 90.",
        "call c1", 'answer c1 {"sea":1}', "model Paid 2.", "user Thanks",
      }, outline(model.requests[6]))
    end)

    it("is told by another agent of the call and its answers alone", function()
      local clerk = moonpad.agent { name = "A", tools = { pay() },
        model = moonpad.models.scripted { payment, "Paid." } }
      local model = moonpad.models.scripted { "B1" }
      local runner = runnerOf(moonpad.sequentialAgent { name = "S", subAgents = {
        clerk, moonpad.agent { name = "B", model = model },
      } })
      support.run(runner, "go")
      assert.same({
        "user go", "user For context:", 'user [A] called tool `pay` with parameters: {"sum":90}', "user For context:",
        ('user [A] `pay` tool returned result: {"error":"%s"}'):format(REQUIRED),
      }, outline(model.requests[1]))
    end)

    it("sees the answer also where a tool has the words of the request in its own", function()
      local runner, model = talk({ support.calls { "log", { name = "adk_request_confirmation" }, "c1" }, "Done." }, {
        tools = { { name = "log", run = function(args) return args end } },
      })
      support.run(runner, "go")
      assert.equal('answer c1 {"name":"adk_request_confirmation"}', outline(model.requests[2])[3])
    end)
  end)

  describe("where it is asked:", function()
    it("agents in sequence go on, and the one that asked answers the confirmation alone", function()
      local runner = runnerOf(moonpad.sequentialAgent { name = "S", subAgents = {
        moonpad.agent { name = "A", tools = { pay() }, model = moonpad.models.scripted { payment, "Paid." } },
        moonpad.agent { name = "B", model = moonpad.models.scripted { "B1" } },
      } })
      local events = support.run(runner, "go")
      assert.equal("B1", events[#events]:text())
      local second = support.run(runner, answer(requestsIn(events)))
      assert.same({ 2, "A", "Paid." }, { #second, second[2].author, second[2]:text() })
    end)

    it("agents side by side each on its branch, confirmed in one message", function()
      local models, agents = {}, {}
      for index, name in ipairs { "A", "B" } do
        models[index] = moonpad.models.scripted {
          support.calls { "pay", { sum = index }, "c" .. index }, name .. " paid.",
        }
        agents[index] = moonpad.agent { name = name, tools = { pay() }, model = models[index] }
      end
      local runner = runnerOf(moonpad.parallelAgent { name = "P", subAgents = agents })
      local requests, branches = requestsIn(support.run(runner, "go")), {}
      assert.equal(2, #requests)
      local events = support.run(runner, answer { requests[2], requests[1], text = "Yes." })
      for index, event in ipairs(events) do branches[index] = event.branch end
      -- The branches may have asked in either order.
      local other = requests[1].args.originalFunctionCall.name == "pay"
        and requests[1].args.originalFunctionCall.args.sum == 1
      assert.same(other and { "P.B", "P.B", "P.A", "P.A" } or { "P.A", "P.A", "P.B", "P.B" }, branches)
      assert.same({ "user go", "call c1", 'answer c1 {"paid":1}', "user Yes." }, outline(models[1].requests[2]))
      assert.same({ "user go", "call c2", 'answer c2 {"paid":2}', "user Yes." }, outline(models[2].requests[2]))
    end)

    it("on one branch, the confirmation is of that branch", function()
      local runner = runnerOf(moonpad.parallelAgent { name = "P", subAgents = {
        moonpad.agent { name = "A", tools = { pay() }, model = moonpad.models.scripted { payment, "Paid." } },
        moonpad.agent { name = "B", model = function() return "B" end },
      } })
      local events = support.run(runner, "go")
      for _, event in ipairs(events) do
        if #requestsIn { event } == 1 then assert.equal("P.A", event.branch) end
      end
      local second = support.run(runner, answer(requestsIn(events)))
      assert.same({ "P.A", "P.A" }, { second[1].branch, second[2].branch })
      local stored = support.stored(service).events
      assert.equal("P.A", stored[#stored - 2].branch)
    end)

    it("an agent that the conversation was handed to goes on", function()
      local runner = runnerOf(moonpad.agent { name = "Root", subAgents = {
        moonpad.agent { name = "Clerk", disallowTransferToParent = true, tools = { pay() },
          model = moonpad.models.scripted { payment, "Paid." } },
      }, model = function() return support.calls { "transfer_to_agent", { agent_name = "Clerk" } } end })
      local events = support.run(runner, answer(requestsIn(support.run(runner, "go"))))
      assert.same({ "Clerk", "Clerk", "Paid." }, { events[1].author, events[2].author, events[2]:text() })
    end)

    it("a second run may hand the conversation over", function()
      local runner = runnerOf(moonpad.agent { name = "Root", subAgents = {
        moonpad.agent { name = "Clerk", model = function() return "Here." end },
      }, tools = { pay { run = function(_, context) context:transferToAgent "Clerk" end } },
        model = moonpad.models.scripted { payment } })
      local events = support.run(runner, answer(requestsIn(support.run(runner, "go"))))
      assert.same({ "Root", "Clerk", "Here." }, { events[1].author, events[2].author, events[2]:text() })
    end)

    it("a second run that skips the summarization ends the turn", function()
      local runner = talk({ payment }, { tools = {
        pay { run = function(_, context) context.actions.skipSummarization = true end },
      } })
      assert.equal(1, #support.run(runner, answer(requestsIn(support.run(runner, "go")))))
    end)

    it("in a loop each round asks anew", function()
      local runner = runnerOf(moonpad.loopAgent { name = "L", maxIterations = 2, subAgents = {
        moonpad.agent { name = "A", tools = { pay() }, model = moonpad.models.scripted {
          payment, support.calls { "pay", { sum = 2 }, "c2" }, "Paid.",
        } },
      } })
      local requests = requestsIn(support.run(runner, "go"))
      assert.equal(2, #requests)
      local events = support.run(runner, answer(requests))
      assert.equal(2, #events[1]:functionResponses())
      assert.equal("Paid.", events[2]:text())
    end)

    it("an agent that runs as a tool cannot ask: its model is told, and nothing runs", function()
      local ran, inner = 0, moonpad.models.scripted {
        support.calls({ "pay", {}, "c1" }, { "ask", {}, "c2" }), "I cannot pay.",
      }
      local function count() ran = ran + 1 end
      local clerk = moonpad.agent { name = "Clerk", model = inner, tools = {
        pay { run = count }, { name = "ask", run = function(_, context)
          context:requestConfirmation()
          count()
        end },
      } }
      local runner = talk({ support.calls { "Clerk", { request = "pay" }, "o1" }, "He cannot." },
        { tools = { moonpad.agentTool { agent = clerk } } })
      local events = support.run(runner, "go")
      assert.same({ result = "I cannot pay." }, events[2]:functionResponses()[1].response)
      for _, part in ipairs(inner.requests[2].contents[3].parts) do
        assert.equal('this call needs a confirmation, and agent "Clerk" runs as a tool: there is no user who could be '
          .. "asked", part.functionResponse.response.error)
      end
      assert.same({ 0, {} }, { ran, requestsIn(events) })
    end)
  end)

  it("an agent that runs as a tool may be confirmed itself", function()
    local clerk = moonpad.agent { name = "Clerk", model = function(request)
      return "I did: " .. request.contents[#request.contents].parts[1].text
    end }
    local inner = moonpad.agentTool { agent = clerk }
    local runner, model = talk({ support.calls { "Clerk", { request = "work" }, "c1" }, "He did." }, { tools = { {
      name = inner.name, parameters = inner.parameters, run = inner.run, requireConfirmation = true,
    } } })
    support.run(runner, answer(requestsIn(support.run(runner, "go"))))
    assert.same({ "user go", "call c1", 'answer c1 {"result":"I did: work"}' }, outline(model.requests[2]))
  end)

  it("asks a toolset anew", function()
    local asked = 0
    local runner, model = talk({ payment, "Paid." }, { tools = { { tools = function()
      asked = asked + 1
      local round = asked
      return { pay { run = function() return { round = round } end } }
    end } } })
    local requests = requestsIn(support.run(runner, "go"))
    assert.equal(1, asked)
    support.run(runner, answer(requests))
    assert.equal(3, asked)
    assert.equal('answer c1 {"round":2}', outline(model.requests[2])[3])
  end)

  it("of an invocation that ends: the model is not asked", function()
    local runner, model = talk({ payment }, { tools = { pay { run = function(_, context)
      context:endInvocation()
    end } } })
    assert.equal(1, #support.run(runner, answer(requestsIn(support.run(runner, "go")))))
    assert.equal(1, #model.requests)
  end)

  it("beforeAgentCallback that answers stands in for the agent: nothing runs", function()
    local ran, answers = 0, false
    local runner = talk({ payment }, { tools = { pay { run = function() ran = ran + 1 end } },
      beforeAgentCallback = function() return answers and "Closed." or nil end })
    local requests = requestsIn(support.run(runner, "go"))
    answers = true
    assert.equal("Closed.", support.run(runner, answer(requests))[1]:text())
    assert.equal(0, ran)
  end)

  it("leaves the output to the model's words", function()
    local runner = talk({ payment, "Paid." }, { outputKey = "said" })
    local requests = requestsIn(support.run(runner, "go"))
    assert.is_nil(support.stored(service).state.said)
    support.run(runner, answer(requests))
    assert.equal("Paid.", support.stored(service).state.said)
  end)

  it("of a run that is cancelled while the tool waits is used up, and the call stays as it was", function()
    local isWaiting = false
    local runner, model = talk({ payment, "Hello." }, { tools = { pay { run = function()
      isWaiting = true
      while true do coroutine.yield() end
    end } } })
    local requests = requestsIn(support.run(runner, "go"))
    local invocation = runner:start { userId = "u", sessionId = "s", newMessage = answer(requests) }
    support.stepUntil(invocation, function() return isWaiting end)
    invocation:cancel()
    support.run(runner, "hi")
    assert.same({ "user go", "call c1", open1, "user hi" }, outline(model.requests[2]))
    raises("invalid_argument", "answered already", support.run, runner, answer(requests))
  end)

  it("is nothing that a memory tells", function()
    local memory <close> = moonpad.memoryService "memory:"
    local runner = talk { payment, "Paid." }
    support.run(runner, answer { requestsIn(support.run(runner, "go"))[1], text = "Yes, pay." })
    memory:addSession(support.stored(service))
    local function search(query)
      return memory:searchMemory { appName = "app", userId = "u", query = query }.memories
    end
    assert.equal(0, #search "adk_request_confirmation")
    assert.equal(0, #search "approve")
    assert.equal(1, #search "yes")
  end)
end)
