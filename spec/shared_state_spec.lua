-- State of a user and of an app (contract 2): read, updated, incremented.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises

describe("user and app state", function()
  support.each_store(function(open)
    local service
    before_each(function() service = open() end)

    local function userState() return service:getUserState { appName = "app", userId = "u" } end
    local function appState() return service:getAppState { appName = "app" } end
    local function updateUser(state) return service:updateUserState { appName = "app", userId = "u", state = state } end
    local function updateApp(state) return service:updateAppState { appName = "app", state = state } end

    it("are plain tables, empty where there is nothing", function()
      assert.are.same({}, userState())
      assert.are.same({}, appState())
      updateUser { list = { 1 } }
      local state = userState()
      assert.are.equal("table", type(state.list))
      state.list[1] = 2
      assert.are.equal(1, userState().list[1])
    end)

    it("are merged key by key, whole values each", function()
      updateUser { a = 1, nested = { x = 1, y = 2 } }
      updateUser { b = 2, nested = { z = 3 } }
      assert.are.same({ a = 1, b = 2, nested = { z = 3 } }, userState())
      updateApp { a = 1 }
      updateApp { a = 2, c = moonpad.null }
      assert.are.same({ a = 2, c = moonpad.null }, appState())
    end)

    it("lose a key by moonpad.removed", function()
      updateUser { a = 1, b = 2 }
      updateUser { a = moonpad.removed, never = moonpad.removed }
      assert.are.same({ b = 2 }, userState())
      updateApp { a = 1, b = 2 }
      updateApp { a = moonpad.removed, c = 3 }
      assert.are.same({ b = 2, c = 3 }, appState())
    end)

    it("take keys without prefix, whatever they look like", function()
      updateUser { ["user:k"] = 1, ["temp:k"] = 2, ["app:k"] = 3, [""] = 4 }
      assert.are.same({ ["user:k"] = 1, ["temp:k"] = 2, ["app:k"] = 3, [""] = 4 }, userState())
      assert.are.same({ ["user:user:k"] = 1, ["user:temp:k"] = 2, ["user:app:k"] = 3, ["user:"] = 4 },
        checks.create(service).state:getAll())
    end)

    it("reach sessions that are got or refreshed afterwards", function()
      local session = checks.create(service)
      updateUser { k = 1 }
      updateApp { k = 2 }
      assert.are.same({}, session.state:getAll())
      assert.are.same({ ["user:k"] = 1, ["app:k"] = 2 }, checks.get(service).state:getAll())
      assert.are.same({ ["user:k"] = 1, ["app:k"] = 2 }, service:refresh(session).state:getAll())
      assert.are.equal(0, session.revision)
    end)

    it("are taken in by an own append", function()
      local session = checks.create(service)
      updateUser { k = 1 }
      updateApp { k = 2 }
      checks.append(service, session, { own = 3 })
      assert.are.same({ own = 3, ["user:k"] = 1, ["app:k"] = 2 }, session.state:getAll())
    end)

    it("want a table of string keys", function()
      raises("invalid_argument", "state", updateUser, nil)
      raises("invalid_argument", "state", updateUser, "k")
      raises("invalid_argument", "state", updateUser, { 1 })
      raises("invalid_argument", "state", updateApp, nil)
      raises("invalid_argument", "1024", updateApp, { [("k"):rep(1021)] = 1 })
      updateApp { [("k"):rep(1020)] = 1 }
      assert.are.same({}, userState())
    end)

    describe("incrementState", function()
      local function increment(options)
        options.appName = "app"
        return service:incrementState(options)
      end

      it("adds to a user key at once and returns the committed value", function()
        assert.are.equal(1, increment { userId = "u", key = "n" })
        assert.are.equal(6, increment { userId = "u", key = "n", by = 5 })
        assert.are.equal(4, increment { userId = "u", key = "n", by = -2 })
        assert.are.same({ n = 4 }, userState())
        assert.are.equal("integer", math.type(userState().n))
        assert.are.same({}, appState())
      end)

      it("adds to an app key where there is no user", function()
        assert.are.equal(2, increment { key = "n", by = 2 })
        checks.identical(2.5, increment { key = "n", by = 0.5 })
        assert.are.same({ n = 2.5 }, appState())
        assert.are.same({}, userState())
      end)

      it("does not interpret prefixes in its key", function()
        increment { userId = "u", key = "user:n" }
        increment { key = "app:n" }
        assert.are.same({ ["user:n"] = 1 }, userState())
        assert.are.same({ ["app:n"] = 1 }, appState())
      end)

      it("refuses what is no number, and an overflow", function()
        updateUser { text = "x", null = moonpad.null, max = math.maxinteger }
        raises("invalid_argument", "text", increment, { userId = "u", key = "text" })
        raises("invalid_argument", "null", increment, { userId = "u", key = "null" })
        raises("invalid_argument", "max", increment, { userId = "u", key = "max" })
        raises("invalid_argument", "by", increment, { userId = "u", key = "n", by = "1" })
        raises("invalid_argument", "by", increment, { userId = "u", key = "n", by = 0 / 0 })
        raises("invalid_argument", "key", increment, { userId = "u" })
        assert.are.same({ text = "x", null = moonpad.null, max = math.maxinteger }, userState())
      end)
    end)
  end)
end)
