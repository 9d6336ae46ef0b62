-- What a user of ADK counts on beyond a single answer: who goes on with a conversation, what a late
-- answer reaches, and where moonpad says that it differs.
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

local function text(words, role)
  return { role = role or "user", parts = { { text = words } } }
end

local function transferTo(name)
  return support.calls { "transfer_to_agent", { agent_name = name } }
end

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  -- An agent whose model gives these answers, one a call.
  local function scripted(name, answers, fields)
    local definition = { name = name, model = moonpad.models.scripted(answers) }
    for field, value in pairs(fields or {}) do definition[field] = value end
    return moonpad.agent(definition)
  end

  local function runnerOf(root, fields)
    local definition = { appName = "app", agent = root, sessionService = service }
    for name, value in pairs(fields or {}) do definition[name] = value end
    return moonpad.runner(definition)
  end

  local function said(events)
    local list = {}
    for index, event in ipairs(events) do list[index] = event.author .. ": " .. event:text() end
    return list
  end

  local function authors(events)
    local list = {}
    for index, event in ipairs(events) do list[index] = event.author end
    return list
  end

  describe("the conversation was handed over, and nothing came of it:", function()
    local function fail() error("out of order", 0) end

    it("the next message goes to the agent whose model has failed", function()
      local runner = runnerOf(scripted("R", { transferTo "B" }, { subAgents = { scripted("B", { fail, "here" }) } }))
      assert.equal("model", failure(support.run, runner, "one").code)
      assert.same({ "B: here" }, said(support.run(runner, "two")))
    end)

    it("to the one that has told no more than an error", function()
      local blocked = { errorCode = "SAFETY", errorMessage = "blocked" }
      local runner = runnerOf(scripted("R", { transferTo "B" }, { subAgents = { scripted("B", { blocked, "here" }) } }))
      local events = support.run(runner, "one")
      assert.same({ "R", "R", "B" }, authors(events))
      assert.equal("SAFETY", events[3].errorCode)
      assert.same({ "B: here" }, said(support.run(runner, "two")))
    end)

    it("to the one whose run was cancelled", function()
      local runner = runnerOf(scripted("R", { transferTo "B" }, { subAgents = { scripted("B", { "here" }) } }))
      for event in runner:run { userId = "u", sessionId = "s", newMessage = "one" } do
        if event.actions.transferToAgent then break end
      end
      assert.same({ "B: here" }, said(support.run(runner, "two")))
    end)

    it("to the one that a callback without words has named", function()
      local hand = true
      local runner = runnerOf(scripted("R", { "I am R", "and R again" }, {
        subAgents = { scripted("B", { fail, "here" }) },
        afterAgentCallback = function(context)
          if hand then context:transferToAgent "B" end
        end,
      }))
      assert.equal("model", failure(support.run, runner, "one").code)
      hand = false
      assert.same({ "B: here" }, said(support.run(runner, "two")))
    end)

    it("but to the root where that one could not give it back", function()
      local runner = runnerOf(scripted("R", { transferTo "B", "here" }, { subAgents = {
        scripted("B", { fail }, { disallowTransferToParent = true }),
      } }))
      assert.equal("model", failure(support.run, runner, "one").code)
      assert.same({ "R: here" }, said(support.run(runner, "two")))
    end)

    it("but to the root where a rewind took it back", function()
      local runner = runnerOf(scripted("R", { transferTo "B", "here" }, { subAgents = { scripted("B", { fail }) } }))
      failure(support.run, runner, "one")
      local session = support.stored(service)
      service:rewind(session, { invocationId = session.events[1].invocationId })
      assert.same({ "R: here" }, said(support.run(runner, "two")))
    end)

    it("and to the one before where the event names nobody of the tree", function()
      local runner = runnerOf(scripted("R", { transferTo "B" }, { subAgents = { scripted("B", { "one", "two" }) } }))
      support.run(runner, "one")
      service:appendEvent(support.stored(service), { author = "host", actions = { transferToAgent = "Nobody" } })
      assert.same({ "B: two" }, said(support.run(runner, "two")))
    end)
  end)

  describe("what an answer has cost", function()
    local usage = { totalTokenCount = 7 }

    it("is kept where the answer says nothing", function()
      local runner = runnerOf(scripted("A", { { usageMetadata = usage }, "two" }, { outputKey = "out" }))
      local events = support.run(runner, "one")
      assert.equal(1, #events)
      assert.same({ usage, "", false }, { events[1].usageMetadata, events[1]:text(), events[1]:isFinalResponse() })
      assert.same(usage, support.stored(service).events[2].usageMetadata)
      assert.is_nil(support.stored(service).state.out)
      -- There is nothing in it that a model could be shown.
      local model = moonpad.models.scripted { "ok" }
      support.run(runnerOf(moonpad.agent { name = "A", model = model }), "two")
      assert.same({ text "one", text "two" }, model.requests[1].contents)
    end)

    it("is kept where a stream tells it behind the answer, and no chunk is an event for it", function()
      local function chunks(list)
        return function()
          local index = 0
          return function()
            index = index + 1
            return list[index]
          end
        end
      end
      local runner = runnerOf(scripted("A", {
        chunks { { content = text("yes", "model") }, { usageMetadata = usage } },
        chunks { { partial = true, usageMetadata = usage }, "no", { usageMetadata = usage } },
      }))
      local events = support.run(runner, "one")
      assert.same({ "A: yes", "A: " }, said(events))
      assert.same({ nil, usage }, { events[1].usageMetadata, events[2].usageMetadata })
      events = support.run(runner, "two")
      assert.same({ "A: no", "A: no" }, said(events))
      assert.same({ true, usage }, { events[1].partial, events[2].usageMetadata })
    end)

    it("does not stop a model that has run code and is to go on", function()
      local code = { content = { parts = { { codeExecutionResult = { outcome = "OUTCOME_OK", output = "1" } } } } }
      local sent = { code, { usageMetadata = usage } }
      local runner = runnerOf(scripted("A", {
        function() return function() return table.remove(sent, 1) end end, "It is 1.",
      }))
      assert.same({ "A: ", "A: ", "A: It is 1." }, said(support.run(runner, "one")))
    end)
  end)

  local ask = { name = "ask", longRunning = true, run = function() end }

  local function answer(...)
    local parts = {}
    for index, id in ipairs { ... } do parts[index] = { functionResponse = { id = id, response = { ok = id } } } end
    return { parts = parts }
  end

  local function response(id, name, value)
    return { functionResponse = { id = id, name = name, response = value } }
  end

  describe("a late answer", function()
    local function asking(name, answers, fields)
      fields = fields or {}
      fields.tools = fields.tools or { ask }
      return scripted(name, answers, fields)
    end

    it("reaches the agent that asked, and nobody behind it in a sequence", function()
      local runner = runnerOf(moonpad.sequentialAgent { name = "S", subAgents = {
        asking("A", { support.calls { "ask", {}, "i1" }, "got it" }), scripted("B", { "b1", "b2" }),
      } })
      assert.same({ "A: ", "B: b1" }, said(support.run(runner, "go")))
      assert.same({ "A: got it" }, said(support.run(runner, answer "i1")))
    end)

    it("stands behind its call, in the order of the calls; what is still open is pending", function()
      local model = moonpad.models.scripted {
        support.calls({ "ask", {}, "i1" }, { "ask", {}, "i2" }), "one", "two",
      }
      local runner = runnerOf(moonpad.agent { name = "A", model = model, tools = { ask } })
      support.run(runner, "go")
      support.run(runner, answer "i2")
      support.run(runner, answer "i1")
      local pending, first = { status = "pending" }, response("i1", "ask", { ok = "i1" })
      assert.same({ response("i1", "ask", pending), response("i2", "ask", { ok = "i2" }) },
        model.requests[2].contents[3].parts)
      assert.same({ first, response("i2", "ask", { ok = "i2" }) }, model.requests[3].contents[3].parts)
    end)

    it("leaves the answers to other calls that came since behind theirs", function()
      local model = moonpad.models.scripted {
        support.calls { "ask", {}, "i1" }, support.calls { "ask", {}, "i2" }, "one", "two",
      }
      local runner = runnerOf(moonpad.agent { name = "A", model = model, tools = { ask } })
      for _, message in ipairs { "go", "once more", answer "i1", answer "i2" } do support.run(runner, message) end
      local shown = {}
      for _, content in ipairs(model.requests[4].contents) do
        local part = content.parts[1]
        local held = part.functionCall or part.functionResponse
        shown[#shown + 1] = held and held.id .. (part.functionCall and "?" or "!") or part.text
      end
      assert.same({ "go", "i1?", "i1!", "once more", "i2?", "i2!" }, shown)
    end)

    it("leaves a text beside it a content of its own", function()
      local model = moonpad.models.scripted { support.calls { "ask", {}, "i1" }, "one" }
      local runner = runnerOf(moonpad.agent { name = "A", model = model, tools = { ask } })
      support.run(runner, "go")
      local message = answer "i1"
      message.parts[2] = { text = "be quick" }
      support.run(runner, message)
      local contents = model.requests[2].contents
      assert.same({ { role = "user", parts = { response("i1", "ask", { ok = "i1" }) } }, text "be quick" },
        { contents[3], contents[4] })
    end)

    it("shows an agent without history the message that led to the call", function()
      local model = moonpad.models.scripted { "hello", support.calls { "ask", {}, "i1" }, "one" }
      local runner = runnerOf(moonpad.agent {
        name = "A", model = model, tools = { ask }, includeContents = "none",
      })
      support.run(runner, "before")
      support.run(runner, "go")
      support.run(runner, answer "i1")
      assert.same({
        text "go", { role = "model", parts = { { functionCall = { id = "i1", name = "ask", args = {} } } } },
        { role = "user", parts = { response("i1", "ask", { ok = "i1" }) } },
      }, model.requests[3].contents)
    end)

    it("is no reason to change what its tool says of itself", function()
      local model = moonpad.models.scripted { "ok" }
      local tool = { name = "ask", description = "Asks.", longRunning = true, run = function() end }
      support.run(runnerOf(moonpad.agent { name = "A", model = model, tools = { tool } }), "go")
      assert.equal("Asks.", model.requests[1].tools[1].description)
    end)
  end)

  describe("a transfer", function()
    it("by a model reaches sub-agents, parent and peers; by code, any agent of the tree", function()
      local function tree(answers, tools)
        return scripted("R", answers, { tools = tools, subAgents = {
          scripted("B", { "b" }, { subAgents = { scripted("C", { "c" }) } }),
        } })
      end
      local events = support.run(runnerOf(tree { transferTo "C", "it is me" }), "go")
      assert.same({ "R", "R", "R" }, authors(events))
      assert.matches('"C" is not one of "B"', events[2]:functionResponses()[1].response.error)
      local go = { name = "go", run = function(_, context) context:transferToAgent "C" end }
      local runner = runnerOf(tree({ support.calls { "go", {} } }, { go }))
      events = support.run(runner, { userId = "u", sessionId = "code", newMessage = "go" })
      assert.same({ "R", "R", "C" }, authors(events))
    end)

    it("is not forbidden by an outputSchema, which keeps the conversation", function()
      local runner = runnerOf(scripted("R", { transferTo "B" }, { subAgents = {
        scripted("B", { '{"n":1}', '{"n":2}' }, { outputSchema = { type = "object" } }),
      } }))
      support.run(runner, "one")
      assert.same({ 'B: {"n":2}' }, said(support.run(runner, "two")))
    end)

    it("shows an agent without history how it came about, not the user's message", function()
      local model = moonpad.models.scripted { "b" }
      local runner = runnerOf(scripted("R", { transferTo "B" }, { subAgents = {
        moonpad.agent { name = "B", model = model, includeContents = "none" },
      } }))
      support.run(runner, "go")
      assert.same({ { role = "user", parts = {
        { text = "For context:" }, { text = '[R] `transfer_to_agent` tool returned result: {"result":"ok"}' },
      } } }, model.requests[1].contents)
    end)
  end)

  describe("a run without a message", function()
    it("asks the agent with what is there, be it nothing", function()
      local model = moonpad.models.scripted { "one", "two" }
      local runner = runnerOf(moonpad.agent { name = "A", model = model })
      assert.same({ "A: one" }, said(support.run(runner, { userId = "u", sessionId = "s" })))
      assert.same({}, model.requests[1].contents)
      support.run(runner, { userId = "u", sessionId = "s" })
      assert.same({ text("one", "model") }, model.requests[2].contents)
    end)

    it("keeps its changes of state on an event of their own", function()
      local runner = runnerOf(scripted("A", { "one" }))
      support.run(runner, { userId = "u", sessionId = "s", stateDelta = { n = 1 } })
      local stored = support.stored(service)
      assert.same({ "user", { n = 1 } }, { stored.events[1].author, stored.events[1].actions.stateDelta })
      assert.is_nil(stored.events[1].content)
    end)
  end)

  describe("one model call", function()
    it("runs the tools of all its responses when it is over", function()
      local log = {}
      local look = { name = "look", run = function(args) log[#log + 1] = "look " .. args.n end }
      local function chunks()
        local count = 0
        return function()
          count = count + 1
          log[#log + 1] = "chunk " .. count
          return count <= 2 and support.calls { "look", { n = count } } or nil
        end
      end
      local events = support.run(runnerOf(scripted("A", { chunks, "done" }, { tools = { look } })), "go")
      assert.same({ "chunk 1", "chunk 2", "chunk 3", "look 1", "look 2" }, log)
      assert.equal(4, #events)
      assert.equal(2, #events[3]:functionResponses())
    end)

    it("that fails leaves nothing but the message", function()
      local runner = runnerOf(scripted("A", { function() error("out of order", 0) end }))
      failure(support.run, runner, "go")
      assert.same({ "user" }, authors(support.stored(service).events))
    end)

    it("shows the model an event that says something behind an empty text", function()
      local model = moonpad.models.scripted { { content = { parts = { { text = "" }, { text = "x" } } } }, "ok" }
      local runner = runnerOf(moonpad.agent { name = "A", model = model })
      support.run(runner, "one")
      support.run(runner, "two")
      assert.equal("x", model.requests[2].contents[2].parts[2].text)
    end)
  end)

  describe("a template", function()
    local values = { x = "text", t = { a = 1 } }
    local function filled(template)
      return moonpad.injectSessionState(template, moonpad.state(values))
    end

    it("with something in it that ADK would leave alone", function()
      assert.equal("1 <p> {k.y} {1x}", filled "{t.a} <p> {k.y} {1x}")
      assert.equal('{"a": text}, {x}, <x>', filled [[{"a": {x}}, \{x}, \<x>]])
      for _, template in ipairs { "{x.y}", "<x.y>", "{x[1]}", "{t.b}", "<app:k>", "<user:k>" } do
        assert.equal("template", failure(filled, template).code)
        assert.equal("", filled((template:gsub("[}>]$", "?%0"))))
      end
    end)

    it("of a ported prompt leaves angles alone where the agent says braces", function()
      local model = moonpad.models.scripted { "ok" }
      support.run(runnerOf(moonpad.agent {
        name = "A", model = model, instruction = "<app:k> <x> {n?}.", templateSyntax = "braces",
      }), "go")
      assert.equal("<app:k> <x> .", model.requests[1].systemInstruction)
    end)
  end)
end)
