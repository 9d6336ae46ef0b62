-- Keys that are used again and again by index take a short way to their value: it must not differ
-- from the long one of get and set.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"

local OPERATIONS <const> = checks.scaled(4000, 400)
local LONG <const> = ("key "):rep(20)
local KEYS <const> = { "count", "name", "user:level", "app:served", "temp:step", "cart", LONG, "", "\u{e4}" }

local function open()
  local service = moonpad.open "memory:"
  local session = service:createSession { appName = "a", userId = "u", sessionId = "s",
    state = { count = 1, cart = { 1, 2 }, ["user:level"] = 3 } }
  return service, session
end

-- The same key in another string: a long one has another address each time.
local function again(key) return key == LONG and ("key "):rep(20) or key end

local function randomValue()
  local kind = math.random(9)
  if kind <= 3 then return math.random(-5, 5) end
  if kind == 4 then return math.random() end
  if kind == 5 then return math.random(2) == 1 end
  if kind == 6 then return ("x"):rep(math.random(0, 30)) end
  if kind == 7 then return { math.random(9) } end
  if kind == 8 then return moonpad.null end
  return math.maxinteger - math.random(2)
end

local function shown(value)
  return value == nil and "nil" or math.type(value) or type(value),
    value ~= nil and moonpad.json.encode(value) or "nothing"
end

-- Things that go on besides, done to both.
local besides = {
  function(service, session) service:updateSession(session) end,
  function(service, session) service:refresh(session) end,
  function(service, session)
    service:appendEvent(session, { author = "x", actions = { stateDelta = { count = 7, name = moonpad.removed } } })
  end,
  function(service) service:updateUserState { appName = "a", userId = "u", state = { level = 9 } } end,
  function(_, session) session.state:increment "temp:step" end,
  function(_, session) session.state:delete "name" end,
  function(_, session) local cart = session.state.cart if type(cart) == "userdata" then cart[#cart + 1] = 5 end end,
  function(_, session) session.state:getAll() end,
}

describe("a key used by index again and again", function()
  it("is read and written as by get and set", function()
    math.randomseed(checks.seed())
    local byIndex <close>, indexed = open()
    local byMethod <close>, called = open()
    for _ = 1, OPERATIONS do
      local key, kind = KEYS[math.random(#KEYS)], math.random(20)
      if kind <= 9 then
        local type1, text1 = shown(indexed.state[again(key)])
        local type2, text2 = shown(called.state:get(key))
        assert.are.equal(type2, type1)
        assert.are.equal(text2, text1)
      elseif kind <= 18 then
        local value = randomValue()
        indexed.state[again(key)] = value
        called.state:set(key, value)
      else
        local beside = besides[math.random(#besides)]
        local ok1, error1 = pcall(beside, byIndex, indexed)
        local ok2, error2 = pcall(beside, byMethod, called)
        assert.are.equal(ok2, ok1)
        assert.are.equal(tostring(error2), tostring(error1))
        if not ok1 then
          byIndex:refresh(indexed)
          byMethod:refresh(called)
        end
      end
      assert.are.equal(moonpad.json.encode(called.state), moonpad.json.encode(indexed.state))
    end
    assert.are.equal(called.revision, indexed.revision)
    assert.is_true(indexed.revision > 0)
  end)

  it("counts as read, whenever it was looked at first", function()
    local service <close>, session = open()
    for _ = 1, 3 do
      local other = service:getSession { appName = "a", userId = "u", sessionId = "s" }
      session.state["user:level"] = 1
      service:updateSession(session)
      local _ = session.state["user:level"]
      other.state["user:level"] = 2
      service:updateSession(other)
      session.state["user:level"] = 3
      local ok, err = pcall(service.updateSession, service, session)
      assert.is_false(ok)
      assert.are.equal("conflict", err.code)
      assert.are.same({ "user:level" }, err.keys)
      service:refresh(session)
      service:updateSession(session)
    end
  end)

  it("does not conflict where it was only written", function()
    local service <close>, session = open()
    for i = 1, 3 do
      local other = service:getSession { appName = "a", userId = "u", sessionId = "s" }
      session.state["user:level"] = i
      session.state["user:level"] = i + 1
      other.state["user:level"] = 2
      service:updateSession(other)
      service:updateSession(session)
      assert.are.equal(i + 1, service:getUserState { appName = "a", userId = "u" }.level)
    end
  end)

  it("is not shared with what was stored", function()
    local service <close>, session = open()
    session.state.count = 5
    local first = service:updateSession(session)
    for i = 1, 5 do session.state.count = i * 100 end
    local other = service:getSession { appName = "a", userId = "u", sessionId = "s" }
    assert.are.equal(5, other.state.count)
    assert.are.equal(5, session.events[1].actions.stateDelta.count)
    assert.are.equal(5, first.actions.stateDelta.count)
    assert.are.equal(500, session.state.count)
  end)

  it("is refused where it was before", function()
    local service <close>, session = open()
    for _ = 1, 3 do
      session.state.count = 1
      assert.has_error(function() session.state.count = 0 / 0 end)
      assert.has_error(function() session.state.count = math.huge end)
      assert.has_error(function() session.state.get = 1 end)
      assert.has_error(function() session.state.count = print end)
      assert.are.equal(1, session.state.count)
      assert.is_function(session.state.get)
    end
    local index = getmetatable(session.state).__index
    assert.has_error(function() index(session, "count") end)
    assert.has_error(function() index({}, "count") end)
    assert.has_error(function() index(io.stdout, "count") end)
    assert.are.equal(1, service:updateSession(session).actions.stateDelta.count)
  end)

  it("keeps to maxValueBytes", function()
    local service <close> = moonpad.open("memory:", { maxValueBytes = 3 })
    local session = service:createSession { appName = "a", userId = "u" }
    session.state.count = 1
    for _ = 1, 3 do
      assert.has_error(function() session.state.count = 1234 end)
      session.state.count = 999
    end
    assert.are.equal(999, session.state.count)
  end)

  it("makes no garbage", function()
    local service <close>, session = open()
    local state = session.state
    state.count = 0
    collectgarbage()
    collectgarbage "stop"
    local before = collectgarbage "count"
    for i = 1, 1000 do
      state.count = i
      local _, _ = state.count, state["user:level"]
    end
    local after = collectgarbage "count"
    collectgarbage "restart"
    assert.are.equal(before, after)
    assert.is_not_nil(service)
  end)
end)
