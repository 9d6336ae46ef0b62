-- A Lua function as the clock of a service (contract 6). moonpad.testing.clock is in testing_spec.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises
local HUGE <const> = math.huge

describe("a function as clock", function()
  support.each_store(function(open)
    local now, service
    local function clock() return now end

    before_each(function()
      now = 1000
      service = open { clock = clock, sessionTtlSeconds = 100 }
    end)

    it("is the time of sessions and events", function()
      local session = checks.create(service, "s")
      assert.are.equal(1000.0, session.createTime)
      now = 1001.5
      assert.are.equal(1001.5, service:appendEvent(session, {}).timestamp)
      session.state.k = 1
      now = 1002.25
      assert.are.equal(1002.25, service:updateSession(session).timestamp)
      now = 900 -- it is believed
      assert.are.equal(900.0, service:appendEvent(session, {}).timestamp)
    end)

    it("is the time of what is appended on another thread", function()
      local session = checks.create(service, "s")
      now = 1010
      local pending = service:appendEventAsync(session, {})
      now = 1020
      repeat service:poll() until pending:result()
      assert.are.equal(1010.0, pending:result().timestamp)
    end)

    it("decides what has expired, for reads, lists and sweeps", function()
      checks.create(service, "s")
      now = 1100
      assert.is_truthy(checks.get(service, "s"))
      now = 1200.5
      assert.are.equal(0, #service:listSessions { appName = "app", userId = "u" })
      assert.is_nil(checks.get(service, "s"))
      assert.are.equal(1, service:sweep().sessions)
    end)

    it("is the time of a run", function()
      local agent = moonpad.agent { name = "helper", model = require "moonpad.testing".scriptedModel { "done" } }
      local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
      checks.create(service, "s")
      now = 1050.5
      local times = {}
      for event in runner:run { userId = "u", sessionId = "s", newMessage = "hello" } do
        times[#times + 1] = event.timestamp
      end
      assert.are.same({ 1050.5 }, times)
      assert.are.equal(1050.5, checks.get(service, "s").events[1].timestamp)
    end)
  end)

  it("is the time of artifacts and memories", function()
    local now = 1000
    local config = { clock = function() return now end }
    local artifacts <close> = moonpad.artifactService("memory:", { clock = config.clock, artifactTtlSeconds = 10 })
    local memory <close> = moonpad.memoryService("memory:", { clock = config.clock, memoryTtlSeconds = 10 })
    local service <close> = moonpad.open("memory:", config)
    local file = { appName = "app", userId = "u", sessionId = "s", filename = "f" }
    artifacts:save { appName = "app", userId = "u", sessionId = "s", filename = "f", part = "hello" }
    local session = checks.create(service, "s")
    service:appendEvent(session, { author = "user", content = { role = "user", parts = { { text = "tea" } } } })
    memory:addSessionToMemory(session)
    local function count() return #memory:searchMemory { appName = "app", userId = "u", query = "tea" }.memories end
    assert.is_truthy(artifacts:load(file))
    assert.are.equal(1, count())
    now = 1011
    assert.is_nil(artifacts:load(file))
    assert.are.equal(0, count())
  end)

  describe("that gives no time", function()
    local answer
    local function clock() return answer end

    it("is refused when a service is opened with it", function()
      for _, one in ipairs { "noon", {}, false } do
        answer = one
        raises("invalid_argument", "clock: the function has to return seconds since 1970, it returned", moonpad.open,
          "memory:", { clock = clock })
      end
      answer = nil
      raises("invalid_argument", "it returned nil", moonpad.open, "memory:", { clock = clock })
      raises("invalid_argument", "it returned nil", moonpad.artifactService, "memory:", { clock = clock })
      raises("invalid_argument", "clock: expects a function or a moonpad.testing.clock, got a number", moonpad.open,
        "memory:", { clock = 5 })
    end)

    it("is invalid_argument at the call that asked, which changes nothing", function()
      answer = 1000
      local service <close> = moonpad.open("memory:", { clock = clock })
      local session = checks.create(service, "s")
      for _, one in ipairs { 0 / 0, HUGE, -HUGE, -1, "noon" } do
        answer = one
        raises("invalid_argument", "since 1970", service.appendEvent, service, session, {})
        raises("invalid_argument", "since 1970", service.createSession, service, { appName = "app", userId = "u" })
        session.state.k = 1
        raises("invalid_argument", "since 1970", service.updateSession, service, session)
      end
      answer = 2000
      assert.are.equal(1, service:updateSession(session).revision)
      assert.are.equal(1, checks.get(service, "s").revision)
    end)
  end)

  it("that raises lets the call fail with what it raised, and is asked again by the next", function()
    local problem = {}
    local failing = false
    local service <close> = moonpad.open("memory:", { clock = function()
      if failing then error(problem) end
      return 1000
    end })
    local session = checks.create(service, "s")
    failing = true
    local ok, err = pcall(service.appendEvent, service, session, {})
    assert.is_false(ok)
    assert.are.equal(problem, err)
    failing = false
    assert.are.equal(1, service:appendEvent(session, {}).revision)
  end)

  it("may not yield", function()
    local waits = false
    local service <close> = moonpad.open("memory:", { clock = function()
      if waits then coroutine.yield() end
      return 1000
    end })
    waits = true
    local ok, err = coroutine.resume(coroutine.create(function() service:sweep() end))
    assert.is_false(ok)
    assert.matches("attempt to yield", tostring(err))
  end)

  it("may call the service, which does not ask it again", function()
    local service, session
    local calls, now = 0, 1000
    service = moonpad.open("memory:", { clock = function()
      calls = calls + 1
      if session and calls < 100 then service:appendEvent(session, {}) end
      return now
    end })
    session = checks.create(service, "s")
    now, calls = 2000, 0
    assert.are.equal(2000.0, service:appendEvent(session, {}).timestamp)
    assert.are.equal(1, calls)
    assert.are.same({ 1000.0, 2000.0 }, { session.events[1].timestamp, session.events[2].timestamp })
    service:close()
  end)

  it("may close the service, and the call says so", function()
    for _, name in ipairs { "appendEvent", "refresh", "updateSession", "appendEventAsync", "stateAt", "fork" } do
      local service
      local closes = false
      service = moonpad.open("memory:", { clock = function()
        if closes then service:close() end
        return 1000
      end })
      local session = checks.create(service, "s")
      session.state.k = 1
      closes = true
      raises("closed", nil, service[name], service, session, {})
    end
  end)

  it("may finalize what the call is about", function()
    local object
    local function clock()
      if object then getmetatable(object).__gc(object) end
      return 1000
    end
    local service <close> = moonpad.open("memory:", { clock = clock })
    local session = checks.create(service, "s")
    object = session
    raises("closed", nil, service.appendEvent, service, session, {})
    object = nil
    session = checks.create(service, "t")
    session.state.k = 1
    object = service
    raises("closed", nil, service.updateSession, service, session)
  end)

  it("is one for all services that it was given to, and may outlive them", function()
    local now = 1000
    local function clock() return now end
    for _ = 1, 3 do
      local one, two = moonpad.open("memory:", { clock = clock }), moonpad.open("memory:", { clock = clock })
      now = now + 1
      assert.are.equal(now + 0.0, checks.create(one, "s").createTime)
      assert.are.equal(now + 0.0, checks.create(two, "s").createTime)
      one, two = nil, nil -- luacheck: ignore 311
      collectgarbage()
    end
  end)
end)
