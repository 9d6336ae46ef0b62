-- The state proxy (contract 1.3 up to composites).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises
local hasCjson, cjson = pcall(require, "cjson")

describe("the state proxy", function()
  support.each_store(function(open)
    local service, session, state
    before_each(function()
      service = open()
      session = checks.create(service, "s", { k = "stored", ["user:k"] = "user", ["app:k"] = "app", null = moonpad.null,
        no = false })
      state = session.state
    end)

    local function commit()
      local event = service:updateSession(session)
      return event, checks.get(service).state
    end

    describe("by index", function()
      it("reads a value or nil, prefixes in place", function()
        assert.are.equal("stored", state.k)
        assert.are.equal("user", state["user:k"])
        assert.are.equal("app", state["app:k"])
        assert.are.equal(moonpad.null, state.null)
        assert.is_false(state.no)
        assert.is_nil(state.missing)
        assert.is_nil(state["user:missing"])
      end)

      it("sets and deletes", function()
        state.k, state.new = "changed", 1
        state["user:k"] = nil
        assert.are.equal("changed", state.k)
        assert.are.equal(1, state.new)
        assert.is_nil(state["user:k"])
        local _, stored = commit()
        assert.are.same({ k = "changed", new = 1, ["app:k"] = "app", null = moonpad.null, no = false }, stored:getAll())
      end)

      it("finds methods before keys of the same name", function()
        local methods = { "get", "set", "has", "delete", "update", "setDefault", "getAll", "toTable", "hasDelta",
          "delta", "increment", "append" }
        for _, name in ipairs(methods) do
          assert.is_function(state[name])
          raises("invalid_argument", { name, "set" }, function() state[name] = 1 end)
          raises("invalid_argument", { name, "set" }, function() state[name] = nil end)
          state:set(name, "a key called " .. name)
          assert.is_function(state[name])
          assert.are.equal("a key called " .. name, state:get(name))
          assert.is_true(state:has(name))
        end
        local _, stored = commit()
        for _, name in ipairs(methods) do assert.are.equal("a key called " .. name, stored:getAll()[name]) end
        for _, name in ipairs(methods) do assert.is_true(state:delete(name)) end
        assert.is_nil(state:get "get")
      end)

      it("has no other methods, so that any other name is a key", function()
        for _, name in ipairs { "keys", "pop", "clear", "pairs", "commit", "remove", "len", "state", "session",
          "__index", "__gc", "toJson" } do
          assert.is_nil(state[name])
          state[name] = "mine"
          assert.are.equal("mine", state[name])
        end
      end)
    end)

    describe("get", function()
      it("gives the default for an absent key only", function()
        assert.are.equal("stored", state:get("k", "default"))
        assert.are.equal("default", state:get("missing", "default"))
        assert.is_nil(state:get "missing")
        assert.are.equal(moonpad.null, state:get("null", "default"))
        assert.is_false(state:get("no", "default"))
        state.k = nil
        assert.are.equal("default", state:get("k", "default"))
      end)

      it("does not store the default", function()
        state:get("missing", { 1 })
        assert.is_false(state:hasDelta())
        assert.is_nil(state.missing)
      end)
    end)

    it("set writes, and deletes with nil", function()
      state:set("new", { 1 })
      state:set("k", nil)
      assert.are.equal(1, state.new[1])
      assert.is_false(state:has "k")
    end)

    it("has tells whether a key is present, null and false included", function()
      assert.is_true(state:has "k")
      assert.is_true(state:has "null")
      assert.is_true(state:has "no")
      assert.is_false(state:has "missing")
      state.k, state.missing = nil, moonpad.null
      assert.is_false(state:has "k")
      assert.is_true(state:has "missing")
    end)

    it("delete tells whether the key existed", function()
      assert.is_true(state:delete "k")
      assert.is_false(state:delete "k")
      assert.is_false(state:delete "missing")
      assert.is_true(state:delete "null")
      state.new = 1
      assert.is_true(state:delete "new")
      local _, stored = commit()
      assert.is_nil(stored.k)
      assert.is_false(stored:has "null")
    end)

    describe("update", function()
      it("writes several keys", function()
        state:update { k = 1, ["user:k"] = 2, new = { 3 } }
        assert.are.equal(1, state.k)
        assert.are.equal(2, state["user:k"])
        assert.are.equal(3, state.new[1])
      end)

      it("validates all before it writes any", function()
        raises("invalid_argument", 'state["z"]', function() state:update { a = 1, k = 2, z = print } end)
        raises("invalid_argument", "1024", function() state:update { a = 1, [("x"):rep(1025)] = 1 } end)
        raises("invalid_argument", "string", function() state:update { a = 1, [7] = 1 } end)
        assert.is_nil(state.a)
        assert.are.equal("stored", state.k)
        assert.is_false(state:hasDelta())
      end)

      it("wants a table", function()
        raises("invalid_argument", "table", function() state:update() end)
        raises("invalid_argument", "table", function() state:update "k" end)
      end)

      it("takes an object out of the state", function()
        state.defaults = { a = 1, b = { 2 } }
        state:update(state.defaults)
        assert.are.equal(1, state.a)
        assert.are.equal(2, state.b[1])
        state.defaults.b[1] = 3
        assert.are.equal(2, state.b[1])
      end)

      it("with nothing in it changes nothing", function()
        state:update {}
        assert.is_false(state:hasDelta())
      end)
    end)

    describe("setDefault", function()
      it("writes when the key is absent", function()
        assert.are.equal(1, state:setDefault("new", 1))
        assert.are.equal(1, state.new)
        assert.are.same({ new = 1 }, state:delta())
      end)

      it("leaves what is present, null and false included", function()
        assert.are.equal("stored", state:setDefault("k", 1))
        assert.are.equal(moonpad.null, state:setDefault("null", 1))
        assert.is_false(state:setDefault("no", 1))
        assert.is_false(state:hasDelta())
      end)

      it("returns the node of a table, so that nothing is lost", function()
        table.insert(state:setDefault("cart", {}), "tea")
        table.insert(state:setDefault("cart", {}), "sugar")
        assert.are.equal(state.cart, state:setDefault("cart", {}))
        local _, stored = commit()
        assert.are.same({ "tea", "sugar" }, stored:getAll().cart)
      end)
    end)

    describe("getAll", function()
      it("is a plain deep copy of the merged map", function()
        state.cart = { items = { 1 } }
        state.no = nil
        local all = state:getAll()
        assert.are.same({ k = "stored", ["user:k"] = "user", ["app:k"] = "app", null = moonpad.null,
          cart = { items = { 1 } } }, all)
        assert.are.equal("table", type(all.cart.items))
        all.cart.items[1], all.k = 2, "mine"
        assert.are.equal(1, state.cart.items[1])
        assert.are.equal("stored", state.k)
        assert.are.same(state:getAll(), state:toTable())
      end)
    end)

    describe("pairs", function()
      it("gives each key of the merged map once, in sorted order", function()
        state:update { a = 1, z = 2, ["temp:t"] = 3, k = "pending", ["user:k"] = "pending", B = 4, ["é"] = 5 }
        state["app:k"] = nil
        local keys, values = {}, {}
        for key, value in pairs(state) do
          keys[#keys + 1] = key
          values[key] = value
        end
        assert.are.same({ "B", "a", "k", "no", "null", "temp:t", "user:k", "z", "é" }, keys)
        assert.are.equal("pending", values.k)
        assert.are.equal(moonpad.null, values.null)
        assert.is_false(values.no)
      end)

      it("gives nodes for tables", function()
        state.cart = { 1 }
        for key, value in pairs(state) do
          if key == "cart" then value[2] = 2 end
        end
        assert.are.equal("[1,2]", tostring(state.cart))
      end)

      it("may change what it walks over", function()
        local seen = 0
        for key in pairs(state) do
          seen = seen + 1
          state[key] = nil
        end
        assert.are.equal(5, seen)
        assert.are.same({}, state:getAll())
      end)
    end)

    describe("delta", function()
      it("is empty at first, and reading leaves it so", function()
        assert.is_false(state:hasDelta())
        assert.are.same({}, state:delta())
        local _ = { state.k, state:getAll(), state:has "k", state:get "k", state:delta() }
        for _ in pairs(state) do assert.is_false(state:hasDelta()) end
        assert.is_false(state:hasDelta())
      end)

      it("holds what is pending; a deletion is moonpad.removed", function()
        state.k, state.new, state["temp:t"], state["user:k"] = "changed", { 1 }, 2, nil
        assert.is_true(state:hasDelta())
        assert.are.same({ k = "changed", new = { 1 }, ["temp:t"] = 2, ["user:k"] = moonpad.removed }, state:delta())
      end)

      it("is a copy", function()
        state.new = { 1 }
        local delta = state:delta()
        delta.new[1], delta.other = 2, 3
        assert.are.same({ new = { 1 } }, state:delta())
      end)

      it("is empty again once it is stored", function()
        state.new = 1
        commit()
        assert.is_false(state:hasDelta())
        assert.are.same({}, state:delta())
        assert.is_nil(service:updateSession(session))
      end)

      it("can be appended by hand", function()
        local copy = checks.create(service, "copy", { k = 1, gone = 2 })
        copy.state.k, copy.state.gone, copy.state.new = 3, nil, { 4 }
        checks.append(service, checks.get(service, "copy"), copy.state:delta())
        assert.are.same({ k = 3, new = { 4 }, ["user:k"] = "user", ["app:k"] = "app" },
          checks.get(service, "copy").state:getAll())
      end)
    end)

    describe("increment", function()
      it("returns nothing", function()
        assert.are.equal(0, select("#", state:increment "n"))
      end)

      it("adds one, or what it is told, from 0 where there is nothing", function()
        state:increment "n"
        assert.are.equal(1, state.n)
        state:increment("n", 5)
        state:increment("n", -10)
        assert.are.equal(-4, state.n)
        local event, stored = commit()
        assert.are.equal(-4, stored.n)
        assert.are.equal(-4, event.actions.stateDelta.n)
        assert.are.equal("integer", math.type(stored.n))
      end)

      it("keeps integers exact and gives a float when one is in it", function()
        state.big = 9007199254740993
        state:increment("big", 2)
        assert.are.equal(9007199254740995, state.big)
        state:increment("f", 0.5)
        state:increment("f", 0.5)
        checks.identical(1.0, state.f)
        state.i = 1
        state:increment("i", 1.0)
        local _, stored = commit()
        checks.identical(9007199254740995, stored.big)
        checks.identical(1.0, stored.f)
        checks.identical(2.0, stored.i)
      end)

      it("reads the local sum in between, on top of stored and pending values", function()
        state["user:n"] = 10
        state:increment "user:n"
        assert.are.equal(11, state["user:n"])
        commit()
        state:increment("user:n", 4)
        assert.are.equal(15, state["user:n"])
        assert.are.equal(15, state:getAll()["user:n"])
        state["user:n"] = 1
        state:increment "user:n"
        assert.are.equal(2, state["user:n"])
        state["user:n"] = nil
        state:increment "user:n"
        local _, stored = commit()
        assert.are.equal(1, stored["user:n"])
      end)

      it("loses no update of parallel sessions", function()
        local other = checks.create(service, "other")
        for _ = 1, 3 do
          state:increment "user:n"
          other.state:increment("user:n", 10)
          other.state:increment("app:n", 100)
          service:updateSession(other)
          service:updateSession(session)
        end
        assert.are.equal(33, service:getUserState({ appName = "app", userId = "u" }).n)
        assert.are.equal(300, service:getAppState({ appName = "app" }).n)
      end)

      it("refuses what is no number, and changes nothing", function()
        state.list = { 1 }
        for _, key in ipairs { "k", "null", "no", "list" } do
          raises("invalid_argument", key, function() state:increment(key) end)
        end
        assert.are.same({ list = { 1 } }, state:delta())
        for _, by in ipairs { "1", true, {}, 0 / 0, math.huge } do
          raises("invalid_argument", nil, function() state:increment("n", by) end)
        end
        assert.is_nil(state.n)
      end)

      it("refuses an integer overflow", function()
        state.n, state.m = math.maxinteger, math.mininteger
        raises("invalid_argument", "n", function() state:increment "n" end)
        raises("invalid_argument", "m", function() state:increment("m", -1) end)
        assert.are.equal(math.maxinteger, state.n)
        commit()
        raises("invalid_argument", "n", function() state:increment "n" end)
        state:increment("n", -1)
        local _, stored = commit()
        assert.are.equal(math.maxinteger - 1, stored.n)
      end)

      it("refuses a float overflow", function()
        state.f = 1.7e308
        raises("invalid_argument", "f", function() state:increment("f", 1.7e308) end)
        assert.are.equal(1.7e308, state.f)
      end)

      -- Two pending operations, and somebody else's texts under them.
      local function overtake()
        state.n, state.list, state.x = 1, { 1 }, 1
        commit()
        state:increment "n"
        state:append("list", 2)
        local other = checks.get(service, session.id)
        other.state.n, other.state.list = "text", "text"
        service:updateSession(other)
      end

      local INCREMENT = 'state["n"]: holds a string, which cannot be incremented: the value has been changed since '
        .. "this increment was written here; assign or delete the key"
      local APPEND = 'state["list"]: holds a string, which cannot be appended to: the value has been changed since '
        .. "this append was written here; assign or delete the key"

      it("tells the way out where somebody else has put a text under it, and leaves the other keys alone", function()
        overtake()
        raises("invalid_argument", APPEND, service.updateSession, service, session)
        service:refresh(session)
        raises("invalid_argument", INCREMENT, function() return state.n end)
        raises("invalid_argument", 'state["n"]: holds a string', state.increment, state, "n")
        raises("invalid_argument", APPEND, function() return state.list end)
        raises("invalid_argument", APPEND, state.getAll, state)
        raises("invalid_argument", APPEND, state.delta, state)
        raises("invalid_argument", APPEND, function()
          for _ in pairs(state) do end -- luacheck: ignore
        end)
        assert.are.equal(1, state.x)
        assert.are.equal("1", moonpad.injectSessionState("{x}", state))
        assert.is_true(state:has "n" and state:has "list" and state:hasDelta())
        state.x = 2
      end)

      it("gives way to an assignment or a removal after that", function()
        overtake()
        service:refresh(session)
        state.n = 5
        raises("invalid_argument", APPEND, state.getAll, state)
        state.list = nil
        local expected = state:getAll()
        assert.are.equal(5, expected.n)
        assert.is_nil(expected.list)
        local _, stored = commit()
        assert.are.same({ 5, nil, 1 }, { stored.n, stored.list, stored.x })
      end)

      it("can be deleted again", function()
        state:increment "n"
        state.n = nil
        assert.is_nil(state.n)
        local _, stored = commit()
        assert.is_nil(stored.n)
      end)
    end)

    describe("append", function()
      it("makes an array where there is none, and returns nothing", function()
        assert.are.equal(0, select("#", state:append("log", "one")))
        state:append("log", { two = 2 })
        assert.are.equal('["one",{"two":2}]', tostring(state.log))
        local event, stored = commit()
        assert.are.same({ "one", { two = 2 } }, stored:getAll().log)
        assert.are.same({ "one", { two = 2 } }, event.actions.stateDelta.log)
      end)

      it("counts an empty object as an empty array", function()
        state.log = {}
        state:append("log", 1)
        assert.are.equal("[1]", tostring(state.log))
        state.log = {}
        commit()
        state:append("log", 2)
        local _, stored = commit()
        assert.are.equal("[2]", tostring(stored.log))
      end)

      it("adds to what is stored and to what is pending", function()
        state.log = { 1 }
        commit()
        state:append("log", 2)
        table.insert(state.log, 3)
        state:append("log", 4)
        assert.are.equal("[1,2,3,4]", tostring(state.log))
        local _, stored = commit()
        assert.are.equal("[1,2,3,4]", tostring(stored.log))
      end)

      it("loses no item of parallel sessions", function()
        local other = checks.create(service, "other")
        state:append("user:log", "a")
        other.state:append("user:log", "b")
        service:updateSession(other)
        service:updateSession(session)
        assert.are.same({ "b", "a" }, service:getUserState({ appName = "app", userId = "u" }).log)
        assert.are.equal('["b","a"]', tostring(session.state["user:log"]))
      end)

      it("refuses what is no array, and changes nothing", function()
        state.object = { a = 1 }
        for _, key in ipairs { "k", "null", "no", "object" } do
          raises("invalid_argument", key, function() state:append(key, 1) end)
        end
        assert.are.same({ object = { a = 1 } }, state:delta())
      end)

      it("refuses nil", function()
        raises("invalid_argument", nil, function() state:append("log", nil) end)
        assert.is_nil(state.log)
      end)

      it("stores a copy of the item", function()
        local item = { 1 }
        state:append("log", item)
        item[1] = 2
        assert.are.equal("[[1]]", tostring(state.log))
      end)
    end)

    it("keeps writes local until they are stored as one event of the system", function()
      state:update { k = "pending", ["user:k"] = "pending", ["app:k"] = "pending" }
      state.null = nil
      local other = checks.get(service)
      assert.are.equal("stored", other.state.k)
      assert.are.equal("user", other.state["user:k"])
      assert.are.same({ k = "app" }, service:getAppState { appName = "app" })
      local event = service:updateSession(session)
      assert.are.equal("system", event.author)
      assert.are.equal(1, event.revision)
      assert.are.same({ k = "pending", ["user:k"] = "pending", ["app:k"] = "pending", null = moonpad.removed },
        event.actions.stateDelta)
      assert.are.equal(1, #session.events)
      assert.are.same({ k = "pending", ["user:k"] = "pending", ["app:k"] = "pending", no = false },
        checks.get(service).state:getAll())
    end)

    it("is the same object each time", function()
      assert.are.equal(session.state, session.state)
    end)

    it("outlives the session variable", function()
      local kept = checks.create(service, "kept", { list = { 1 } }).state
      collectgarbage()
      collectgarbage()
      kept.list[2] = 2
      assert.are.equal("[1,2]", tostring(kept.list))
    end)

    it("says so when a method is called with a dot", function()
      for _, name in ipairs { "get", "set", "has", "delete", "update", "setDefault", "getAll", "hasDelta", "delta",
        "increment", "append" } do
        raises("invalid_argument", { "state:" .. name }, state[name], "k", 1)
        raises("invalid_argument", { "state:" .. name }, state[name])
      end
    end)

    it("refuses raw access instead of looking empty", function()
      assert.has_error(function() next(state) end)
      assert.has_error(function() rawget(state, "k") end)
      if hasCjson then assert.has_error(function() cjson.encode(state) end) end
    end)
  end)
end)

describe("a state object of no session", function()
  it("starts with what it is given, and with nothing pending", function()
    local state = moonpad.state { k = 1, ["user:name"] = "Ann", ["temp:t"] = { 2 } }
    assert.are.equal(1, state.k)
    assert.are.equal("Ann", state["user:name"])
    assert.are.equal(2, state["temp:t"][1])
    assert.is_false(state:hasDelta())
    assert.are.same({ k = 1, ["user:name"] = "Ann", ["temp:t"] = { 2 } }, state:getAll())
  end)

  it("may be empty", function()
    assert.are.same({}, moonpad.state():getAll())
    assert.are.same({}, moonpad.state({}):getAll())
  end)

  it("shows what the function under test wrote", function()
    local state = moonpad.state { k = 1, list = { 1 }, gone = 2 }
    state.gone = nil
    state:increment "k"
    state:append("list", 2)
    state:setDefault("new", {}).x = 1
    assert.are.same({ k = 2, list = { 1, 2 }, gone = moonpad.removed, new = { x = 1 } }, state:delta())
    assert.are.same({ k = 2, list = { 1, 2 }, new = { x = 1 } }, state:getAll())
  end)

  it("renders a template", function()
    local service <close> = moonpad.open "memory:"
    local session = service:createSession { appName = "app", userId = "u" }
    for found, value in pairs { ["a session"] = session, ["a service"] = service, ["a table"] = {} } do
      local ok, err = pcall(moonpad.injectSessionState, "{x}", value)
      assert.is_false(ok)
      assert.are.equal("injectSessionState(template, context): expected a context or a state object "
        .. "(such as session.state), got " .. found, err.message)
    end
    assert.are.equal("Hello Ann!", moonpad.injectSessionState("Hello {user:name}!",
      moonpad.state { ["user:name"] = "Ann" }))
  end)

  it("shares nothing with the table it was made of", function()
    local values = { list = { 1 } }
    local state = moonpad.state(values)
    values.list[2] = 2
    state.list[2] = 3
    assert.are.same({ list = { 1, 2 } }, values)
    assert.are.equal("[1,3]", tostring(state.list))
  end)

  it("refuses keys that are no strings", function()
    raises("invalid_argument", "string", moonpad.state, { 1, 2 })
    raises("invalid_argument", "table", moonpad.state, "k")
  end)
end)
