-- The boundary between Lua and C: handles, collection, opening the module again, calls
-- made wrongly.
local moonpad = require "moonpad"
local core = require "moonpad.core"
local support = require "spec.support"
local rarely = require("spec.support.turns").rarely

local function open(config)
  return moonpad.open("memory:", config)
end

local function create(service, state)
  return service:createSession { appName = "app", userId = "u", sessionId = "s", state = state }
end

local function failure(call, ...)
  local ok, err = pcall(call, ...)
  assert.is_false(ok)
  assert.is_true(core.isError(err), tostring(err))
  return err
end

local function message(code, call, ...)
  local err = failure(call, ...)
  assert.equal(code, err.code)
  return err.message
end

---The call is refused with this message.
local function refused(expected, call, ...)
  assert.equal(expected, message("invalid_argument", call, ...))
end

local function collect()
  collectgarbage()
  collectgarbage()
end

describe("opening the module again", function()
  local function reopen()
    local kept = package.loaded["moonpad.core"]
    package.loaded["moonpad.core"] = nil
    local again = require "moonpad.core"
    package.loaded["moonpad.core"] = kept
    assert.are_not.equal(kept, again)
    return again
  end

  it("keeps types, marks and sentinels the same", function()
    local again = reopen()
    assert.equal(core.null, again.null)
    assert.equal(core.removed, again.removed)
    assert.equal(getmetatable(core.newError("tool", "x")), getmetatable(again.newError("tool", "x")))
    assert.equal(core.eventMethods, again.eventMethods)
    assert.equal("[]", again.json.encode(core.array {}))
    assert.is_true(again.isError(failure(core.json.encode, print)))
  end)

  it("works with objects of the first opening", function()
    local service <close> = open()
    local session = create(service, { cart = { 1 } })
    local again = reopen()
    local changes = again.beginChanges(session)
    changes.cart[2] = 2
    assert.equal(1, again.commit(changes, { author = "x" }).revision)
    assert.equal("[1,2]", again.json.encode(session.state.cart))
  end)
end)

describe("calls made wrongly", function()
  local service, session
  before_each(function()
    service = open()
    session = create(service, { k = { 1 } })
  end)
  after_each(function() service:close() end)

  it("with a dot instead of a colon say so", function()
    refused("service.getSession: call it with a colon, service:getSession(...)",
      service.getSession, { appName = "app" })
    refused("state.get: call it with a colon, state:get(...)", session.state.get, "k")
    refused("state.increment: call it with a colon, state:increment(...)", session.state.increment)
    refused("service.close: call it with a colon, service:close(...)", service.close)
  end)

  it("with a colon instead of a dot say so, and leave the module alone", function()
    for _, name in ipairs { "agent", "sequentialAgent", "agentTool", "tool", "runner", "event", "state", "array",
      "toTable" } do
      local ok, err = pcall(function() return moonpad[name](moonpad, { name = "A" }), "no tail call" end)
      assert.is_false(ok, name)
      assert.equal("invalid_argument", err.code)
      assert.matches("got the module moonpad: call its functions with a dot, not with a colon$", err.message)
    end
    for _, name in ipairs { "open", "artifactService", "memoryService" } do
      local ok, err = pcall(moonpad[name], moonpad, "memory:")
      assert.is_false(ok, name)
      assert.matches("url: expects a string, got the module moonpad %(call its functions with a dot%)", err.message)
    end
    assert.is_table(moonpad.models)
    assert.equal("[]", moonpad.json.encode(moonpad.array {}))
  end)

  it("with every method on something else raise, never crash", function()
    local values = { 1, "x", {}, print, moonpad.null, io.stdout, session, session.events, session.state.k,
      coroutine.create(print) }
    for _, object in ipairs { service, session.state } do
      local methods = object == service and getmetatable(service).__index
        or { get = 1, set = 1, has = 1, delete = 1, update = 1, setDefault = 1, getAll = 1, toTable = 1, hasDelta = 1,
          delta = 1, increment = 1, append = 1 }
      for name in pairs(methods) do
        for _, value in ipairs(values) do
          assert.equal("invalid_argument", failure(object[name], value, value).code, name)
        end
        assert.equal("invalid_argument", failure(object[name]).code, name)
      end
    end
  end)

  it("with metamethods called by hand raise, never crash", function()
    for _, object in ipairs { service, session, session.state, session.events, session.state.k } do
      local meta = debug.getmetatable(object)
      for name, metamethod in pairs(meta) do
        if type(metamethod) == "function" then
          for _, value in ipairs { 1, {}, io.stdout, moonpad.null } do
            local ok, err = pcall(metamethod, value, value)
            assert.is_true(ok or core.isError(err) or type(err) == "string", name)
          end
        end
      end
    end
    assert.equal(1, session.state.k[1])
  end)

  it("with a field that is not known name the nearest", function()
    refused("service:createSession: sesionId: unknown field, did you mean sessionId?",
      service.createSession, service, { appName = "app", userId = "u", sesionId = "x" })
    refused("service:createSession: user_id: unknown field, did you mean userId?",
      service.createSession, service, { appName = "app", user_id = "u" })
    refused("service:getAppState: colour: unknown field (known: appName)",
      service.getAppState, service, { appName = "app", colour = "u" })
    assert.matches("^service:getSession: fields are given by name",
      message("invalid_argument", service.getSession, service, { "app" }))
    refused("open: durabilty: unknown field, did you mean durability?", open, { durabilty = "full" })
  end)

  it("with a field of the wrong type or without one say which", function()
    refused("service:getSession: appName is missing", service.getSession, service, {})
    refused("service:getSession: expects a table of named fields, got nil", service.getSession, service)
    refused("service:getSession: userId: expects a string, got a number",
      service.getSession, service, { appName = "app", userId = 7, sessionId = "s" })
    refused("service:getSession: numRecentEvents: expects an integer, got a number",
      service.getSession, service,
      { appName = "app", userId = "u", sessionId = "s", numRecentEvents = 1.5 })
    refused('service:listSessions: order: expects "oldest" or "newest", got "up"',
      service.listSessions, service, { appName = "app", order = "up" })
    refused("service:refresh: expects a session object, got a table", service.refresh, service, {})
    refused("service:appendEvent: event: expects a table, got nil", service.appendEvent, service, session)
    assert.is_not_nil(service:getSession { appName = "app", userId = "u", sessionId = "s", numRecentEvents = 1.0 })
  end)

  it("on another service's session are refused", function()
    local other <close> = open()
    assert.matches("another service", message("invalid_argument", other.updateSession, other, session))
  end)

  it("by assigning to a session or its events say what to do", function()
    assert.matches("assign to its keys", message("invalid_argument", function() session.state = {} end))
    assert.matches("^session%.id: ", message("invalid_argument", function() session.id = "x" end))
    assert.matches("appendEvent", message("invalid_argument", function() session.events[1] = {} end))
    assert.is_nil(session.nope)
  end)

  it("by a misspelt field of a session or method of a service name the one that was meant", function()
    for given, meant in pairs { last_update_time = "lastUpdateTime", event = "events", UserId = "userId" } do
      assert.matches(("^session: %s: unknown field, did you mean %s?"):format(given, meant),
        message("invalid_argument", function() return session[given] end))
    end
    local artifacts <close> = moonpad.artifactService "memory:"
    local memory <close> = moonpad.memoryService "memory:"
    local misspelt = { create_session = "createSession", appendEvnt = "appendEvent", getsession = "getSession" }
    for given, meant in pairs(misspelt) do
      assert.matches(("^service: %s: unknown field, did you mean %s?"):format(given, meant),
        message("invalid_argument", function() return service[given](service, {}) end))
    end
    assert.matches("^artifacts%.save_artifact: unknown field, did you mean saveArtifact?",
      message("invalid_argument", function() return artifacts:save_artifact {} end))
    assert.matches("^memory%.search_memory: unknown field, did you mean searchMemory?",
      message("invalid_argument", function() return memory:search_memory {} end))
    for _, object in ipairs { session, service, artifacts, memory } do
      for _, name in ipairs { "", "x", "foo", "undo", "somethingElse", "somewhere\0", ("x"):rep(1000), 1, true, {} } do
        assert.is_nil(object[name])
      end
    end
  end)
end)

describe("error objects", function()
  it("read well, know their place, and can be put into a string", function()
    local err = failure(function() moonpad.json.encode(print) end)
    assert.equal("invalid_argument", err.code)
    assert.matches("^invalid_argument: value: a function cannot be encoded", tostring(err))
    assert.matches("binding_spec%.lua:%d+$", err.where)
    assert.matches("^failed: invalid_argument: ", "failed: " .. err)
  end)

  it("know the user's line when moonpad's own Lua raises them", function()
    local function here() return debug.getinfo(2, "l").currentline end
    local place
    local err = failure(function()
      place = here() + 1
      local agent = moonpad.agent { nam = "x" }
      return agent
    end)
    assert.matches("binding_spec%.lua:" .. place .. "$", err.where)
    err = failure(function()
      place = here() + 1
      local tool = moonpad.tool { name = "t", run = 5 }
      return tool
    end)
    assert.matches("binding_spec%.lua:" .. place .. "$", err.where)
    err = failure(function() return moonpad.agent { nam = "x" } end)
    assert.is_nil(err.where) -- a tail call leaves no line of the user's behind
  end)

  it("are made and raised by core.error and core.newError", function()
    local err = core.newError("model", "no answer", { status = 500 })
    assert.is_true(core.isError(err))
    assert.same({ "model", "no answer", 500, "model: no answer" }, { err.code, err.message, err.status, tostring(err) })
    assert.equal("no", failure(core.error, "tool", "no").message)
    assert.is_false(core.isError({ code = "x" }))
    assert.is_false(core.isError "x")
  end)

  it("of a conflict carry keys and event", function()
    local service <close> = open()
    local mine = create(service, { x = 1 })
    local theirs = service:getSession { appName = "app", userId = "u", sessionId = "s" }
    theirs.state.x = 2
    service:updateSession(theirs)
    local event = { author = "me", actions = { stateDelta = { x = 3 } } }
    local err = failure(service.appendEvent, service, mine, event)
    assert.same({ "conflict", { "x" } }, { err.code, err.keys })
    assert.equal(event, err.event)
    mine.state.x = moonpad.null
    mine.state.y = nil
    err = failure(service.updateSession, service, mine)
    assert.same({ "conflict", { "x" } }, { err.code, err.keys })
    assert.equal(moonpad.null, err.event.actions.stateDelta.x)
  end)
end)

describe("handles", function()
  it("close for good, with <close> and twice", function()
    local kept
    do
      local service <close> = open()
      kept = service
      assert.equal("moonpad.service (memory:)", tostring(service))
    end
    assert.equal("moonpad.service (closed)", tostring(kept))
    kept:close()
    assert.equal("closed", failure(create, kept).code)
  end)

  it("show no password #databases", function()
    -- No server is there, nor such a store.
    for url, code in pairs {
      ["redis://:hunter2@127.0.0.1:1/0"] = "storage", ["mongodb://:hunter2@127.0.0.1:1/0"] = "unsupported",
    } do
      local err = failure(moonpad.open, url)
      assert.equal(code, err.code)
      assert.is_nil(tostring(err):find("hunter2", 1, true))
    end
  end)

  it("of a session read on after close, and fail to write", function()
    local service = open()
    local session = create(service, { cart = { 1 } })
    service:close()
    assert.equal(1, session.state.cart[1])
    session.state.cart[1] = 2
    assert.equal("closed", failure(service.updateSession, service, session).code)
  end)

  it("keep what they need alive, whichever is let go first", function()
    local cart, events, state
    do
      local service = open()
      local session = create(service, { cart = { { n = 1 } } })
      service:appendEvent(session, { author = "user" })
      cart, events, state = session.state.cart, session.events, session.state
    end
    collect()
    assert.equal(1, cart[1].n)
    cart[1].n = 2
    assert.equal(2, state.cart[1].n)
    assert.equal(cart, state.cart)
    assert.equal("user", events[1].author)
    state, events = nil, nil -- luacheck: ignore 311
    collect()
    cart[2] = { n = 3 }
    assert.equal('[{"n":2},{"n":3}]', tostring(cart))
  end)

  it("say what they are, and states what they hold", function()
    local service <close> = open()
    local session = create(service, { cart = { 1 }, ["user:name"] = "Ann" })
    assert.equal("moonpad.session (app/u/s, revision 0)", tostring(session))
    session.state.n = 1.0
    local shown = '{"cart":[1],"n":1.0,"user:name":"Ann"}'
    assert.equal("moonpad.state (session s) " .. shown, tostring(session.state))
    assert.equal("moonpad.events (of session s)", tostring(session.events))
    assert.equal("moonpad.state (of no session) {}", tostring(moonpad.state {}))
    assert.equal("moonpad.state (session s, read-only) " .. shown, tostring(core.readOnly(session.state)))
  end)

  it("show no more of a large state than its beginning", function()
    local state = moonpad.state { a = 1, b = ("é"):rep(100000), c = 1 }
    assert.equal('moonpad.state (of no session) {"a":1,"b":...', tostring(state))
    for index = 1, 1000 do state["key " .. index] = index end
    local text = tostring(state)
    assert.is_true(#text < 2100 and text:sub(-3) == "...")
  end)

  it("do not read a state by showing it: what is written then conflicts with nothing", function()
    local service <close> = open()
    local session = create(service, { ["user:n"] = 1 })
    service:incrementState { appName = "app", userId = "u", key = "n" }
    assert.matches('{"user:n":1}', tostring(session.state), 1, true)
    session.state["user:n"] = 5
    service:updateSession(session)
    assert.equal(5, service:getUserState({ appName = "app", userId = "u" }).n)
  end)

  it("show an event as JSON, whatever has become of it", function()
    local event = moonpad.event { author = "user", content = { parts = { { text = "hi" } } }, id = "e" }
    assert.equal('moonpad.event {"author":"user","content":{"parts":[{"text":"hi"}]},"id":"e"}',
      (tostring(event)))
    event.content.parts[1].text = ("é"):rep(10000)
    assert.is_true(utf8.len(tostring(event)) < 2100)
    event.content = print
    assert.equal("moonpad.event (no JSON: value.content: a function cannot be encoded)", tostring(event))
    event.content = event
    assert.matches("^moonpad.event %(no JSON: ", tostring(event))
    assert.matches("^moonpad.event", tostring(setmetatable({}, getmetatable(event))))
  end)

  it("finalized by hand are closed, not dangling", function()
    local service <close> = open()
    local session = create(service, { cart = { 1 } })
    local state, events, cart = session.state, session.events, session.state.cart
    for _, object in ipairs { cart, events, state, session } do
      local finalize = debug.getmetatable(object).__gc
      finalize(object)
      finalize(object)
    end
    failure(function() return cart[1] end)
    failure(function() return #events end)
    failure(function() return state.x end)
    failure(function() return session.id end)
  end)
end)

describe("identity of nodes", function()
  it("holds while somebody holds the node, and is found again after", function()
    local state = moonpad.state { a = { b = { c = 1 } } }
    local inner = state.a.b
    collect()
    assert.equal(inner, state.a.b)
    inner = nil -- luacheck: ignore 311
    collect()
    assert.equal(1, state.a.b.c)
    assert.equal(state.a.b, state.a.b)
  end)

  it("is never mistaken for that of a node that is gone", function()
    local state = moonpad.state {}
    for round = 1, 200 do
      state.k = { { round }, { round + 1 } }
      assert.equal(round, state.k[1][1])
      assert.equal(round + 1, state.k[2][1])
      if round % 10 == 0 then collectgarbage() end
    end
  end)
end)

describe("read-only states", function()
  it("read like their source, and refuse writes at any depth", function()
    local state = moonpad.state { a = { b = { 1 } }, n = 1 }
    local view = core.readOnly(state)
    assert.equal(1, view.a.b[1])
    for _, write in ipairs {
      function() view.n = 2 end, function() view:set("n", 2) end, function() view:increment "n" end,
      function() view:append("l", 1) end, function() view:delete "n" end, function() view:update { n = 2 } end,
      function() view:setDefault("m", 2) end, function() view.a.b[1] = 2 end, function() table.insert(view.a.b, 2) end,
      function() for _, value in pairs(view) do value.x = 1 end end,
    } do
      assert.matches("read%-only", message("invalid_argument", write))
    end
    state.n = 5
    assert.equal(5, view.n)
    state.a.b[1] = 7
    assert.equal(7, view.a.b[1])
    assert.equal(5, view:setDefault("n", 1))
  end)
end)

describe("contexts", function()
  it("commit, roll back and end", function()
    local service <close> = open()
    local session = create(service, { prefs = { lang = "en" } })
    local first = core.beginChanges(session)
    local second, third = core.beginCallChanges(first), core.beginCallChanges(first)
    core.beginTransaction(second)
    core.beginTransaction(third)
    second.prefs.theme = "dark"
    third.prefs.lang = "lt"
    core.commitTransaction(second)
    core.commitTransaction(third)
    core.beginTransaction(second)
    second.gone = true
    core.rollbackTransaction(second)
    core.putLastWriterWins(first, "answer", "42")
    local event = core.commit(first, { author = "a", actions = { stateDelta = { own = 1 } } })
    assert.equal('{"answer":"42","own":1,"prefs":{"lang":"lt","theme":"dark"}}',
      moonpad.json.encode(event.actions.stateDelta))
    assert.is_false(first:hasDelta())
    local node = first.prefs
    first.x = 1
    core.endChanges(first, "its invocation has ended")
    assert.matches("its invocation has ended", message("invalid_argument", function() first.x = 2 end))
    failure(function() node.x = 1 end)
    assert.equal("lt", node.lang)
    assert.equal("42", first.answer)
    assert.is_nil(first.x)
  end)

  it("read of an event what runs keep", function()
    local service <close> = open()
    local session = create(service)
    service:appendEvent(session, {
      author = "a", branch = "b", invocationId = "i", longRunningToolIds = { "c" }, usageMetadata = { n = 1 },
      timestamp = 5, customMetadata = { compaction = { n = 1 }, other = 2 },
      content = { role = "model", parts = { { text = "x" } }, other = moonpad.null },
      actions = {
        stateDelta = { k = 1 }, transferToAgent = "B", rewindToRevision = 0, escalate = true, compaction = {},
      },
    })
    service:appendEvent(session, { timestamp = 6, content = { parts = { { text = moonpad.null } } }, actions = {} })
    service:appendEvent(session, { timestamp = 7, content = {}, actions = { stateDelta = { k = moonpad.removed } } })
    local event, bytes, hasNull, _ = core.readEvent(session, 1)
    assert.same({
      revision = 1, author = "a", branch = "b", longRunningToolIds = { "c" }, timestamp = 5.0,
      customMetadata = { compaction = { n = 1 } },
      content = { role = "model", parts = { { text = "x" } } },
      actions = { transferToAgent = "B", rewindToRevision = 0, compaction = {} },
    }, event)
    assert.is_true(bytes > 200)
    assert.is_false(hasNull)
    event, bytes, hasNull = core.readEvent(session, 2)
    assert.same({ revision = 2, timestamp = 6.0, content = { parts = { { text = moonpad.null } } } }, event)
    assert.is_true(bytes > 30 and hasNull)
    event, _, hasNull = core.readEvent(session, 3)
    assert.same({ revision = 3, timestamp = 7.0 }, event)
    assert.is_false(hasNull)
    assert.is_nil((core.readEvent(session, 4)))
    assert.is_nil((core.readEvent(session, 0)))
    local last = service:getSession { appName = "app", userId = "u", sessionId = session.id, numRecentEvents = 1 }
    assert.is_nil((core.readEvent(last, 2)))
    assert.equal(3, core.readEvent(last, 3).revision)
    assert.same({ select(2, core.historyOf(session)) }, { 1, 0 })
    assert.same({ select(2, core.historyOf(last)) }, { 3, 0 })
    assert.equal((core.historyOf(session)), (core.historyOf(last)))
    assert.equal(1, core.findInvocation(session, "i"))
    assert.is_nil(core.findInvocation(session, "j"))
    assert.matches("UTF%-8", message("invalid_argument", core.findInvocation, session, "\xff"))
    for _, call in ipairs { "readEvent", "historyOf", "findInvocation" } do
      assert.matches("expects a session object", message("invalid_argument", core[call], {}, 1))
    end
    local long = ("y"):rep(5000)
    service:appendEvent(session, { content = { parts = { { text = long } } } })
    assert.equal(long, core.readEvent(session, 4).content.parts[1].text)
  end)

  it("add no writes but those that core.writes gives", function()
    local service <close> = open()
    local session = create(service)
    local state = core.beginChanges(session)
    state.n = 1
    local closed = core.writes(state)
    do local _ <close> = closed end
    for _, given in ipairs { io.stdout, closed, session, state, service, 1, "x", {}, false, print } do
      assert.matches("core.addWrites: expects writes", message("invalid_argument", core.addWrites, state, given))
    end
    assert.matches("core.addWrites: expects writes", message("invalid_argument", core.addWrites, state))
    local taken = core.beginChanges(session)
    core.addWrites(taken, core.writes(state))
    assert.equal(1, taken.n)
  end)

  it("return a partial event as it is, and keep the writes", function()
    local service <close> = open()
    local session = create(service)
    local changes = core.beginChanges(session)
    changes.x = 1
    local event = { author = "a", partial = true }
    assert.equal(event, core.commit(changes, event))
    assert.equal(event, service:appendEvent(session, event))
    assert.is_true(changes:hasDelta())
    assert.equal(0, session.revision)
  end)

  it("refuse to be committed without a session", function()
    assert.matches("no session", message("invalid_argument", core.commit, moonpad.state {}, {}))
  end)

  it("render templates", function()
    local state = moonpad.state { topic = "trains", ["user:name"] = "Ada", list = { 1, 2.0, {} } }
    assert.equal("Ada on trains: [1,2.0,{}] TEXT",
      core.render("{user:name} on <topic>: {list} {artifact.a.txt}", state,
        { agentName = "x", artifacts = { ["a.txt"] = "TEXT" } }))
    assert.equal("template", failure(core.render, "{missing}", state).code)
    assert.same({ "a.txt", "b.md" }, core.templateArtifacts("{artifact.a.txt} x {artifact.b.md?}", "both"))
  end)

  it("give ids and clocks", function()
    assert.matches("^%x+%-%x+%-4%x+%-[89ab]%x+%-%x+$", core.uuid4())
    assert.matches("^%x+%-%x+%-7%x+%-[89ab]%x+%-%x+$", core.uuid7())
    local service <close> = open()
    assert.is_true(math.abs(core.now(service) - os.time()) < 10)
    assert.is_true(math.abs(core.now(create(service)) - os.time()) < 10)
    assert.is_true(core.monotonic() <= core.monotonic())
  end)
end)

describe("events", function()
  it("hold moonpad.removed where JSON has removedStateKeys", function()
    local service <close> = open()
    local session = create(service, { a = 1, b = 2, c = 3 })
    local event = service:appendEvent(session, {
      author = "x", revision = 77, removedStateKeys = { "a", "b" },
      actions = { stateDelta = { a = moonpad.null, b = moonpad.removed, c = moonpad.null } },
    })
    assert.equal(1, event.revision)
    for _, shown in ipairs { event, session.events[1] } do
      assert.equal(moonpad.removed, shown.actions.stateDelta.a)
      assert.equal(moonpad.removed, shown.actions.stateDelta.b)
      assert.equal(moonpad.null, shown.actions.stateDelta.c)
      assert.is_nil(shown.removedStateKeys)
    end
    assert.equal('{"c":null}', moonpad.json.encode(session.state))
    -- What was handed out can be given back.
    local copy = core.newEvent(event)
    assert.equal(moonpad.removed, copy.actions.stateDelta.b)
    assert.is_nil(copy.revision)
  end)

  it("refuse moonpad.removed elsewhere, and what cannot be stored, by path", function()
    local service <close> = open()
    local session = create(service)
    local function append(event) return message("invalid_argument", service.appendEvent, service, session, event) end
    assert.matches("^event%.actions%.stateDelta%.k%.x: moonpad%.removed",
      append { actions = { stateDelta = { k = { x = moonpad.removed } } } })
    assert.matches("^event%.customMetadata%.x: moonpad%.removed", append { customMetadata = { x = moonpad.removed } })
    assert.equal("event.content.parts[1].text: a function cannot be stored",
      append { content = { parts = { { text = print } } } })
    assert.equal("service:appendEvent: event: expects a table of named fields, got a list", append { 1 })
    local deep = 0
    for _ = 1, 128 do deep = { deep } end
    local stored = service:appendEvent(session, { author = "x", actions = { stateDelta = { deep = deep } } })
    assert.equal(moonpad.json.encode(deep), moonpad.json.encode(stored.actions.stateDelta.deep))
    append { author = "x", actions = { stateDelta = { deep = { deep } } } }
    assert.equal(1, session.revision)
  end)

  it("are fresh copies at every access", function()
    local service <close> = open()
    local session = create(service)
    service:appendEvent(session, { author = "user", content = { role = "user", parts = { { text = "hi" } } } })
    session.events[1].content.parts[1].text = "changed"
    assert.equal("hi", session.events[1].content.parts[1].text)
    assert.is_nil(session.events[2])
    assert.is_nil(session.events[0])
    assert.is_nil(session.events.x)
    assert.equal(1, #session.events)
  end)
end)

describe("under a collector that never rests", function()
  local mode
  before_each(function() mode = collectgarbage("incremental", 10, 1000) end)
  after_each(function()
    collectgarbage("incremental", 200, 100)
    collectgarbage(mode)
  end)

  rarely("everything goes on as before", function()
    local service <close> = open()
    local session = create(service, { cart = { { n = 3 }, { n = 1 }, { n = 2 } }, log = moonpad.array {} })
    for round = 1, 12 do
      local state = session.state
      table.sort(state.cart, function(a, b) return a.n < b.n end)
      state.cart[1].n = round + 3
      state:append("log", { round = round, text = ("x"):rep(round) })
      state:increment "count"
      collectgarbage "step"
      local event = service:updateSession(session)
      assert.equal(round, event.revision)
      assert.equal(round, session.state.count)
      assert.equal(round, #session.state.log)
      for key, value in pairs(session.state) do assert.is_true(key ~= nil and value ~= nil) end
    end
    local total = 0
    for index, event in ipairs(session.events) do
      assert.equal(index, event.revision)
      total = total + event.actions.stateDelta.count
    end
    assert.equal(12 * 13 // 2, total)
  end)

  rarely("and finalizers that use the library themselves do no harm", function()
    local service <close> = open()
    local session = create(service, { list = { { 1 }, { 2 } } })
    local ran = 0
    local function plant()
      setmetatable({}, { __gc = function()
        ran = ran + 1
        moonpad.json.encode { z = { 1, 2, 3 }, a = "finalizer" }
        session.state.list = { { ran }, { ran + 1 } }
        moonpad.json.decode('["' .. ("y"):rep(200) .. '\\n"]')
        if ran < 2000 then plant() end
      end })
    end
    plant()
    for round = 1, 40 do
      collectgarbage "step"
      assert.equal('{"a":[1,2],"b":{"c":"\\n"}}',
        moonpad.json.encode(moonpad.json.decode '{"b":{"c":"\\n"},"a":[1,2]}'))
      local first = session.state.list[1]
      assert.equal("number", type(first[1]))
      for _, item in ipairs(session.state.list) do assert.equal(1, #item) end
      if round % 5 == 0 then assert.is_table(session.state:getAll()) end
    end
    assert.is_true(ran > 5)
  end)
end)

describe("a Lua state", function()
  after_each(support.cleanup)

  it("can end with everything still in use", function()
    local program = [[
      local moonpad = require "moonpad"
      service = moonpad.open "memory:"
      session = service:createSession { appName = "a", userId = "u", state = { k = { { 1 } } } }
      -- Lua runs no finalizer of what finalizers make while a state closes, so what they ask for is
      -- there before.
      list = session.state.k
      node, events = list[1], session.events
      iterator = pairs(session.state)
      last = setmetatable({}, { __gc = function()
        pcall(function() node[1] = 2 end)
        pcall(moonpad.json.encode, { 1 })
        pcall(function() return session.state.k end)
      end })
      local older = setmetatable({}, { __gc = function()
        pcall(function() return node[1], session.id, events[1], service:close() end)
      end })
      keep = older
      io.write "ended"
    ]]
    local path = support.tmpdir() .. "/program.lua"
    local file = assert(io.open(path, "w"))
    file:write(("package.path, package.cpath = %q, %q\n"):format(package.path, package.cpath), program)
    file:close()
    local pipe = assert(io.popen("lua5.4 " .. path .. " 2>&1"))
    local output = pipe:read "a"
    local ok = pipe:close()
    assert.equal("ended", output)
    assert.is_true(ok)
  end)
end)
