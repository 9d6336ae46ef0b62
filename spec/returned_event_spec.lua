-- What appendEvent returns is what is read back, and a copy: whatever was given, filled in, left
-- out or resolved.
local moonpad = require "moonpad"
local checks = require "spec.support.checks"
local random = require "spec.support.random_values"
local support = require "spec.support"

local seed = checks.seed()
local SIZES <const> = { 33, 0, 1, 9, 15, 16, 17, 31, 32, 64, 65, 160 }

local STEP <const> = checks.stride

-- The same metatables all the way down.
local function sameKinds(a, b)
  assert.are.equal(getmetatable(a), getmetatable(b))
  for key, value in next, a do
    if type(value) == "table" then sameKinds(value, b[key]) end
  end
end

-- No table of one is in the other.
local function shareNothing(a, b)
  local seen = {}
  local function walk(t, visit)
    visit(t)
    for _, value in next, t do
      if type(value) == "table" then walk(value, visit) end
    end
  end
  walk(a, function(t) seen[t] = true end)
  walk(b, function(t) assert.is_nil(seen[t]) end)
end

local function agrees(service, session, event)
  local stored = service:appendEvent(session, event)
  local again = session.events[stored.revision]
  checks.identical(again, stored)
  sameKinds(again, stored)
  shareNothing(event, stored)
  assert.is_nil(rawget(stored, "removedStateKeys"))
  return stored
end

local HEADS <const> = { "id", "invocationId", "timestamp" }

-- An event of which some of the first fields are given: a bit of `which` for each.
local function newEvent(number, which, delta, more)
  local event = { author = "concierge", actions = { stateDelta = delta }, customMetadata = more,
    content = { role = "model", parts = { { text = "number " .. number } } } }
  local head = { id = "id " .. number, invocationId = "e " .. number, timestamp = 1000.0 + number }
  for bit, name in ipairs(HEADS) do
    if which >> (bit - 1) & 1 == 1 then event[name] = head[name] end
  end
  return event
end

describe("the event that appendEvent returns", function()
  support.each_store(function(open)
    local service, session
    before_each(function()
      service = open { durability = "normal" }
      session = checks.create(service)
    end)

    it("is what is read back, whichever of its first fields were given", function()
      for which = 0, 7 do
        local event = newEvent(which, which, { step = which })
        local stored = agrees(service, session, event)
        for _, name in ipairs(HEADS) do
          if event[name] ~= nil then
            assert.are.equal(event[name], stored[name])
          else
            assert.is_not_nil(stored[name])
          end
        end
        assert.are.equal(which + 1, stored.revision)
        assert.are.equal("number " .. which, stored:text())
      end
    end)

    it("is what is read back when the store changes it", function()
      local twice = newEvent(100, 7, { n = 1 })
      local changes = {
        function(e) e.actions.stateDelta["temp:x"] = 1 end,
        function(e) e.actions.stateDelta.gone = moonpad.removed end,
        function(e) e.actions.stateDelta.gone, e.removedStateKeys = moonpad.null, { "gone" } end,
        function(e) e.actions.stateDelta.kept = moonpad.null end,
        function(e) e.actions.stateDelta = nil end,
        function(e) e.actions.stateDelta = moonpad.null end,
        function(e) e.actions = nil end,
        function(e) e.actions.escalate = moonpad.null end,
        function(e) e.actions.escalate, e.actions.artifactDelta = true, { ["a.txt"] = 0 } end,
        function(e) e.branch = moonpad.null end,
        function(e) e.id = "" end,
        function(e) e.invocationId = "" end,
        function(e) e.invocationId = moonpad.null end,
        function(e) e.timestamp = 5 end,
        function(e) e.revision = 77 end,
        function(e) e.revision = moonpad.null end,
        function(e) e[""], e["\0\0\0\0\0\0\0\1"], e.zebra = 1, 2, 3 end,
        function(e) e.content.parts = {} end,
        function(e) e.longRunningToolIds = moonpad.array {} end,
      }
      for number = checks.start(1), #changes, STEP do
        for which = 0, 7, 7 do
          local event = newEvent(number * 10 + which, which, { n = number })
          changes[number](event)
          agrees(service, session, event)
        end
      end
      local first = agrees(service, session, twice)
      checks.identical(first, service:appendEvent(session, twice))
      checks.identical(first, service:appendEvent(session, first))
    end)

    it("holds copies of whatever stands for a value", function()
      local cjson = require "cjson"
      session.state.cart = { { n = 1 } }
      service:updateSession(session)
      local shared = { 1, { x = 2 } }
      local scattered = { [3] = "c", [1] = "a", [2] = "b" }
      local cart = session.state.cart
      local values = { cart, cart[1], shared, { shared, shared }, scattered, moonpad.array {}, {},
        cjson.empty_array or moonpad.array {}, setmetatable({}, cjson.array_mt), setmetatable({ 1 }, cjson.array_mt),
        moonpad.null, { moonpad.null }, 1.0, 1, -0.0, "\u{e4}\0\"", true, false }
      for number = checks.start(1), #values, STEP do
        local value = values[number]
        for which = 0, 7, 7 do
          agrees(service, session, newEvent(number * 10 + which, which, { key = value }, { m = value }))
        end
      end
    end)

    it("is what is read back at any size", function()
      for index = checks.start(1), #SIZES, STEP do
        local count = SIZES[index]
        local fields, list, tables = {}, {}, {}
        for i = 1, count do fields["field " .. i], list[i], tables[i] = i, "item " .. i, { i } end
        for number, more in ipairs { fields, list, tables, checks.nested(count // 2 + 1) } do
          agrees(service, session, newEvent(count * 10 + number, 7, { n = count }, more))
        end
      end
    end)

    it("is what is read back for random values #random", function()
      local values = random.new(seed)
      for number = 1, checks.scaled(200) do
        local delta = {}
        for _ = 1, values:below(4) do delta[values:key()] = values:value(3) end
        local event = newEvent(number, values:below(8), delta, values:value(4))
        if pcall(moonpad.event, event) then agrees(service, session, event) end
      end
    end)
  end)
end)

describe("a finalizer that runs during an append", function()
  it("may change the one that was given, and append events: what is returned is what was stored", function()
    local service <close> = moonpad.open "memory:"
    local session = checks.create(service)
    local event, inside
    local ran, round = 0, 0
    local function change()
      if not inside then return end
      ran = ran + 1
      event.content.parts[1].text, event.actions.stateDelta.step, event.id = "changed", -1, "changed"
      event.added, event.customMetadata = ran, nil
      for i = 1, 20 do event["added " .. i] = {} end
      service:appendEvent(checks.get(service), newEvent("other " .. ran, 7, {}))
    end
    repeat
      round = round + 1
      event = newEvent(round, round % 8, { step = round }, { { 1 }, { x = { y = {} } } })
      for _ = 1, 10 do setmetatable({}, { __gc = change }) end
      inside = true
      local stored = service:appendEvent(session, event)
      inside = false
      checks.identical(session.events[stored.revision], stored)
    until ran >= 9 or round == 20000
    assert.is_true(ran >= 9)
  end)
end)
