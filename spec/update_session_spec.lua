-- service:updateSession(session [, event]): what is pending, as one event (contract 2).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises

-- What is stored, but for what was filled in.
local function lastEvent(service)
  local events = checks.get(service).events
  local event = moonpad.toTable(events[#events])
  event.id, event.timestamp, event.invocationId = nil, nil, nil
  return setmetatable(event, nil)
end

describe("updateSession", function()
  support.each_store(function(open)
    local service, session
    before_each(function()
      service = open { maxValueBytes = 1000 }
      session = checks.create(service, "s", { old = 1 })
    end)

    it("takes the fields, content and own delta of an event along", function()
      session.state.k = { 1 }
      session.state["user:u"] = "u"
      session.state["temp:t"] = "t"
      session.state:increment("n", 2)
      session.state:append("list", "x")
      session.state.old = nil
      local event = service:updateSession(session, {
        author = "agent", invocationId = "i", content = { role = "model", parts = { { text = "Hi" } } },
        customMetadata = { why = "because" },
        actions = { escalate = true, stateDelta = { own = 1, ["app:a"] = 2, ["temp:o"] = 3 } },
      })
      assert.are.equal("agent", event.author)
      assert.are.equal("i", event.invocationId)
      assert.are.equal("Hi", event:text())
      assert.are.equal(1, event.revision)
      assert.are.same({
        author = "agent", content = { role = "model", parts = { { text = "Hi" } } }, revision = 1,
        customMetadata = { why = "because" },
        actions = { escalate = true, stateDelta = { k = { 1 }, ["user:u"] = "u", n = 2, list = { "x" }, own = 1,
          ["app:a"] = 2, old = moonpad.removed } },
      }, lastEvent(service))
      assert.is_false(session.state:hasDelta())
      assert.are.same({ k = { 1 }, ["user:u"] = "u", ["temp:t"] = "t", n = 2, list = { "x" }, own = 1, ["app:a"] = 2,
        ["temp:o"] = 3 }, session.state:getAll())
      assert.are.equal(1, #session.events)
    end)

    it("says that the author is the system where the event names none", function()
      local events = { {}, { actions = { stateDelta = { a = 1 } } }, moonpad.event { content = { parts = {} } } }
      for _, given in ipairs(events) do
        session.state.k = (session.state.k or 0) + 1
        local event = service:updateSession(session, given)
        assert.are.equal("system", event.author)
        assert.are.equal("system", lastEvent(service).author)
        assert.are.equal(session.state.k, event.actions.stateDelta.k)
        assert.is_nil(given.author)
      end
    end)

    it("appends the event where nothing is pending", function()
      local event = service:updateSession(session, { author = "agent", actions = { stateDelta = { a = 1 } } })
      assert.are.equal(1, event.revision)
      assert.are.equal(1, checks.get(service).state.a)
      assert.are.equal(2, service:updateSession(session, {}).revision)
      assert.is_nil(service:updateSession(session))
      assert.is_nil(service:updateSession(session, nil))
      assert.are.equal(2, checks.get(service).revision)
    end)

    it("leaves the caller's table alone", function()
      session.state.k = 1
      local given = { actions = { stateDelta = { own = { 1 } } }, customMetadata = moonpad.array {} }
      service:updateSession(session, given)
      assert.are.same({ actions = { stateDelta = { own = { 1 } } }, customMetadata = {} }, given)
      assert.is_nil(getmetatable(given))
    end)

    it("takes proxies and removed keys in the event", function()
      session.state.k = { 1 }
      service:updateSession(session, { actions = { stateDelta = { copy = session.state.k, old = moonpad.removed } },
        customMetadata = { state = session.state } })
      local stored = checks.get(service)
      assert.are.same({ k = { 1 }, copy = { 1 } }, stored.state:getAll())
      assert.are.same({ old = 1, k = { 1 } }, stored.events[1].customMetadata.state)
    end)

    local function expectPending()
      assert.are.same({ k = 1, old = moonpad.removed, n = 2 }, session.state:delta())
      assert.are.equal(0, checks.get(service).revision)
      assert.are.equal(0, #session.events)
    end

    describe("refuses, and keeps pending what is,", function()
      before_each(function()
        session.state.k, session.state.old = 1, nil
        session.state:increment("n", 2)
      end)

      it("a key that is pending and in the event's own delta", function()
        for _, delta in ipairs {
          { k = 1 }, { k = 2, other = 1 }, { k = moonpad.removed }, { old = 3 }, { old = moonpad.removed }, { n = 5 },
        } do
          local key = delta.k and "k" or delta.n and "n" or "old"
          raises("invalid_argument", { "stateDelta", ('"%s"'):format(key) }, service.updateSession, service, session,
            { actions = { stateDelta = delta } })
          expectPending()
        end
        raises("invalid_argument", '"k"', service.updateSession, service, session,
          { actions = { stateDelta = moonpad.state { k = 7 } } })
        expectPending()
      end)

      it("a partial event", function()
        raises("invalid_argument", "partial", service.updateSession, service, session,
          { partial = true, actions = { stateDelta = { a = 1 } } })
        expectPending()
      end)

      it("what is no event", function()
        for _, given in ipairs { "text", 5, true, session, print } do
          raises("invalid_argument", { "service:updateSession", "event" }, service.updateSession, service, session,
            given)
        end
        raises("invalid_argument", "list", service.updateSession, service, session, { 1, 2 })
        raises("invalid_argument", "author", service.updateSession, service, session, { author = 5 })
        raises("invalid_argument", "state_delta", service.updateSession, service, session, { state_delta = {} })
        raises("invalid_argument", 'f', service.updateSession, service, session, { customMetadata = { f = print } })
        expectPending()
      end)

      it("an event that is too large", function()
        raises("limit", '"big"', service.updateSession, service, session,
          { actions = { stateDelta = { big = ("x"):rep(2000) } } })
        expectPending()
      end)

      it("a conflict, of either, with the whole event", function()
        checks.append(service, checks.get(service), { k = 10, own = 10 })
        local given = { author = "agent", actions = { stateDelta = { own = 1 }, escalate = true } }
        local err = raises("conflict", { '"k"', '"own"' }, service.updateSession, service, session, given)
        table.sort(err.keys)
        assert.are.same({ "k", "own" }, err.keys)
        assert.are.same({ author = "agent", actions = { escalate = true,
          stateDelta = { own = 1, k = 1, old = moonpad.removed, n = 2 } } }, setmetatable(err.event, nil))
        assert.are.same({ author = "agent", actions = { stateDelta = { own = 1 }, escalate = true } }, given)
        assert.are.same({ k = 1, old = moonpad.removed, n = 2 }, session.state:delta())
        service:refresh(session)
        assert.are.equal(2, service:updateSession(session, given).revision)
        assert.are.same({ k = 1, own = 1, n = 2 }, checks.get(service).state:getAll())
      end)
    end)

    it("stores an event with an id once", function()
      session.state.k = 1
      local event = { id = "e", timestamp = 5, invocationId = "i", actions = { stateDelta = { own = 1 } } }
      assert.are.equal(1, service:updateSession(session, event).revision)
      session.state.k = 1
      assert.are.equal(1, service:updateSession(session, event).revision)
      session.state.k = 2
      raises("already_exists", '"e"', service.updateSession, service, session, event)
      assert.are.same({ k = 2 }, session.state:delta())
      assert.are.equal(1, checks.get(service).revision)
    end)

    it("takes no more than an event", function()
      raises("invalid_argument", "argument 3", service.updateSession, service, session, {}, {})
    end)
  end)
end)

describe("a call of a service", function()
  it("refuses what it would not look at", function()
    local service <close> = moonpad.open "memory:"
    local session = checks.create(service)
    local name = { appName = "app", userId = "u", sessionId = "s" }
    local user = { appName = "app", userId = "u" }
    local cases = {
      { "createSession", { appName = "app", userId = "u" } }, { "getSession", name }, { "listSessions", user },
      { "deleteSession", { appName = "app", userId = "u", sessionId = "gone" } },
      { "appendEvent", session, { author = "a" } }, { "updateSession", session, {} }, { "refresh", session },
      { "getAppState", { appName = "app" } }, { "getUserState", user },
      { "updateAppState", { appName = "app", state = {} } },
      { "updateUserState", { appName = "app", userId = "u", state = {} } },
      { "incrementState", { appName = "app", key = "n" } }, { "stateAt", session, 0 },
      { "fork", session, { at = 0 } }, { "sweep" },
    }
    for _, case in ipairs(cases) do
      local call, count = case[1], #case
      local before = moonpad.json.encode { session.revision, service:getAppState { appName = "app" } }
      for _, more in ipairs { { numRecentEvents = 1 }, "text", false } do
        local arguments = { table.unpack(case, 2) }
        arguments[count] = more
        raises("invalid_argument", { "service:" .. call, ("argument %d"):format(count) }, service[call], service,
          table.unpack(arguments))
        assert.are.equal(before, moonpad.json.encode { session.revision, service:getAppState { appName = "app" } })
      end
      service[call](service, table.unpack(case, 2, count + 1)) -- nil is none
    end
    raises("invalid_argument", { "service:rewind", "argument 3" }, service.rewind, service, session,
      { invocationId = "i" }, {})
    raises("invalid_argument", { "open", "argument 3" }, moonpad.open, "memory:", {}, { durability = "normal" })
  end)
end)
