-- Keys, their prefixes, and values of state: what is stored, what is refused (contract 1.1, 1.2).
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

    it("may be 128 levels deep wherever it comes from, and no deeper", function()
      local deep = checks.nested(128)
      local function all(value) return { k = value, ["user:k"] = value, ["app:k"] = value } end
      local made = checks.create(service, "made", all(deep))
      service:updateUserState { appName = "app", userId = "u", state = { shared = deep } }
      checks.append(service, made, { e = deep })
      made.state.whole = moonpad.state { inner = checks.nested(127) }
      service:updateSession(made)
      local state = checks.get(service, "made").state
      for _, key in ipairs { "k", "user:k", "app:k", "user:shared", "e" } do
        assert.are.same(deep, moonpad.toTable(state[key]))
      end
      local refused = { 'state["', "nested deeper than 128" }
      for _, key in ipairs { "k", "user:k", "app:k" } do
        raises("invalid_argument", refused, checks.create, service, "other", { [key] = checks.nested(129) })
      end
      raises("invalid_argument", refused, service.updateUserState, service,
        { appName = "app", userId = "u", state = { k = checks.nested(129) } })
      raises("invalid_argument", { "event.actions.stateDelta.k", "nested deeper than 128" }, checks.append, service,
        made, { k = checks.nested(129) })
      local state128 = moonpad.state { inner = deep }
      raises("invalid_argument", { 'state["k"]: nested deeper than 128' }, function() session.state.k = state128 end)
      raises("invalid_argument", { 'state["k"].a: nested deeper' }, function() session.state.k = { a = state128 } end)
      assert.are.same({ inner = deep }, state128:getAll())
    end)

    it("leaves room for the array that it is appended to", function()
      local state, deep = session.state, checks.nested(128)
      state.node = deep
      for what, item in pairs { table = deep, node = state.node, state = moonpad.state { k = checks.nested(127) } } do
        raises("invalid_argument", { 'state["absent"]', "128" }, function() state:append("absent", item) end)
        assert.is_nil(state.absent, what)
        raises("invalid_argument", { 'state["user:absent"]', "128" }, function() state:append("user:absent", item) end)
        state.list = { 1 }
        raises("invalid_argument", { 'state["list"]', "128" }, function() state:append("list", item) end)
        assert.are.equal("[1]", tostring(state.list))
      end
      state:append("absent", checks.nested(127))
      state:append("absent", checks.nested(127))
      assert.are.same({ checks.nested(127), checks.nested(127) }, moonpad.toTable(state.absent))
      raises("invalid_argument", { 'state["absent"]', "128" }, function() state:append("absent", deep) end)
      service:updateSession(session)
      raises("invalid_argument", { 'state["absent"]', "128" }, function() session.state:append("absent", deep) end)
      local again = checks.get(service)
      assert.are.same({ checks.nested(127), checks.nested(127) }, moonpad.toTable(again.state.absent))
      assert.are.same(checks.nested(127), again.state:getAll().absent[2])
      for _, event in ipairs(again.events) do assert.is_string(moonpad.json.encode(event)) end
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
      -- What is refused does not depend on the store, only that nothing of it is stored does: one
      -- row tells.
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
