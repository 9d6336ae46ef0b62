-- Time to live (contract 5): sessions, the state of users and of apps, sweeping.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

local raises = checks.raises
local WHO <const> = { appName = "app", userId = "u", sessionId = "s" }
local START <const> = 1000

local function named(fields)
  local all = {}
  for key, value in pairs(WHO) do all[key] = value end
  for key, value in pairs(fields or {}) do all[key] = value end
  return all
end

describe("time to live", function()
  support.each_store(function(open, store)
    local clock

    local function opened(config)
      clock = testing.clock(START)
      config.clock = clock
      return open(config)
    end

    local function get(service, fields) return service:getSession(named(fields)) end
    local function userState(service) return service:getUserState { appName = "app", userId = "u" } end
    local function appState(service) return service:getAppState { appName = "app" } end

    describe("of a session", function()
      it("ends when more than it has passed since it was used", function()
        local service = opened { sessionTtlSeconds = 100 }
        service:createSession(WHO)
        clock:advance(100)
        assert.is_truthy(get(service))
        clock:advance(100.5)
        assert.is_nil(get(service))
      end)

      it("is right from the first second on that a clock can have", function()
        clock = testing.clock(0)
        local service = open { clock = clock, sessionTtlSeconds = 100, userTtlSeconds = 50 }
        service:createSession(named { state = { ["user:n"] = 1 } })
        clock:advance(50)
        assert.equal(1, userState(service).n)
        clock:set(101)
        assert.is_nil(get(service))
        assert.same({}, userState(service))
      end)

      it("may be a fraction of a second", function()
        local service = opened { sessionTtlSeconds = 0.25 }
        service:createSession(WHO)
        clock:advance(0.25)
        assert.is_truthy(get(service))
        clock:advance(0.375)
        assert.is_nil(get(service))
      end)

      it("is for ever where it is 0, or not said", function()
        for _, config in ipairs { {}, { sessionTtlSeconds = 0 } } do
          local service = opened(config)
          service:createSession(WHO)
          clock:advance(1e9)
          assert.is_truthy(get(service))
        end
      end)

      -- Each use begins it anew, and so do many small steps.
      local USES <const> = {
        getSession = function(service) get(service) end,
        refresh = function(service, session) service:refresh(session) end,
        appendEvent = function(service, session) service:appendEvent(session, { author = "bot" }) end,
        ["appendEvent with id and timestamp"] = function(service, session, count)
          service:appendEvent(session, { author = "bot", id = "e" .. count, timestamp = 1 })
        end,
        appendEventAsync = function(service, session)
          local pending = service:appendEventAsync(session, { author = "bot" })
          while not pending:result() do service:poll(1) end
        end,
        updateSession = function(service, session, count)
          session.state.count = count
          service:updateSession(session)
        end,
        stateAt = function(service, session) service:stateAt(session, 0) end,
        fork = function(service, session) service:fork(session, { at = 0 }) end,
        rewind = function(service, session) service:rewind(session, { revision = 0 }) end,
        export = function(service, session) service:export(session) end,
      }
      for name, use in pairs(USES) do
        it("begins anew with " .. name, function()
          local service = opened { sessionTtlSeconds = 100 }
          local session = service:createSession(WHO)
          for count = 1, 5 do
            clock:advance(30)
            use(service, session, count)
          end
          clock:advance(100)
          assert.is_truthy(get(service))
          clock:advance(101)
          assert.is_nil(get(service))
        end)
      end

      it("does not begin anew with lists, sweeps, events that are read, other sessions or its user", function()
        local service = opened { sessionTtlSeconds = 100 }
        local session = service:createSession(WHO)
        service:appendEvent(session, { author = "bot" })
        local other = service:createSession(named { sessionId = "other" })
        clock:advance(60)
        service:listSessions { appName = "app" }
        service:sweep()
        assert.equal("bot", session.events[1].author)
        service:appendEvent(other, { author = "bot", actions = { stateDelta = { ["user:n"] = 1, ["app:n"] = 1 } } })
        service:updateUserState { appName = "app", userId = "u", state = { x = 1 } }
        clock:advance(41)
        assert.is_nil(get(service))
        assert.is_truthy(get(service, { sessionId = "other" }))
      end)

      it("makes it absent in every call at once, swept or not", function()
        for _, sweeps in ipairs { false, true } do
          local service = opened { sessionTtlSeconds = 100 }
          local session = service:createSession(named { state = { x = 1 } })
          service:appendEvent(session, { author = "user", content = { parts = { { text = "hi" } } } })
          local pendingOn = get(service)
          pendingOn.state.x = 2
          local afterwards = get(service, { afterTimestamp = 0 })
          clock:advance(101)
          if sweeps then assert.same({ sessions = 1, users = 0, apps = 0, events = 0 }, service:sweep()) end
          assert.is_nil(get(service))
          assert.same({}, service:listSessions { appName = "app" })
          assert.same({}, service:listSessions { appName = "app", userId = "u" })
          raises("not_found", "does not exist", service.appendEvent, service, session, { author = "bot" })
          raises("not_found", "does not exist", service.updateSession, service, pendingOn)
          raises("not_found", "does not exist", service.refresh, service, session)
          raises("not_found", "does not exist", service.stateAt, service, session, 0)
          raises("not_found", "does not exist", service.fork, service, session, { at = 0 })
          raises("not_found", "does not exist", service.rewind, service, session, { revision = 0 })
          raises("not_found", "does not exist", service.export, service, session)
          raises("not_found", "not stored any more", function() return get(service) or session.events[1] end)
          assert.equal(0, #afterwards.events)
          local pending = service:appendEventAsync(session, { author = "bot" })
          raises("not_found", "does not exist", function()
            while not pending:result() do service:poll(1) end
          end)
          assert.is_false(service:deleteSession(WHO))
          assert.equal(0, service:deleteUser { appName = "app", userId = "u" })
        end
      end)

      it("lets the same id begin empty", function()
        local MAKES <const> = {
          function(service) return service:createSession(WHO) end,
          function(service)
            local origin = service:createSession(named { sessionId = "origin" })
            return service:fork(origin, { at = 0, sessionId = "s" })
          end,
          function(service)
            local origin = service:createSession(named { sessionId = "origin" })
            local lines = {}
            for line in service:export(origin) do lines[#lines + 1] = line end
            return service:import { lines = lines, sessionId = "s" }
          end,
        }
        for _, make in ipairs(MAKES) do
          local service = opened { sessionTtlSeconds = 100 }
          local old = service:createSession(named { state = { x = 1 } })
          service:appendEvent(old, { author = "bot", id = "e", actions = { stateDelta = { y = 2 } } })
          clock:advance(101)
          local new = make(service)
          assert.equal(0, #new.events)
          assert.same({}, new.state:toTable())
          assert.equal(0, new.revision)
          assert.equal("e", service:appendEvent(new, { author = "bot", id = "e" }).id)
          raises("not_found", "created anew", service.appendEvent, service, old, { author = "bot" })
          clock:advance(100)
          assert.equal(1, #get(service).events)
        end
      end)

      it("does not end what has just been imported or forked, however old its events are", function()
        local service = opened { sessionTtlSeconds = 100 }
        local session = service:createSession(WHO)
        service:appendEvent(session, { author = "bot", timestamp = 5 })
        local lines = {}
        for line in service:export(session) do lines[#lines + 1] = line end
        clock:advance(10000)
        assert.is_nil(get(service))
        service:import { lines = lines }
        clock:advance(100)
        local imported = assert(get(service))
        assert.equal(5, imported.lastUpdateTime)
        service:fork(imported, { at = 1, sessionId = "forked" })
        clock:advance(100)
        assert.is_truthy(get(service, { sessionId = "forked" }))
      end)

      it("is decided by the service that asks", function()
        if store == "memory:" then return end
        local path = support.tmpdir() .. "/both.db"
        clock = testing.clock(START)
        local short <close> = moonpad.open("sqlite:" .. path, { clock = clock, sessionTtlSeconds = 10 })
        local long <close> = moonpad.open("sqlite:" .. path, { clock = clock, sessionTtlSeconds = 1000 })
        local never <close> = moonpad.open("sqlite:" .. path, { clock = clock })
        local session = never:createSession(WHO)
        clock:advance(11)
        assert.is_nil(get(short))
        assert.is_truthy(get(long))
        clock:advance(1000)
        never:appendEvent(session, { author = "bot" })
        assert.is_truthy(get(short))
        assert.is_truthy(get(long))
        clock:advance(1001)
        assert.is_nil(get(long))
        assert.is_truthy(get(never))
        assert.same({ sessions = 0, users = 0, apps = 0, events = 0 }, never:sweep())
        assert.same({ sessions = 1, users = 0, apps = 0, events = 0 }, long:sweep())
        assert.is_nil(get(never))
      end)
    end)

    describe("of the state of a user or an app", function()
      local function shared(config)
        local service = opened(config)
        local session = service:createSession(named {
          state = { own = 1, ["user:n"] = 1, ["user:list"] = { 1 }, ["app:n"] = 1 },
        })
        return service, session
      end

      it("has its own clock", function()
        local service = shared { userTtlSeconds = 10, appTtlSeconds = 30, sessionTtlSeconds = 100 }
        clock:advance(11)
        assert.same({}, userState(service))
        assert.same({ n = 1 }, appState(service))
        assert.same({ own = 1, ["app:n"] = 1 }, get(service).state:toTable())
        clock:advance(31)
        assert.same({}, appState(service))
        assert.same({ own = 1 }, get(service).state:toTable())
        assert.same({ own = 1 }, service:listSessions { appName = "app" }[1].state:toTable())
      end)

      local USES <const> = {
        getSession = function(service) get(service) end,
        createSession = function(service) service:createSession { appName = "app", userId = "u" } end,
        refresh = function(service, session) service:refresh(session) end,
        appendEvent = function(service, session) service:appendEvent(session, { author = "bot" }) end,
        stateAt = function(service, session) service:stateAt(session, 0) end,
        getUserState = function(service) userState(service) appState(service) end,
        updateUserState = function(service, _, count)
          service:updateUserState { appName = "app", userId = "u", state = { x = count } }
          service:updateAppState { appName = "app", state = { x = count } }
        end,
        incrementState = function(service)
          service:incrementState { appName = "app", userId = "u", key = "i" }
          service:incrementState { appName = "app", key = "i" }
        end,
      }
      for name, use in pairs(USES) do
        it("begins anew with " .. name, function()
          local service, session = shared { userTtlSeconds = 100, appTtlSeconds = 100 }
          for count = 1, 5 do
            clock:advance(30)
            use(service, session, count)
          end
          clock:advance(100)
          assert.equal(1, userState(service).n)
          assert.equal(1, appState(service).n)
          clock:advance(101)
          assert.same({}, userState(service))
          assert.same({}, appState(service))
        end)
      end

      it("does not begin anew with lists and sweeps, or with another user", function()
        local service = shared { userTtlSeconds = 100 }
        clock:advance(60)
        service:listSessions { appName = "app", userId = "u" }
        service:sweep()
        service:createSession { appName = "app", userId = "other", state = { ["user:n"] = 1 } }
        clock:advance(41)
        assert.same({}, userState(service))
        assert.same({ n = 1 }, service:getUserState { appName = "app", userId = "other" })
      end)

      it("is shown by a list as by other calls, however lately it was renewed", function()
        local service = shared { userTtlSeconds = 100, appTtlSeconds = 100 }
        for _ = 1, 3 do
          clock:advance(60)
          get(service)
          clock:advance(60)
          local listed = service:listSessions { appName = "app", userId = "u" }[1]
          assert.same({ own = 1, ["user:n"] = 1, ["user:list"] = { 1 }, ["app:n"] = 1 }, listed.state:toTable())
          get(service)
        end
      end)

      it("makes all of it absent, and what is written next begins empty", function()
        for _, sweeps in ipairs { false, true } do
          local service, session = shared { userTtlSeconds = 10, appTtlSeconds = 10 }
          clock:advance(11)
          if sweeps then assert.same({ sessions = 0, users = 1, apps = 1, events = 0 }, service:sweep()) end
          assert.equal(5, service:incrementState { appName = "app", userId = "u", key = "n", by = 5 })
          assert.same({ n = 5 }, userState(service))
          service:updateAppState { appName = "app", state = { other = true } }
          assert.same({ other = true }, appState(service))
          service:refresh(session)
          assert.same({ own = 1, ["user:n"] = 5, ["app:other"] = true }, session.state:toTable())
        end
      end)

      it("counts as removed by somebody else: a write that had read it is a conflict", function()
        local service, session = shared { userTtlSeconds = 10 }
        session.state["user:n"] = session.state["user:n"] + 1
        session.state.own = 2
        clock:advance(11)
        local err = raises("conflict", "user:n", service.updateSession, service, session)
        assert.same({ "user:n" }, err.keys)
        service:refresh(session)
        assert.equal(2, session.state["user:n"])
        service:updateSession(session)
        assert.same({ n = 2 }, userState(service))
      end)

      it("lets a write through that had not read it, and one that saw that it is gone", function()
        local service, session = shared { userTtlSeconds = 10, appTtlSeconds = 10 }
        session.state["user:n"] = 7
        session.state:increment("app:n", 3)
        clock:advance(11)
        service:updateSession(session)
        assert.same({ n = 7 }, userState(service))
        assert.same({ n = 3 }, appState(service))
        assert.is_nil(session.state["user:list"])
        clock:advance(11)
        local fresh = get(service)
        assert.is_nil(fresh.state["user:n"])
        fresh.state["user:n"] = 8
        service:updateSession(fresh)
        assert.same({ n = 8 }, userState(service))
      end)

      it("takes in what others write after it", function()
        local service, session = shared { userTtlSeconds = 10 }
        local other = get(service)
        clock:advance(11)
        service:appendEvent(other, { author = "bot", actions = { stateDelta = { ["user:z"] = 1 } } })
        assert.same({ own = 1, ["user:z"] = 1, ["app:n"] = 1 }, other.state:toTable())
        service:appendEvent(session, { author = "bot" })
        assert.same({ own = 1, ["user:z"] = 1, ["app:n"] = 1 }, session.state:toTable())
      end)

      it("leaves sessions alone", function()
        local service = shared { userTtlSeconds = 10, appTtlSeconds = 10 }
        clock:advance(1000)
        assert.same({ sessions = 0, users = 1, apps = 1, events = 0 }, service:sweep())
        assert.same({ sessions = 0, users = 0, apps = 0, events = 0 }, service:sweep())
        assert.same({ own = 1 }, get(service).state:toTable())
      end)
    end)

    it("outlives the service", function()
      if store == "memory:" then return end
      local path = support.tmpdir() .. "/again.db"
      clock = testing.clock(START)
      local function again() return moonpad.open("sqlite:" .. path, { clock = clock, sessionTtlSeconds = 100 }) end
      local service = again()
      service:createSession(WHO)
      clock:advance(60)
      get(service)
      service:close()
      clock:advance(100)
      service = again()
      assert.is_truthy(get(service))
      service:close()
      clock:advance(101)
      service = again()
      assert.is_nil(get(service))
      service:close()
    end)

    it("reaches other services a second later at most", function()
      if store == "memory:" then return end
      local path = support.tmpdir() .. "/two.db"
      clock = testing.clock(START)
      local config = { clock = clock, sessionTtlSeconds = 100 }
      local one <close> = moonpad.open("sqlite:" .. path, config)
      local other <close> = moonpad.open("sqlite:" .. path, config)
      one:createSession(WHO)
      clock:advance(60)
      get(one)
      clock:advance(60)
      -- Without renewing it: a list does not.
      support.waitUntil("the renewal", function()
        one:poll() -- without threads it is this that stores it
        return #other:listSessions { appName = "app" } == 1
      end)
    end)

    it("is swept in small transactions, all of it", function()
      local service = opened { sessionTtlSeconds = 100, userTtlSeconds = 100 }
      local count = 300
      for i = 1, count do
        service:createSession { appName = "app", userId = "u" .. i, sessionId = "s", state = { ["user:n"] = i } }
      end
      clock:advance(60)
      for i = 1, count, 3 do service:getSession { appName = "app", userId = "u" .. i, sessionId = "s" } end
      clock:advance(50)
      assert.same({ sessions = 200, users = 200, apps = 0, events = 0 }, service:sweep())
      assert.equal(100, #service:listSessions { appName = "app" })
      assert.same({ n = 1 }, service:getUserState { appName = "app", userId = "u1" })
    end)

    it("is swept in parts where a session is very long", function()
      if store == "memory:" then return end
      local path = support.tmpdir() .. "/long.db"
      clock = testing.clock(START)
      local service <close> = moonpad.open("sqlite:" .. path, {
        clock = clock, durability = "normal", sessionTtlSeconds = 100,
      })
      local session = service:createSession(WHO)
      local other = service:createSession(named { sessionId = "other" })
      for _ = 1, 25000 do service:appendEventAsync(session, { author = "bot" }) end
      while service:poll(1) > 0 do end
      clock:advance(101)
      service:createSession(named { sessionId = "new" })
      assert.same({ sessions = 2, users = 0, apps = 0, events = 0 }, service:sweep())
      assert.equal(1, #service:listSessions { appName = "app" })
      raises("not_found", "does not exist", service.refresh, service, session)
      raises("not_found", "does not exist", service.refresh, service, other)
      local pipe <close> = assert(io.popen(("sqlite3 %s 'SELECT count(*) FROM events; SELECT count(*) FROM sessions'")
        :format(support.quote(path))))
      assert.equal("0\n1\n", pipe:read "a")
    end)

    it("is swept every sweepIntervalSeconds by itself", function()
      local service = opened { sessionTtlSeconds = 100, sweepIntervalSeconds = 0.02 }
      local plain = store == "memory:" and service
      service:createSession(WHO)
      clock:advance(101)
      support.waitUntil("the sweep", function()
        service:poll() -- without threads it is this that sweeps
        -- What is left of the session is seen when the clock goes back: it is believed.
        clock:set(START)
        local found = (plain or service):listSessions { appName = "app" }
        clock:set(START + 101)
        return #found == 0
      end)
    end)
  end)

  it("is refused where it is no time", function()
    for _, field in ipairs { "sessionTtlSeconds", "userTtlSeconds", "appTtlSeconds", "eventTtlSeconds",
      "sweepIntervalSeconds" } do
      for _, wrong in ipairs { -1, -0.5, math.huge, 0 / 0, "10", true } do
        raises("invalid_argument", field, moonpad.open, "memory:", { [field] = wrong })
      end
    end
    raises("invalid_argument", "did you mean sessionTtlSeconds", moonpad.open, "memory:", { sessionTTLSeconds = 1 })
  end)
end)
