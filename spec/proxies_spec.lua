-- State objects and nodes that stand where a value is taken: they are copied there (contract 1.3),
-- at any depth, in every call that takes a value.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises

local HELD <const> = { n = 1, cart = { { x = 1 }, { x = 2 } }, ["user:u"] = "u", empty = {}, none = moonpad.null }
local TEXT <const> = '{"cart":[{"x":1},{"x":2}],"empty":{},"n":1,"none":null,"user:u":"u"}'

-- What a proxy is put into, and what that is then as JSON, with %s for the proxy's own text.
local AROUND <const> = {
  { "in a list", function(p) return { p } end, "[%s]" },
  { "after an item", function(p) return { 1, p } end, "[1,%s]" },
  { "between items", function(p) return { "a", p, "b" } end, '["a",%s,"b"]' },
  { "in an object", function(p) return { s = p } end, '{"s":%s}' },
  { "between members", function(p) return { a = 1, s = p, z = { 2 } } end, '{"a":1,"s":%s,"z":[2]}' },
  { "far down", function(p) return { { a = { { b = p, a = { 1 } } } } } end, '[{"a":[{"a":[1],"b":%s}]}]' },
  { "twice", function(p) return { p, p } end, "[%s,%s]" },
}

local function filled(pattern, text)
  return (pattern:gsub("%%s", function() return text end))
end

-- What may stand there, made anew: the proxy, and its text.
local function proxiesOf(session)
  return {
    ["a state object"] = { session.state, TEXT },
    ["a node"] = { session.state.cart, '[{"x":1},{"x":2}]' },
    ["an item of a node"] = { session.state.cart[2], '{"x":2}' },
  }
end

local function json(value) return moonpad.json.encode(value) end

describe("a proxy inside a table", function()
  support.any_store(function(open)
    local service, session, proxies
    before_each(function()
      service = open()
      session = checks.create(service, "held", HELD)
      proxies = proxiesOf(session)
    end)

    -- A write of `value` in another session, and what that has stored.
    local ways = {
      ["an assignment"] = function(target, value)
        target.state.k = value
        service:updateSession(target)
        return target
      end,
      ["set"] = function(target, value)
        target.state:set("k", value)
        service:updateSession(target)
        return target
      end,
      ["update"] = function(target, value)
        target.state:update { a = 1, k = value }
        service:updateSession(target)
        return target
      end,
      ["setDefault"] = function(target, value)
        target.state:setDefault("k", value)
        service:updateSession(target)
        return target
      end,
      ["a member of a node"] = function(target, value)
        target.state.o = {}
        target.state.o.k = value
        target.state.k = target.state.o.k
        service:updateSession(target)
        return target
      end,
      ["an item of a node"] = function(target, value)
        target.state.o = {}
        target.state.o[1] = value
        target.state.k = target.state.o[1]
        service:updateSession(target)
        return target
      end,
      ["append"] = function(target, value)
        target.state:append("o", value)
        target.state.k = target.state.o[1]
        service:updateSession(target)
        return target
      end,
      ["the delta of an event"] = function(target, value)
        checks.append(service, target, { a = 1, k = value })
        return target
      end,
      ["createSession"] = function(_, value) return checks.create(service, "created", { a = 1, k = value }) end,
      ["updateUserState"] = function(target, value)
        service:updateUserState { appName = "app", userId = "u", state = { a = 1, k = value } }
        service:refresh(target)
        target.state.k = target.state["user:k"]
        service:updateSession(target)
        return target
      end,
      ["updateAppState"] = function(target, value)
        service:updateAppState { appName = "app", state = { a = 1, k = value } }
        service:refresh(target)
        target.state.k = target.state["app:k"]
        service:updateSession(target)
        return target
      end,
      ["moonpad.state"] = function(target, value)
        target.state.k = moonpad.state({ a = 1, k = value }):getAll().k
        service:updateSession(target)
        return target
      end,
    }

    for way, write in pairs(ways) do
      it("is copied by " .. way, function()
        for what, proxy in pairs(proxies) do
          for index, around in ipairs(AROUND) do
            local target = checks.create(service, ("t%s%d"):format(what, index))
            target = write(target, around[2](proxy[1]))
            local expected = filled(around[3], proxy[2])
            assert.are.equal(expected, json(target.state.k), what .. " " .. around[1])
            local stored = checks.get(service, target.id)
            assert.are.equal(expected, json(stored.state.k), what .. " " .. around[1] .. ", stored")
            service:deleteSession { appName = "app", userId = "u", sessionId = target.id }
          end
        end
      end)
    end

    it("is copied into any field of an event", function()
      for what, proxy in pairs(proxies) do
        for _, around in ipairs(AROUND) do
          local expected = filled(around[3], proxy[2])
          local event = service:appendEvent(session, { author = "a", customMetadata = { m = around[2](proxy[1]) } })
          assert.are.equal(expected, json(event.customMetadata.m), what .. " " .. around[1])
          event = service:appendEvent(session, { author = "a",
            content = { parts = { { functionResponse = { name = "t", response = { r = around[2](proxy[1]) } } } } } })
          assert.are.equal(expected, json(event:functionResponses()[1].response.r))
          local stored = checks.get(service, "held").events
          assert.are.equal(expected, json(stored[#stored]:functionResponses()[1].response.r))
        end
      end
    end)

    it("is copied where it is all there is", function()
      for what, proxy in pairs(proxies) do
        local target = checks.create(service, "t" .. what, { k = proxy[1] })
        assert.are.equal(proxy[2], json(target.state.k), what)
        target.state.again = proxy[1]
        service:appendEvent(target, { author = "a", actions = { stateDelta = { given = proxy[1] } } })
        service:updateSession(target)
        local stored = checks.get(service, target.id).state
        assert.are.equal(proxy[2], json(stored.again), what)
        assert.are.equal(proxy[2], json(stored.given), what)
      end
    end)

    it("is copied with what is pending in it", function()
      session.state.n = nil
      session.state.more = { 1 }
      session.state:increment "count"
      session.state:append("list", "x")
      local target = checks.create(service, "t")
      target.state.k = { before = 1, s = session.state }
      service:updateSession(target)
      assert.are.equal('{"before":1,"s":{"cart":[{"x":1},{"x":2}],"count":1,"empty":{},"list":["x"],"more":[1],'
        .. '"none":null,"user:u":"u"}}', json(checks.get(service, "t").state.k))
    end)

    it("may be the state itself that is assigned to, again and again", function()
      local expected = TEXT
      for round = 1, 4 do
        session.state.x = { s = session.state }
        service:updateSession(session)
        expected = TEXT:sub(1, -2) .. ',"x":{"s":' .. expected .. "}}"
        assert.are.equal(expected, json(session.state), "round " .. round)
        assert.are.equal(expected, json(checks.get(service, "held").state), "round " .. round)
      end
      session.state.x = session.state
      session.state.cart[1].all = { session.state }
      session.state.cart[1].own = { session.state.cart }
      service:updateSession(session)
      assert.are.equal(json(session.state), json(checks.get(service, "held").state))
    end)

    it("may be a node that is assigned into itself", function()
      local cart = session.state.cart
      cart[1].whole = { cart }
      cart[3] = { cart[1], cart }
      service:updateSession(session)
      assert.are.equal('[{"whole":[[{"x":1},{"x":2}]],"x":1},{"x":2},[{"whole":[[{"x":1},{"x":2}]],"x":1},'
        .. '[{"whole":[[{"x":1},{"x":2}]],"x":1},{"x":2}]]]', json(checks.get(service, "held").state.cart))
    end)

    it("may be of another service, open or closed", function()
      local other = moonpad.open "memory:"
      local foreign = proxiesOf(checks.create(other, "s", HELD))
      for _, isClosed in ipairs { false, true } do
        if isClosed then other:close() end
        for what, proxy in pairs(foreign) do
          local target = checks.create(service, what .. tostring(isClosed), { a = { proxy[1] } })
          target.state.k = { 1, proxy[1] }
          service:updateSession(target)
          assert.are.equal(("[1,%s]"):format(proxy[2]), json(checks.get(service, target.id).state.k), what)
          assert.are.equal(("[%s]"):format(proxy[2]), json(target.state.a), what)
        end
      end
    end)

    it("may be of a session that is gone, and a node that has been replaced or removed", function()
      local cart, item = session.state.cart, session.state.cart[2]
      session.state.cart = { "new" }
      local other = session.state.empty
      session.state.empty = nil
      local target = checks.create(service, "t")
      service:deleteSession { appName = "app", userId = "u", sessionId = "held" }
      target.state.k = { cart, item, other, s = nil }
      target.state.s = { session.state }
      service:updateSession(target)
      local stored = checks.get(service, "t").state
      assert.are.equal('[[{"x":1},{"x":2}],{"x":2},{}]', json(stored.k))
      assert.are.equal('[{"cart":["new"],"n":1,"none":null,"user:u":"u"}]', json(stored.s))
    end)

    it("keeps what is around it within 128 levels", function()
      local deep = 0
      for _ = 1, 127 do deep = { deep } end
      session.state.deep = deep
      local target = checks.create(service, "t")
      raises("invalid_argument", { 'state["k"]', "128" }, function() target.state.k = { session.state } end)
      raises("invalid_argument", { 'state["k"]', "128" }, function() target.state.k = { { session.state.deep } } end)
      assert.is_false(target.state:hasDelta())
      target.state.k = session.state
      service:updateSession(target)
      assert.are.equal(json(session.state), json(checks.get(service, "t").state.k))
    end)

    it("is copied where it cannot be read: the error says which key", function()
      local writer = checks.get(service, "held")
      session.state:append("list", 1)
      writer.state.list = "a text"
      service:updateSession(writer)
      service:refresh(session)
      local target = checks.create(service, "t")
      raises("invalid_argument", "list", function() target.state.k = { before = { 1 }, s = session.state } end)
      assert.is_false(target.state:hasDelta())
      target.state.k = { 1 }
      service:updateSession(target)
      assert.are.equal("[1]", json(checks.get(service, "t").state.k))
    end)

    it("is copied where a tool returns it, and its context ends", function()
      local kept
      local agent = moonpad.agent {
        name = "A",
        model = moonpad.models.scripted {
          support.calls { "look", { n = 1 }, "1" }, "done",
        },
        tools = { moonpad.tool { name = "look", description = "d", run = function(_, context)
          kept = { context.state, context.state.cart }
          return { state = context.state, list = { context.state.cart, { context.state } } }
        end } },
      }
      local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
      local events = support.run(runner, { userId = "u", sessionId = "held", newMessage = "go" })
      local response = events[2]:functionResponses()[1].response
      local expected = ('{"list":[[{"x":1},{"x":2}],[%s]],"state":%s}'):format(TEXT, TEXT)
      assert.are.equal(expected, json(response))
      local stored = checks.get(service, "held").events
      assert.are.equal(expected, json(stored[#stored - 1]:functionResponses()[1].response))
      local target = checks.create(service, "t", { k = { kept } })
      assert.are.equal(('[[%s,[{"x":1},{"x":2}]]]'):format(TEXT), json(target.state.k))
    end)
  end)

  it("is encoded and copied by json.encode, toTable and events", function()
    local state = moonpad.state(HELD)
    for _, around in ipairs(AROUND) do
      local expected = filled(around[3], TEXT)
      assert.are.equal(expected, json(around[2](state)), around[1])
      assert.are.equal(expected, json(moonpad.toTable(around[2](state))), around[1])
      local event = moonpad.event { author = "a", customMetadata = { m = around[2](state) } }
      assert.are.equal(expected, json(event.customMetadata.m), around[1])
    end
    assert.are.equal(TEXT, json(state))
    assert.are.equal("[{},{}]", json { moonpad.state {}, moonpad.state() })
  end)
end)
