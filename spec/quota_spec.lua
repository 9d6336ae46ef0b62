-- How many sessions a user may have (contract 5): maxSessionsPerUser, onMaxSessions.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

local raises = checks.raises

describe("maxSessionsPerUser", function()
  support.each_store(function(open)
    local clock, service

    local function start(config)
      clock = testing.clock(1000)
      config.clock = clock
      service = open(config)
    end

    local function create(id, userId, state)
      clock:advance(1)
      return service:createSession { appName = "app", userId = userId or "u", sessionId = id, state = state }
    end

    local function ids(userId)
      local list = {}
      local sessions = service:listSessions { appName = "app", userId = userId or "u" }
      for i, session in ipairs(sessions) do list[i] = session.id end
      return table.concat(list, " ")
    end

    -- The ways in which a session can be made.
    local MAKES <const> = {
      createSession = function(id) return create(id) end,
      fork = function(id) return service:fork(service:getSession { appName = "app", userId = "u", sessionId = "b" },
        { at = 0, sessionId = id }) end,
      import = function(id)
        local lines = {}
        local from = service:getSession { appName = "app", userId = "u", sessionId = "b" }
        for line in service:export(from) do lines[#lines + 1] = line end
        return service:import { lines = lines, sessionId = id }
      end,
    }

    for name, make in pairs(MAKES) do
      it("refuses one too many with " .. name, function()
        start { maxSessionsPerUser = 2 }
        create "a"
        create "b"
        raises("limit", 'user "u" of app "app" has 2 sessions already, and maxSessionsPerUser is 2', make, "c")
        assert.equal("a b", ids())
        raises("already_exists", "exists already", make, "a")
        service:deleteSession { appName = "app", userId = "u", sessionId = "a" }
        assert.equal("c", make("c").id)
      end)

      it("deletes the oldest by last update with " .. name, function()
        start { maxSessionsPerUser = 2, onMaxSessions = "deleteOldest" }
        local a = create "a"
        create "b"
        clock:advance(1)
        service:appendEvent(a, { author = "bot" })
        local b = service:getSession { appName = "app", userId = "u", sessionId = "b" }
        assert.equal("c", make("c").id)
        raises("not_found", "does not exist", service.refresh, service, b)
        assert.truthy(ids():find "c")
        assert.truthy(ids():find "a")
        assert.equal(3, #ids())
      end)
    end

    it("counts each user, and no state", function()
      start { maxSessionsPerUser = 1 }
      create("a", "u", { ["user:n"] = 1, ["app:n"] = 1 })
      create("a", "other")
      raises("limit", "maxSessionsPerUser", create, "b", "u", { ["user:n"] = 2 })
      assert.same({ n = 1 }, service:getUserState { appName = "app", userId = "u" })
      service:createSession { appName = "app2", userId = "u", sessionId = "a" }
    end)

    it("is off where it is 0", function()
      start { maxSessionsPerUser = 0, onMaxSessions = "deleteOldest" }
      for i = 1, 20 do create("s" .. i) end
      assert.equal(20, #service:listSessions { appName = "app", userId = "u" })
    end)

    it("does not count what has expired, and counts what is in use", function()
      start { maxSessionsPerUser = 2, sessionTtlSeconds = 100 }
      create "a"
      create "b"
      clock:advance(60)
      service:getSession { appName = "app", userId = "u", sessionId = "a" }
      clock:advance(60)
      create "c"
      raises("limit", "has 2 sessions", create, "d")
      assert.equal("a c", ids())
    end)

    it("brings a user down to a limit that is lower than before", function()
      start { maxSessionsPerUser = 3, onMaxSessions = "deleteOldest" }
      for i = 1, 3 do create("s" .. i) end
      assert.equal("s1 s2 s3", ids())
      create "s4"
      assert.equal("s2 s3 s4", ids())
    end)

    it("makes room for a run's session, or is the run's error", function()
      start { maxSessionsPerUser = 1 }
      local runner = moonpad.runner { appName = "app", sessionService = service,
        agent = moonpad.agent { name = "bot", model = function() return "hi" end } }
      runner:ask { userId = "u", sessionId = "a", newMessage = "x" }
      runner:ask { userId = "u", sessionId = "a", newMessage = "x" }
      raises("limit", "maxSessionsPerUser", runner.ask, runner, { userId = "u", sessionId = "b", newMessage = "x" })
      assert.equal("a", ids())
    end)
  end)

  it("is refused where it is no number, or says nothing of what then", function()
    raises("invalid_argument", "maxSessionsPerUser", moonpad.open, "memory:", { maxSessionsPerUser = -1 })
    raises("invalid_argument", "maxSessionsPerUser", moonpad.open, "memory:", { maxSessionsPerUser = "3" })
    raises("invalid_argument", 'onMaxSessions: expects "refuse" or "deleteOldest"', moonpad.open, "memory:",
      { onMaxSessions = "drop" })
  end)
end)
