-- Keys, values and the state proxy (contract 1.1, 1.2, 1.3 up to composites).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises
local hasCjson, cjson = pcall(require, "cjson")

describe("a state key", function()
  support.each_store(function(open)
    local service, session
    before_each(function()
      service = open()
      session = checks.create(service)
    end)

    local function stored() return checks.get(service).state end

    it("may be empty", function()
      session.state[""] = "nothing"
      service:updateSession(session)
      assert.are.equal("nothing", stored()[""])
    end)

    it("may hold a NUL, blanks, quotes and any script", function()
      local keys = { "a\0b", "a", "a\0", " ", "it's \"quoted\"", "clé", "鍵", "🌙", "%", "_", "a.b[1]",
        "\u{10FFFF}", "\n" }
      for index, key in ipairs(keys) do session.state[key] = index end
      service:updateSession(session)
      local state = stored()
      for index, key in ipairs(keys) do assert.are.equal(index, state[key]) end
      assert.are.equal(#keys, #checks.keys(state:getAll()))
    end)

    it("may have 1,024 bytes, its prefix included, and no more", function()
      for _, prefix in ipairs { "", "user:", "app:", "temp:" } do
        local longest = prefix .. ("k"):rep(1024 - #prefix)
        session.state[longest] = prefix
        assert.are.equal(prefix, session.state[longest])
        raises("invalid_argument", "1024", function() session.state[longest .. "k"] = 1 end)
      end
      service:updateSession(session)
      assert.are.equal("user:", stored()["user:" .. ("k"):rep(1019)])
    end)

    it("counts bytes, not characters", function()
      session.state[("é"):rep(512)] = true
      raises("invalid_argument", nil, function() session.state[("é"):rep(513)] = true end)
    end)

    it("is refused when it is no UTF-8", function()
      for _, key in ipairs { "\xff", "a\xc3", "\xed\xa0\x80", "\xc0\x80", "\xf4\x90\x80\x80" } do
        raises("invalid_argument", "UTF-8", function() session.state[key] = 1 end)
        raises("invalid_argument", "UTF-8", function() session.state:set(key, 1) end)
        raises("invalid_argument", "UTF-8", function() session.state:update { [key] = 1 } end)
      end
      assert.is_false(session.state:hasDelta())
    end)

    it("is refused when it is no string", function()
      for _, key in ipairs { 1, 1.5, true, {}, print } do
        raises("invalid_argument", "string", function() session.state[key] = 1 end)
        raises("invalid_argument", "string", function() session.state:set(key, 1) end)
      end
      assert.is_false(session.state:hasDelta())
    end)
  end)
end)

describe("the prefix of a key", function()
  it("is named by moonpad.StatePrefix", function()
    assert.are.same({ APP_PREFIX = "app:", USER_PREFIX = "user:", TEMP_PREFIX = "temp:" }, moonpad.StatePrefix)
  end)

  support.each_store(function(open)
    local service
    before_each(function() service = open() end)

    local function create(app, user, id)
      return service:createSession { appName = app, userId = user, sessionId = id }
    end

    local function visible(app, user, id)
      return service:getSession { appName = app, userId = user, sessionId = id }.state:getAll()
    end

    it("decides who shares the value", function()
      local session = create("app", "u", "s")
      create("app", "u", "other session")
      create("app", "other user", "s")
      create("other app", "u", "s")
      session.state:update { k = 1, ["user:k"] = 2, ["app:k"] = 3, ["temp:k"] = 4 }
      service:updateSession(session)
      assert.are.same({ k = 1, ["user:k"] = 2, ["app:k"] = 3 }, visible("app", "u", "s"))
      assert.are.same({ ["user:k"] = 2, ["app:k"] = 3 }, visible("app", "u", "other session"))
      assert.are.same({ ["app:k"] = 3 }, visible("app", "other user", "s"))
      assert.are.same({}, visible("other app", "u", "s"))
      assert.are.same({ k = 2 }, service:getUserState { appName = "app", userId = "u" })
      assert.are.same({ k = 3 }, service:getAppState { appName = "app" })
    end)

    it("counts at the first byte only, and in lower case only", function()
      local session = create("app", "u", "s")
      create("app", "u", "other")
      local own = { ["User:k"] = 1, ["APP:k"] = 2, [" user:k"] = 3, ["foo:bar"] = 4, user = 5, ["x.app:k"] = 6,
        ["Temp:k"] = 7 }
      session.state:update(own)
      service:updateSession(session)
      assert.are.same(own, visible("app", "u", "s"))
      assert.are.same({}, visible("app", "u", "other"))
    end)

    it("is taken off once: what follows it may be empty or look like a prefix", function()
      local session = create("app", "u", "s")
      session.state:update { ["user:"] = 1, ["app:"] = 2, ["app:user:k"] = 3, ["user:temp:k"] = 4, ["user:user:k"] = 5 }
      service:updateSession(session)
      assert.are.same({ [""] = 1, ["temp:k"] = 4, ["user:k"] = 5 },
        service:getUserState { appName = "app", userId = "u" })
      assert.are.same({ [""] = 2, ["user:k"] = 3 }, service:getAppState { appName = "app" })
    end)

    it("`temp:` is kept by the session object that was appended with it, and nowhere else", function()
      local session = create("app", "u", "s")
      local event = checks.append(service, session, { ["temp:k"] = 1, ["temp:"] = 2, k = 3 })
      assert.are.equal(1, session.state["temp:k"])
      assert.are.same({ k = 3 }, event.actions.stateDelta)
      assert.are.same({ k = 3 }, session.events[1].actions.stateDelta)
      local again = service:getSession { appName = "app", userId = "u", sessionId = "s" }
      assert.are.same({ k = 3 }, again.state:getAll())
      assert.are.same({ k = 3 }, again.events[1].actions.stateDelta)
      assert.are.same({ k = 3 }, service:stateAt(again, 1))
    end)
  end)

  it("`temp:` never reaches the file", function()
    finally(support.cleanup)
    local folder = support.tmpdir()
    local service = moonpad.open("sqlite:" .. folder .. "/test.db")
    local session = checks.create(service, "s", { ["temp:initial"] = "needle-in-haystack" })
    session.state["temp:pending"] = "needle-in-haystack"
    session.state["temp:list"] = { "needle-in-haystack" }
    service:updateSession(session)
    checks.append(service, session, { ["temp:delta"] = "needle-in-haystack", k = "hay" })
    service:close()
    assert.is_nil((os.execute("grep -rqa needle-in-haystack " .. support.quote(folder))))
    assert.is_true((os.execute("grep -rqa hay " .. support.quote(folder))))
  end)
end)

describe("a state value", function()
  support.each_store(function(open)
    local service, session
    before_each(function()
      service = open()
      session = checks.create(service)
    end)

    local function roundTrip(value)
      session.state.k = value
      checks.identical(value, moonpad.toTable(session.state.k))
      service:updateSession(session)
      checks.identical(value, moonpad.toTable(session.state.k))
      local again = checks.get(service)
      checks.identical(value, moonpad.toTable(again.state.k))
      checks.identical(value, again.events[#again.events].actions.stateDelta.k)
      return again.state.k
    end

    it("may be any integer of 64 bits", function()
      local integers = { 0, 1, -1, 255, 2 ^ 31 | 0, 2 ^ 53 | 0, (2 ^ 53 | 0) + 1, 9007199254740993, math.maxinteger,
        math.mininteger }
      for _, value in ipairs(integers) do roundTrip(value) end
    end)

    it("may be any finite float, which stays a float", function()
      local floats = { 0.0, -0.0, 1.0, -1.0, 0.1, 1 / 3, 2.0 ^ 53, 1e15, 1e16, 1e17, 1e22, 1e23, 5e-324,
        2.2250738585072011e-308,
        2.2250738585072014e-308, 1.7976931348623157e308, 9007199254740993.0, -123456.789e-7, 2.0 ^ 63, -(2.0 ^ 63) }
      for _, value in ipairs(floats) do roundTrip(value) end
    end)

    it("may be any UTF-8 string", function()
      local strings = { "", " ", "\0", "a\0b\0", "\"\\/\b\f\n\r\t", "\u{7f}", "\u{80}", "é", "鍵", "🌙👩‍🚀",
        "\u{FFFF}", "\u{10FFFF}",
        "\u{2028}", ("x"):rep(100000), "null", "true", "1", "[]", "{}" }
      for _, value in ipairs(strings) do roundTrip(value) end
    end)

    it("may be true, false or null", function()
      for _, value in ipairs { true, false, moonpad.null } do roundTrip(value) end
      assert.are.equal(moonpad.null, checks.get(service).state.k)
    end)

    it("may be an array, an object, or these inside each other", function()
      roundTrip { 1, 2.0, "three", false, moonpad.null, { nested = { 1, { deep = true } } } }
      roundTrip { a = 1, ["odd key \"'\0"] = { 1, 2 }, [""] = moonpad.null, ["1"] = "a string key" }
      roundTrip { { {}, moonpad.array {} }, moonpad.array { moonpad.array {}, {} } }
    end)

    it("may name the same table twice: it is copied twice", function()
      local shared = { x = 1 }
      session.state.k = { shared, shared }
      session.state.k[1].x = 2
      assert.are.same({ { x = 2 }, { x = 1 } }, moonpad.toTable(session.state.k))
      assert.are.equal(1, shared.x)
    end)

    it("is an empty object, or with moonpad.array an empty array, and stays what it is", function()
      local object = roundTrip {}
      assert.are.equal("{}", tostring(object))
      local array = roundTrip(moonpad.array {})
      assert.are.equal("[]", tostring(array))
      assert.are.equal("[]", moonpad.json.encode(checks.get(service).state:getAll().k))
      local event = checks.get(service).events[2]
      assert.are.equal("[]", moonpad.json.encode(event.actions.stateDelta.k))
    end)

    it("stays an array when it is emptied, moved and stored again", function()
      session.state.k = { "x" }
      table.remove(session.state.k)
      service:updateSession(session)
      local again = checks.get(service)
      again.state.copy = moonpad.toTable(again.state.k)
      again.state.whole = again.state:getAll()
      service:updateSession(again)
      assert.are.equal("[]", tostring(checks.get(service).state.copy))
      assert.are.equal("[]", tostring(checks.get(service).state.whole.k))
    end)

    it("may be 128 levels deep", function()
      roundTrip(checks.nested(128))
      raises("invalid_argument", { 'state["k"]', "128" }, function() session.state.k = checks.nested(129) end)
    end)

    it("may carry the array marks of lua-cjson", function()
      if not hasCjson then return pending "lua-cjson is not installed" end
      assert.are.equal(cjson.null, moonpad.null)
      session.state.null = cjson.null
      assert.are.equal(moonpad.null, session.state.null)
      if cjson.empty_array then
        session.state.empty = cjson.empty_array
        assert.are.equal("[]", tostring(session.state.empty))
      end
      if cjson.array_mt then
        session.state.marked = setmetatable({}, cjson.array_mt)
        assert.are.equal("[]", tostring(session.state.marked))
      end
      if cjson.empty_array_mt then
        session.state.empties = setmetatable({}, cjson.empty_array_mt)
        assert.are.equal("[]", tostring(session.state.empties))
      end
    end)

    it("is a copy: the owner of a table that was assigned may go on changing it", function()
      local cart = { items = { "tea" } }
      session.state.cart = cart
      cart.items[2] = "sugar"
      cart.total = 3
      assert.are.same({ items = { "tea" } }, moonpad.toTable(session.state.cart))
      service:updateSession(session)
      cart.items[1] = "coffee"
      assert.are.same({ items = { "tea" } }, checks.get(service).state:getAll().cart)
    end)
  end)
end)

describe("a value that cannot be stored", function()
  local function cycle()
    local value = { items = {} }
    value.items[1] = { back = value }
    return value
  end

  -- What, the value of key `k`, and what the message says.
  local refused = {
    { "a function", print, { 'state["k"]', "function" } },
    { "a function inside", { 1, { run = print } }, { 'state["k"][2].run: a function cannot be stored' } },
    { "a function below an odd key", { ["odd key"] = { print } }, { 'state["k"]["odd key"][1]', "function" } },
    { "a coroutine", { co = coroutine.create(print) }, { 'state["k"].co' } },
    { "a userdata", { file = io.stdout }, { 'state["k"].file' } },
    { "the mark of a deletion inside a value", { gone = moonpad.removed }, { 'state["k"].gone' } },
    { "NaN", 0 / 0, { 'state["k"]', "NaN" } },
    { "NaN inside", { a = { b = 0 / 0 } }, { 'state["k"].a.b', "NaN" } },
    { "infinity", { math.huge }, { 'state["k"][1]' } },
    { "negative infinity", -math.huge, { 'state["k"]' } },
    { "a cycle", cycle(), { 'state["k"].items[1].back' } },
    { "an array part with string keys", { list = { 1, 2, x = 3 } }, { 'state["k"].list' } },
    { "an array with a hole", { list = { 1, nil, 3 } }, { 'state["k"].list' } },
    { "an array that does not start at 1", { [2] = "x" }, { 'state["k"]' } },
    { "an array that starts at 0", { [0] = "x", "y" }, { 'state["k"]' } },
    { "a boolean key", { map = { [true] = 1 } }, { 'state["k"].map' } },
    { "a fractional key", { map = { [1.5] = 1 } }, { 'state["k"].map' } },
    { "a table as a key", { map = { [{}] = 1 } }, { 'state["k"].map' } },
    { "a marked array with string keys", { list = moonpad.array { x = 1 } }, { 'state["k"].list' } },
    { "an invalid string", { text = "ok\xff" }, { 'state["k"].text', "UTF-8" } },
    { "a cut character", "\xe2\x82", { 'state["k"]', "UTF-8" } },
    { "a surrogate", "\xed\xa0\x80", { 'state["k"]', "UTF-8" } },
    { "an invalid key", { ["\xff"] = 1 }, { 'state["k"]', "UTF-8" } },
    { "129 levels", checks.nested(129), { 'state["k"]', "128" } },
    { "129 levels below a key", { a = { b = checks.nested(127) } }, { 'state["k"].a.b', "128" } },
  }

  support.each_store(function(open, store)
    for index, row in ipairs(refused) do
      -- What is refused does not depend on the store, only that nothing of it is stored does: one row tells.
      if store ~= "memory:" and index > 1 then break end
      local what, value, says = row[1], row[2], row[3]

      describe("such as " .. what, function()
        local service, session
        before_each(function()
          service = open()
          session = checks.create(service, "s", { k = "before" })
        end)

        local function expectUnchanged()
          assert.are.equal("before", session.state.k)
          assert.is_nil(session.state.other)
          assert.is_false(session.state:hasDelta())
          assert.is_nil(service:updateSession(session))
        end

        it("is refused where it is assigned", function()
          raises("invalid_argument", says, function() session.state.k = value end)
          raises("invalid_argument", says, function() session.state:set("k", value) end)
          raises("invalid_argument", says, function() session.state:update { k = value, other = 1 } end)
          expectUnchanged()
        end)

        it("is refused as a default", function()
          session.state.k = nil
          raises("invalid_argument", says, function() session.state:setDefault("k", value) end)
          assert.is_nil(session.state.k)
        end)

        it("is refused as an item to append", function()
          session.state.list = { 1 }
          raises("invalid_argument", nil, function() session.state:append("list", value) end)
          assert.are.equal("[1]", tostring(session.state.list))
        end)

        it("is refused in a state object of no session", function()
          raises("invalid_argument", says, moonpad.state, { k = value })
        end)

        it("is refused as initial state, and no session is made", function()
          raises("invalid_argument", "k", service.createSession, service,
            { appName = "app", userId = "u", sessionId = "new", state = { k = value } })
          assert.is_nil(checks.get(service, "new"))
        end)

        it("is refused in an event, and nothing of it is stored", function()
          raises("invalid_argument", "k", checks.append, service, session, { other = 1, k = value })
          -- A field of an event that is no state value may be deeper than one.
          if not what:find "129 levels" then
            raises("invalid_argument", "detail", checks.append, service, session, nil, { detail = value })
          end
          expectUnchanged()
          assert.are.equal(0, checks.get(service).revision)
        end)

        it("is refused as user and app state", function()
          raises("invalid_argument", "k", service.updateUserState, service,
            { appName = "app", userId = "u", state = { k = value, other = 1 } })
          raises("invalid_argument", "k", service.updateAppState, service,
            { appName = "app", state = { k = value, other = 1 } })
          assert.are.same({}, service:getUserState { appName = "app", userId = "u" })
          assert.are.same({}, service:getAppState { appName = "app" })
        end)
      end)
    end
  end)
end)

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
