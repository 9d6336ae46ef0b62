-- moonpad.testing: what people test their agents with must itself tell right from wrong, readably.
local moonpad = require "moonpad"
local testing = require "moonpad.testing"

local function message(...)
  local ok, err = pcall(...)
  assert.is_false(ok)
  return type(err) == "table" and (err.message or tostring(err)) or tostring(err)
end

local function callTo(name, args)
  return { content = { role = "model", parts = { { functionCall = { name = name, args = args } } } } }
end

describe("testing.toolContext", function()
  it("gives a tool a real context over the state that is given", function()
    local context = testing.toolContext {
      state = { cart = { "tea" }, ["user:name"] = "Ann", ["temp:note"] = 1 },
      userContent = "Hi", functionCallId = "c7",
    }
    table.insert(context.state.cart, "milk")
    assert.are.equal('["tea","milk"]', tostring(context.state.cart))
    assert.are.equal(1, context.state["temp:note"])
    assert.are.equal("Hi", context.userContent.parts[1].text)
    assert.are.equal("c7", context.functionCallId)
    assert.is_true(context.state:hasDelta())
    assert.is_nil(context.state:delta()["user:name"])
  end)

  it("needs nothing, and refuses what it does not know", function()
    assert.are.same({}, testing.toolContext().state:getAll())
    assert.matches("stat: unknown field, did you mean state", message(testing.toolContext, { stat = {} }))
  end)
end)

describe("testing.scriptedModel", function()
  local function ask(model, text)
    local agent = moonpad.agent { name = "A", model = model, instruction = "Be kind." }
    return testing.run { agent = agent, messages = text }
  end

  it("answers step by step", function()
    local model = testing.scriptedModel { "one", { reply = "two" }, function() return "three" end }
    assert.are.same({ "one", "two", "three" }, ask(model, { "a", "b", "c" }).replies)
    model:assertDone()
  end)

  it("says what it was asked instead", function()
    local model = testing.scriptedModel { { expect = { text = "tea" }, reply = "yes" } }
    local says = message(ask, model, "coffee")
    assert.matches('expected to be asked "tea", was asked "coffee"', says, 1, true)
    model = testing.scriptedModel { { expect = { instruction = "rude" }, reply = "yes" } }
    assert.matches('expected the instruction to say "rude"', message(ask, model, "coffee"), 1, true)
    model = testing.scriptedModel { { expect = { tools = { "order" } }, reply = "yes" } }
    assert.matches("expected the tools [order], got []", message(ask, model, "coffee"), 1, true)
    model = testing.scriptedModel { { expect = { functionResponse = { f = { ok = true } } }, reply = "yes" } }
    assert.matches('expected the answers of tools {"f":{"ok":true}}, got {}', message(ask, model, "coffee"), 1, true)
  end)

  it("fails when it is asked too often, or not often enough", function()
    assert.matches("the script ends after step 1", message(ask, testing.scriptedModel { "one" }, { "a", "b" }))
    local model = testing.scriptedModel { "one", "two" }
    ask(model, "a")
    assert.matches("1 of 2 steps", message(model.assertDone, model))
  end)

  it("does not forget what it was asked instead where somebody answered for it", function()
    local model = testing.scriptedModel { { expect = { text = "tea" }, reply = "yes" } }
    local agent = moonpad.agent { name = "A", model = model, onModelErrorCallback = function() return "sorry" end }
    assert.are.equal("sorry", testing.run({ agent = agent, messages = "coffee" }).text)
    assert.matches('call 1: expected to be asked "tea", was asked "coffee"', message(model.assertDone, model), 1, true)
    testing.run { agent = agent, messages = "tea" }
    assert.matches('call 1: expected to be asked "tea"', message(model.assertDone, model), 1, true)
    model = testing.scriptedModel { { expect = function() error("not this", 0) end, reply = "yes" } }
    message(ask, model, "coffee")
    assert.matches("not this", message(model.assertDone, model))
  end)

  it("refuses a misspelt step", function()
    assert.matches("instructions: unknown field, did you mean instruction",
      message(testing.scriptedModel, { { expect = { instructions = "x" }, reply = "y" } }))
  end)
end)

describe("testing.clock", function()
  it("is the time of a service that was opened with it", function()
    local clock = testing.clock(1000)
    local service = moonpad.open("memory:", { clock = clock })
    local session = service:createSession { appName = "a", userId = "u" }
    assert.are.equal(1000.0, session.createTime)
    clock:advance(2.5)
    assert.are.equal(1002.5, service:appendEvent(session, {}).timestamp)
    clock:set(5)
    assert.are.equal(5.0, service:appendEvent(session, {}).timestamp)
    assert.are.equal(5.0, clock:now())
  end)

  it("keeps its finalizer to itself", function()
    assert.is_false(getmetatable(testing.clock(1)))
  end)

  it("must show a time since 1970 to whoever asks it", function()
    local clock = testing.clock(1000)
    local service = moonpad.open("memory:", { clock = clock })
    local session = service:createSession { appName = "a", userId = "u" }
    local agent = moonpad.agent { name = "helper", model = testing.scriptedModel { "done" } }
    local runner = moonpad.runner { appName = "a", agent = agent, sessionService = service }
    local hello = { userId = "u", sessionId = session.id, newMessage = "hello" }
    local function refused(call, ...)
      local ok, err = pcall(call, ...)
      assert.is_false(ok)
      assert.are.equal("invalid_argument", err.code)
      assert.matches("the clock gives .*: a time is a finite number of seconds since 1970", err.message)
    end
    local function ask()
      refused(service.createSession, service, { appName = "a", userId = "u" })
      refused(service.appendEvent, service, session, {})
      session.state.k = 1
      refused(service.updateSession, service, session)
      refused(service.fork, service, session, { at = 0 })
      refused(function() for _ in runner:run(hello) do error "no event" end end)
      assert.are.equal(0, #service:getSession { appName = "a", userId = "u", sessionId = session.id }.events)
    end
    clock:set(-1)
    ask()
    clock:set(1.7e308)
    clock:advance(1.7e308)
    ask()
    clock:set(0)
    assert.are.equal(0.0, service:updateSession(session).timestamp)
    for event in runner:run(hello) do assert.are.equal("done", event:text()) end
  end)

  it("takes seconds only, and is taken only as what it is", function()
    assert.matches("seconds", message(testing.clock, "noon"))
    assert.matches("colon", message(testing.clock(1).advance, 1))
    assert.matches("clock", message(moonpad.open, "memory:", { clock = "noon" }))
  end)
end)

describe("assert.has_state", function()
  local session
  before_each(function()
    session = moonpad.open("memory:"):createSession { appName = "a", userId = "u", state = { n = 1, list = { 1, 2 } } }
  end)

  it("looks at sessions, contexts and states, and only at the keys given", function()
    assert.has_state(session, { n = 1 })
    assert.has_state(session.state, { list = { 1, 2 }, other = moonpad.removed })
    assert.has_state(testing.toolContext { state = { k = "v" } }, { k = "v" })
  end)

  it("says what is different", function()
    local text = message(function() assert.has_state(session, { n = 1.0, list = { 1 }, gone = true }) end)
    assert.matches("n: expected 1.0, there is 1", text, 1, true)
    assert.matches("list: expected [1], there is [1,2]", text, 1, true)
    assert.matches("gone: expected true, there is nothing", text, 1, true)
  end)

  it("can be turned round", function()
    assert.is_false(pcall(function() assert.has_state(session, { n = 2 }) end))
    assert.not_has_state(session, { n = 2 })
  end)
end)

describe("assert.state_delta", function()
  it("compares the whole delta, deletions included", function()
    local event = { actions = { stateDelta = { a = 1, gone = moonpad.removed } } }
    assert.state_delta(event, { a = 1, gone = moonpad.removed })
    assert.state_delta({}, {})
    assert.matches("expected an event, got nil", message(function() assert.state_delta(nil, {}) end), 1, true)
    assert.matches("take one of them", message(function() assert.state_delta({ events = { event } }, {}) end), 1, true)
    local text = message(function() assert.state_delta(event, { a = 2, b = 3 }) end)
    assert.matches("a: expected 2, got 1", text, 1, true)
    assert.matches("b: expected 3, got nothing", text, 1, true)
    assert.matches("gone: unexpected, moonpad.removed", text, 1, true)
  end)
end)

describe("testing.run", function()
  it("returns events, answers and the stored session", function()
    local agent = moonpad.agent {
      name = "Echo",
      tools = { moonpad.tool { name = "note", run = function(_, context) context.state.noted = true end } },
      model = testing.scriptedModel { callTo("note", {}), "done" },
    }
    local result = testing.run { agent = agent, messages = { "go" }, state = { start = 1 }, clock = testing.clock(7) }
    assert.are.equal("done", result.text)
    assert.are.equal(3, #result.events)
    assert.has_state(result.session, { start = 1, noted = true })
    assert.are.equal(7.0, result.session.lastUpdateTime)
  end)

  -- An agent that says what it finds in its state.
  local function reader(keys)
    return moonpad.agent { name = "Reader", model = function(_, context)
      local found = {}
      for index, key in ipairs(keys) do found[index] = tostring(context.state[key]) end
      context.state["temp:x"] = "changed"
      return table.concat(found, " ")
    end }
  end

  it("gives the agent the temp: keys of its state, with each message", function()
    local result = testing.run { agent = reader { "temp:x", "a" }, messages = { "1", "2" },
      state = { ["temp:x"] = "here", a = 1 } }
    assert.are.same({ "here 1", "here 1" }, result.replies)
    assert.are.same({ a = 1 }, result.session.state:getAll())
    assert.are.equal("here nil", testing.run {
      agent = reader { "temp:x", "a" }, messages = "1", state = moonpad.state { ["temp:x"] = "here" },
    }.text)
  end)

  it("writes its state to a session that is there, too", function()
    local service = moonpad.open "memory:"
    local session = service:createSession {
      appName = "app", userId = "user", sessionId = "session", state = { a = 1, b = 2 },
    }
    local agent = reader { "a", "b", "user:c" }
    local result = testing.run { service = service, agent = agent, messages = "1", state = { a = 5, ["user:c"] = 6 } }
    assert.are.equal("5 2 6", result.text)
    assert.are.same({ a = 1, b = 2 }, service:stateAt(session, 0))
    assert.are.equal("5 2 6", testing.run { service = service, agent = agent, messages = "2" }.text)
  end)

  it("takes what a runner takes", function()
    local artifacts, memory = moonpad.artifactService "memory:", moonpad.memoryService "memory:"
    local seen = {}
    local agent = moonpad.agent { name = "A", instruction = "<topic>", model = function(request, context)
      seen[#seen + 1] = request.systemInstruction
      context:saveArtifact("note", "text")
      return #context:searchMemory("x").memories .. " memories"
    end }
    local plugin = { afterRun = function() seen[#seen + 1] = "plugin" end }
    local result = testing.run {
      agent = agent, messages = "go", state = { topic = "sea" }, artifactService = artifacts, memoryService = memory,
      plugins = { plugin }, templateSyntax = "braces",
    }
    assert.are.equal("0 memories", result.text)
    assert.are.same({ "<topic>", "plugin" }, seen)
    assert.are.same({ "note" }, artifacts:list { appName = "app", userId = "user", sessionId = "session" })
    local ok, err = pcall(testing.run, { agent = moonpad.agent {
      name = "A", model = moonpad.models.scripted { callTo("none", {}), callTo("none", {}), "done" },
    }, messages = "go", maxLlmCalls = 2 })
    assert.are.same({ false, "limit" }, { ok, err.code })
  end)

  it("refuses what would have no effect", function()
    local agent, service = reader {}, moonpad.open "memory:"
    for field, options in pairs {
      artifactService = { artifactService = {} }, clock = { service = service, clock = testing.clock(1) },
      state = { state = 5 }, messages = { messages = 5 }, sessionService = { sessionService = service },
      colour = { colour = "red" },
    } do
      options.agent = agent
      local ok, err = pcall(testing.run, options)
      assert.is_false(ok)
      assert.are.equal("invalid_argument", err.code)
      assert.matches(field, err.message)
    end
  end)
end)

describe("models.scripted", function()
  it("is the same model, without expectations", function()
    local model = moonpad.models.scripted { "one", { content = "two" }, function() return "three" end, "four" }
    local agent = moonpad.agent { name = "A", model = model }
    assert.are.same({ "one", "two", "three" }, testing.run({ agent = agent, messages = { "a", "b", "c" } }).replies)
    assert.matches("scripted: 3 of 4 steps were asked for", message(model.assertDone, model))
    testing.run { agent = agent, messages = "d" }
    model:assertDone()
    local says = "scripted, call 5: the script ends after step 4"
    assert.matches(says, message(testing.run, { agent = agent, messages = "e" }))
    assert.matches(says, message(model.assertDone, model))
    assert.are.equal(5, #model.requests)
  end)
end)
