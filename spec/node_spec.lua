-- Composites: the proxies of arrays and objects inside a state (contract 1.3).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises
-- What a write to a stale node is told.
local STALE = "has been replaced or removed"

local hasCjson, cjson = pcall(require, "cjson")

local function collect()
  collectgarbage()
  collectgarbage()
end

describe("a node", function()
  support.any_store(function(open)
    local service, session, state
    before_each(function()
      service = open()
      session = checks.create(service, "s", {
        cart = { "tea", "milk", "sugar" },
        profile = { name = "Ann", address = { city = "Kyiv", lines = { "1", "2" } }, none = moonpad.null, no = false },
        rows = { { id = 3 }, { id = 1 }, { id = 2 } },
        object = {},
        array = moonpad.array {},
      })
      state = session.state
    end)

    local function commit()
      service:updateSession(session)
      return checks.get(service).state:getAll()
    end

    describe("that is read", function()
      it("is a userdata that answers as a table does", function()
        assert.are.equal("userdata", type(state.cart))
        assert.are.equal("milk", state.cart[2])
        assert.are.equal("milk", state.cart[2.0])
        assert.are.equal(3, #state.cart)
        assert.are.equal("Ann", state.profile.name)
        assert.are.equal("Kyiv", state.profile.address.city)
        assert.are.equal("2", state.profile.address.lines[2])
        assert.are.equal(moonpad.null, state.profile.none)
        assert.is_false(state.profile.no)
        assert.are.equal(1, state.rows[2].id)
        assert.are.equal(0, #state.array)
      end)

      it("gives nil for what is not there", function()
        assert.is_nil(state.cart[0])
        assert.is_nil(state.cart[4])
        assert.is_nil(state.cart[-1])
        assert.is_nil(state.cart[1.5])
        assert.is_nil(state.cart.x)
        assert.is_nil(state.cart["1"])
        assert.is_nil(state.profile.missing)
        assert.is_nil(state.profile[1])
        assert.is_nil(state.profile[true])
      end)

      it("has no methods: every name is a key", function()
        for _, name in ipairs { "get", "set", "append", "toTable",
          "increment" } do assert.is_nil(state.profile[name]) end
      end)

      it("works with pairs and ipairs", function()
        local found = {}
        for key, value in pairs(state.profile) do found[key] = moonpad.toTable(value) end
        assert.are.same({ name = "Ann", address = { city = "Kyiv", lines = { "1", "2" } }, none = moonpad.null,
          no = false }, found)
        found = {}
        for index, value in ipairs(state.cart) do found[index] = value end
        assert.are.same({ "tea", "milk", "sugar" }, found)
        found = {}
        for index, value in pairs(state.cart) do found[#found + 1] = { index, value } end
        assert.are.same({ { 1, "tea" }, { 2, "milk" }, { 3, "sugar" } }, found)
        for _ in pairs(state.object) do error "an empty object has no pairs" end
        for _ in ipairs(state.array) do error "an empty array has no items" end
      end)

      it("works with the table library", function()
        assert.are.equal("tea,milk,sugar", table.concat(state.cart, ","))
        assert.are.equal("milk-sugar", table.concat(state.cart, "-", 2))
        assert.are.same({ "tea", "milk", "sugar" }, { table.unpack(state.cart) })
        assert.are.same({ "tea", "milk", "sugar" }, table.move(state.cart, 1, #state.cart, 1, {}))
      end)

      it("changes nothing", function()
        local _ = { state.cart[1], #state.cart, state.profile.address.lines[1], tostring(state.rows),
          moonpad.toTable(state.rows) }
        for _, row in ipairs(state.rows) do assert.is_number(row.id) end
        for _ in pairs(state.profile) do assert.is_false(state:hasDelta()) end
        table.concat(state.cart)
        assert.is_false(state:hasDelta())
        assert.is_nil(service:updateSession(session))
      end)
    end)

    describe("that is written", function()
      it("marks the whole top-level key as changed", function()
        state.profile.address.city = "Lviv"
        assert.are.same({ "profile" }, checks.keys(state:delta()))
        assert.are.same({ name = "Ann", address = { city = "Lviv", lines = { "1", "2" } }, none = moonpad.null,
          no = false }, state:delta().profile)
        assert.are.equal("Lviv", commit().profile.address.city)
      end)

      it("sets, adds and removes fields at any depth", function()
        state.profile.name, state.profile.age, state.profile.no = "Bea", 30, nil
        state.profile.address.lines[1] = { "nested", { deep = true } }
        state.profile.address.lines[1][2].deep = { more = 1 }
        state.profile.missing = nil
        assert.are.same({
          name = "Bea", age = 30, none = moonpad.null, address = { city = "Kyiv",
            lines = { { "nested", { deep = { more = 1 } } }, "2" } },
        }, commit().profile)
      end)

      it("works with table.insert and table.remove", function()
        local cart = state.cart
        table.insert(cart, "rum")
        table.insert(cart, 1, "cup")
        assert.are.equal("milk", table.remove(cart, 3))
        assert.are.equal("rum", table.remove(cart))
        assert.are.same({ "cup", "tea", "sugar" }, commit().cart)
      end)

      it("works with table.insert and table.remove of tables", function()
        table.insert(state.rows, 1, { id = 9 })
        local last = table.remove(state.rows)
        assert.are.equal(2, last.id)
        local first = table.remove(state.rows, 1)
        assert.are.equal(9, first.id)
        assert.are.same({ { id = 3 }, { id = 1 } }, commit().rows)
      end)

      it("works with table.sort", function()
        table.sort(state.cart)
        table.sort(state.rows, function(a, b) return a.id < b.id end)
        local stored = commit()
        assert.are.same({ "milk", "sugar", "tea" }, stored.cart)
        assert.are.same({ { id = 1 }, { id = 2 }, { id = 3 } }, stored.rows)
      end)

      it("works with table.sort of many tables", function()
        local rows = {}
        for index = 1, 100 do rows[index] = { id = index * 37 % 101, tag = { "t" .. index } } end
        state.rows = rows
        table.sort(state.rows, function(a, b) return a.id < b.id end)
        table.sort(rows, function(a, b) return a.id < b.id end)
        assert.are.same(rows, commit().rows)
      end)

      it("works with table.move", function()
        table.move({ "x", "y" }, 1, 2, #state.cart + 1, state.cart)
        assert.are.equal('["tea","milk","sugar","x","y"]', tostring(state.cart))
      end)

      it("writes through to what an iteration gives", function()
        for _, row in ipairs(state.rows) do row.seen = true end
        for _, value in pairs(state.profile) do
          if type(value) == "userdata" and value ~= moonpad.null then value.seen = true end
        end
        local stored = commit()
        for _, row in ipairs(stored.rows) do assert.is_true(row.seen) end
        assert.is_true(stored.profile.address.seen)
      end)

      it("refuses what cannot be stored, names the path and changes nothing", function()
        raises("invalid_argument", { 'state["profile"].address.run', "function" },
          function() state.profile.address.run = print end)
        raises("invalid_argument", { 'state["rows"][2].x[1].y', "NaN" },
          function() state.rows[2].x = { { y = 0 / 0 } } end)
        raises("invalid_argument", { 'state["cart"][4]', "UTF-8" }, function() table.insert(state.cart, "\xff") end)
        raises("invalid_argument", { 'state["profile"]', "UTF-8" }, function() state.profile["\xff"] = 1 end)
        local cycle = {}
        cycle.self = cycle
        raises("invalid_argument", 'state["profile"].cycle.self', function() state.profile.cycle = cycle end)
        assert.is_false(state:hasDelta())
        assert.are.equal("Kyiv", state.profile.address.city)
      end)

      it("refuses to grow deeper than 128 levels", function()
        state.deep = checks.nested(128)
        local node = state.deep
        for _ = 2, 128 do node = node[1] end
        raises("invalid_argument", "128", function() node[1] = {} end)
        node[1] = "a scalar is fine"
        state.deep = checks.nested(64)
        node = state.deep
        for _ = 2, 64 do node = node[1] end
        node[1] = checks.nested(64)
        raises("invalid_argument", "128", function() node[1] = checks.nested(65) end)
        assert.are.equal(128, select(2, tostring(state.deep):gsub("%[", "")))
        commit()
      end)
    end)

    describe("identity", function()
      it("is one object per node", function()
        assert.are.equal(state.cart, state.cart)
        assert.is_true(rawequal(state.profile.address, state.profile.address))
        assert.is_true(rawequal(state.rows[1], state.rows[1]))
        assert.are_not.equal(state.rows[1], state.rows[2])
        local seen = { [state.cart] = true }
        assert.is_true(seen[state.cart])
      end)

      it("stays whatever is written around it", function()
        local address, row = state.profile.address, state.rows[2]
        state.profile.name = "Bea"
        address.city = "Lviv"
        state.rows[3] = nil
        state.rows[1].id = 7
        state.other = 1
        assert.is_true(rawequal(address, state.profile.address))
        assert.is_true(rawequal(row, state.rows[2]))
        address.city = "Odesa"
        row.id = 8
        assert.are.equal("Odesa", state.profile.address.city)
        assert.are.equal(8, state.rows[2].id)
      end)

      it("outlives updateSession, the object's own appends and refresh", function()
        local address = state.profile.address
        address.city = "Lviv"
        service:updateSession(session)
        assert.is_true(rawequal(address, state.profile.address))
        checks.append(service, session, { other = 1 })
        assert.is_true(rawequal(address, state.profile.address))
        checks.append(service, checks.get(service), { another = 1 })
        service:refresh(session)
        assert.is_true(rawequal(address, state.profile.address))
        address.city = "Odesa"
        assert.are.equal("Odesa", commit().profile.address.city)
      end)

      it("ends when somebody else changed that key", function()
        local address, cart = state.profile.address, state.cart
        local other = checks.get(service)
        other.state.profile.name = "Bea"
        service:updateSession(other)
        service:refresh(session)
        assert.are.equal("Kyiv", address.city)
        raises("invalid_argument", STALE, function() address.city = "Lviv" end)
        assert.are.equal("Bea", state.profile.name)
        state.profile.address.city = "Lviv"
        assert.is_true(rawequal(cart, state.cart))
        cart[1] = "coffee"
        local stored = commit()
        assert.are.equal("Lviv", stored.profile.address.city)
        assert.are.equal("coffee", stored.cart[1])
      end)

      it("does not depend on who holds the node above it", function()
        local city = state.profile.address
        state.cart[1] = "coffee"
        collect()
        city.city = "Lviv"
        assert.are.equal("Lviv", state.profile.address.city)
        local row = checks.get(service).state.rows[1]
        collect()
        row.id = 5
        assert.are.equal(5, row.id)
      end)
    end)

    describe("assigned to its own place", function()
      it("changes nothing", function()
        state.cart = state.cart or {}
        state.profile.address = state.profile.address
        state.rows[1] = state.rows[1]
        state:set("cart", state.cart)
        state:update { cart = state.cart }
        assert.is_false(state:hasDelta())
      end)

      it("stays the same node", function()
        local cart = state.cart
        state.cart = cart
        assert.is_true(rawequal(cart, state.cart))
        cart[1] = "coffee"
        assert.are.equal("coffee", state.cart[1])
      end)
    end)

    describe("that is an array", function()
      it("is what an empty object becomes by a first write at index 1", function()
        state.object[1] = "x"
        assert.are.equal('["x"]', tostring(state.object))
        state.new = {}
        table.insert(state.new, { y = {} })
        table.insert(state.new[1].y, 1)
        assert.are.equal('[{"y":[1]}]', tostring(state.new))
        local stored = commit()
        assert.are.same({ "x" }, stored.object)
        assert.are.same({ { y = { 1 } } }, stored.new)
      end)

      it("keeps its node when it becomes one", function()
        local object = state.object
        object[1] = "x"
        object[2] = "y"
        assert.is_true(rawequal(object, state.object))
        assert.are.equal(2, #object)
      end)

      it("grows at its end", function()
        state.cart[#state.cart + 1] = "rum"
        state.array[1] = "first"
        local stored = commit()
        assert.are.same({ "tea", "milk", "sugar", "rum" }, stored.cart)
        assert.are.same({ "first" }, stored.array)
      end)

      it("shrinks at its end, and stays an array when it is empty", function()
        local cart = state.cart
        cart[#cart] = nil
        assert.are.equal(2, #cart)
        while table.remove(cart) do assert.is_true(#cart >= 0) end
        assert.are.equal("[]", tostring(cart))
        commit()
        assert.are.equal("[]", tostring(checks.get(service).state.cart))
      end)

      it("has no holes", function()
        raises("invalid_argument", { "hole" }, function() state.cart[2] = nil end)
        raises("invalid_argument", { 'state["cart"]' }, function() state.cart[5] = "far" end)
        raises("invalid_argument", nil, function() state.cart[0] = "x" end)
        raises("invalid_argument", nil, function() state.cart[-1] = "x" end)
        raises("invalid_argument", nil, function() state.cart[1.5] = "x" end)
        raises("invalid_argument", nil, function() state.object[2] = "x" end)
        assert.is_false(state:hasDelta())
        assert.are.equal(3, #state.cart)
      end)

      it("is left alone by nil outside of it", function()
        state.cart[4] = nil
        state.cart[100] = nil
        state.cart[0] = nil
        state.cart[-1] = nil
        state.array[1] = nil
        assert.is_nil(table.remove(state.array))
        assert.is_false(state:hasDelta())
      end)

      it("has no names", function()
        assert.is_nil(state.cart.x)
        raises("invalid_argument", 'state["cart"]', function() state.cart.x = 1 end)
        raises("invalid_argument", 'state["array"]', function() state.array.x = 1 end)
        assert.is_false(state:hasDelta())
      end)

      it("is not what an object with fields can become", function()
        raises("invalid_argument", 'state["profile"]', function() state.profile[1] = "x" end)
        raises("invalid_argument", 'state["profile"]', function() state.profile[true] = "x" end)
        assert.is_false(state:hasDelta())
      end)
    end)

    describe("as text and as a copy", function()
      it("is compact JSON with tostring and with moonpad.json.encode", function()
        assert.are.equal('["tea","milk","sugar"]', tostring(state.cart))
        assert.are.equal('["1","2"]', moonpad.json.encode(state.profile.address.lines))
        assert.are.equal("[]", tostring(state.array))
        assert.are.equal("{}", tostring(state.object))
        assert.are.equal('[{"id":3}]', moonpad.json.encode { state.rows[1] })
      end)

      it("is a plain deep copy with moonpad.toTable", function()
        local copy = moonpad.toTable(state.profile)
        copy.address.lines[1] = "changed"
        copy.name = nil
        assert.are.equal("1", state.profile.address.lines[1])
        assert.are.equal("Ann", state.profile.name)
        assert.are.equal("table", type(copy.address.lines))
        local wrapped = moonpad.toTable { rows = state.rows }
        assert.are.equal(3, wrapped.rows[1].id)
        assert.are.equal("table", type(wrapped.rows))
      end)

      it("leaves scalars as they are with moonpad.toTable", function()
        for _, value in ipairs { 1, 1.5, "x", true, moonpad.null } do assert.are.equal(value,
          moonpad.toTable(value)) end
        assert.is_nil(moonpad.toTable(nil))
      end)
    end)

    describe("that is handed on", function()
      it("is copied where it is assigned", function()
        state.copy = state.cart
        state.profile.cart = state.cart
        state.wrapped = { state.cart, state.profile.address }
        state.cart[1] = "coffee"
        state.profile.address.city = "Lviv"
        assert.are.equal("tea", state.copy[1])
        assert.are.equal("tea", state.profile.cart[1])
        assert.are.equal("tea", state.wrapped[1][1])
        assert.are.equal("Kyiv", state.wrapped[2].city)
        state.copy[2] = "cream"
        assert.are.equal("milk", state.cart[2])
        assert.are_not.equal(state.copy, state.cart)
      end)

      it("may be put inside itself", function()
        state.profile.address.whole = state.profile
        assert.are.equal("Ann", state.profile.address.whole.name)
        assert.is_nil(state.profile.address.whole.address.whole)
        state.rows[1] = state.rows
        assert.are.equal(3, state.rows[1][1].id)
        state.cart = { state.cart }
        assert.are.equal('[["tea","milk","sugar"]]', tostring(state.cart))
        commit()
      end)

      it("may come from another session", function()
        local other = checks.create(service, "other")
        other.state.cart = state.cart
        other.state.cart[1] = "coffee"
        assert.are.equal("tea", state.cart[1])
        service:updateSession(other)
        assert.are.same({ "coffee", "milk", "sugar" }, checks.get(service, "other").state:getAll().cart)
      end)

      it("is copied into an event", function()
        local event = checks.append(service, session, { copy = state.cart },
          { customMetadata = { address = state.profile.address } })
        assert.are.same({ "tea", "milk", "sugar" }, event.actions.stateDelta.copy)
        state.cart[1] = "coffee"
        state.profile.address.city = "Lviv"
        service:updateSession(session)
        assert.are.same({ "tea", "milk", "sugar" }, session.events[1].actions.stateDelta.copy)
        assert.are.same("Kyiv", session.events[1].customMetadata.address.city)
      end)

      it("may be initial, user and app state", function()
        service:createSession { appName = "app", userId = "u", sessionId = "n", state = { rows = state.rows } }
        assert.are.equal(1, checks.get(service, "n").state.rows[2].id)
        service:updateUserState { appName = "app", userId = "u", state = { rows = state.rows } }
        assert.are.equal(1, service:getUserState({ appName = "app", userId = "u" }).rows[2].id)
      end)
    end)

    describe("that is stale", function()
      local function expectStale(node, write)
        raises("invalid_argument", STALE, write or function() node.x = 1 end)
      end

      it("because it was replaced reads what it held and refuses writes", function()
        local cart, address = state.cart, state.profile.address
        state.cart = { "other" }
        state.profile = { address = { city = "Lviv" } }
        assert.are.equal("tea", cart[1])
        assert.are.equal(3, #cart)
        assert.are.equal("Kyiv", address.city)
        assert.are.equal("2", address.lines[2])
        expectStale(cart, function() cart[1] = "x" end)
        expectStale(cart, function() table.insert(cart, "x") end)
        expectStale(cart, function() table.remove(cart) end)
        expectStale(address)
        expectStale(address.lines, function() address.lines[1] = "x" end)
        assert.are.equal('["other"]', tostring(state.cart))
        assert.are.equal("Lviv", state.profile.address.city)
      end)

      it("because it was removed reads what it held and refuses writes", function()
        local cart, address, row = state.cart, state.profile.address, state.rows[3]
        state.cart = nil
        state.profile.address = nil
        table.remove(state.rows)
        assert.are.equal('["tea","milk","sugar"]', tostring(cart))
        assert.are.equal("Kyiv", address.city)
        assert.are.equal(2, row.id)
        expectStale(cart, function() cart[1] = "x" end)
        expectStale(address)
        expectStale(row)
        state.cart = { "new" }
        expectStale(cart, function() cart[1] = "x" end)
        assert.are.equal("tea", cart[1])
      end)

      it("may still be read, copied and assigned", function()
        local cart, address = state.cart, state.profile.address
        state.cart, state.profile = nil, nil
        collect()
        state.again = cart
        state.address = address
        assert.are.equal("tea", state.again[1])
        assert.are.same({ "tea", "milk", "sugar" }, moonpad.toTable(cart))
        state.cart = cart
        state.cart[1] = "coffee"
        assert.are.equal("tea", cart[1])
        assert.are.equal("coffee", commit().cart[1])
      end)

      it("because a deletion by somebody else was taken in", function()
        local cart = state.cart
        checks.append(service, checks.get(service), { cart = moonpad.removed })
        service:refresh(session)
        assert.is_nil(state.cart)
        assert.are.equal("tea", cart[1])
        expectStale(cart, function() cart[1] = "x" end)
        assert.is_false(state:hasDelta())
      end)

      it("because an own append with a delta by hand replaced it", function()
        local cart = state.cart
        checks.append(service, session, { cart = { "by hand" } })
        assert.are.equal("by hand", state.cart[1])
        assert.are.equal("tea", cart[1])
        expectStale(cart, function() cart[1] = "x" end)
      end)
    end)

    describe("seen by code that walks tables raw", function()
      it("raises", function()
        assert.has_error(function() next(state.cart) end)
        assert.has_error(function() rawget(state.cart, 1) end)
        assert.has_error(function() rawset(state.cart, 1, "x") end)
        assert.has_error(function() rawlen(state.cart) end)
      end)

      it("raises in lua-cjson, which takes a copy", function()
        if not hasCjson then return pending "lua-cjson is not installed" end
        assert.has_error(function() cjson.encode(state.cart) end)
        assert.has_error(function() cjson.encode { state.cart } end)
        assert.are.equal('["tea","milk","sugar"]', cjson.encode(moonpad.toTable(state.cart)))
      end)
    end)

    it("of a closed service still reads", function()
      local cart = state.cart
      service:close()
      assert.are.equal("tea", cart[1])
      assert.are.equal("Ann", state.profile.name)
    end)

    it("survives much garbage", function()
      state.big = {}
      for index = 1, 2000 do state.big[index] = { index, { tostring(index) } } end
      local kept = {}
      for index = 1, 2000, 7 do kept[#kept + 1] = state.big[index] end
      collect()
      for index = #state.big, 1001, -1 do state.big[index] = nil end
      collect()
      for _, node in ipairs(kept) do
        local index = node[1]
        assert.are.equal(tostring(index), node[2][1])
        if index <= 1000 then
          node[2][1] = "seen"
          assert.are.equal("seen", state.big[index][2][1])
        else
          raises("invalid_argument", STALE, function() node[1] = 0 end)
        end
      end
    end)
  end)
end)
