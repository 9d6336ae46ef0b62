-- Events come out as tables by a reader that trusts its own text and guesses what comes next: what
-- comes out must be what was given, whatever the shape.
local moonpad = require "moonpad"
local checks = require "spec.support.checks"
local random = require "spec.support.random_values"
local support = require "spec.support"

local seed = checks.seed()
local json = moonpad.json
local STEP <const> = checks.stride

local NAMES <const> = { "a", "step", "text", "removedStateKey", "removedStateKeysToo", 'with "quotes"', "back\\slash",
  "tab\there", "\u{e4}\u{1F600}", ("long name "):rep(3), ("n"):rep(23), ("n"):rep(24), ("n"):rep(25), "" }

local function members(count)
  local object = {}
  for i = 1, count do object[NAMES[i % #NAMES + 1] .. (i > #NAMES and i or "")] = i end
  return object
end

local function items(count)
  local list = moonpad.array {}
  for i = 1, count do list[i] = i % 3 == 0 and "x" or i / 2 end
  return list
end

local NUMBERS <const> = {
  0, -1, 7, 99999999, 100000000, -123456789, 999999999999999999, 1000000000000000000, math.maxinteger, math.mininteger,
  0.0, -0.0, 0.5, -1.25, 1763700000.001, 123456789012345.0, 1234567890.12345, 12345678901.23456, 0.1, 1 / 3, 0.000001,
  1e15, 1e16, 1e22, 1e23, 1e300, 5e-324, 1.7976931348623157e308, 2 ^ 53, 2.0 ^ 63,
}

-- What is returned, what is read back, and what comes of its JSON behind a blank, which is made
-- compact first.
local function agrees(service, session, event)
  local stored = service:appendEvent(session, event)
  local again = session.events[stored.revision]
  checks.identical(stored, again)
  checks.identical(json.decode(" " .. json.encode(stored.customMetadata)), again.customMetadata)
  checks.identical(event.customMetadata, stored.customMetadata)
  checks.identical(event.customMetadata, again.customMetadata)
  assert.are_not.equal(stored, again)
  assert.are.equal(getmetatable(stored), getmetatable(again))
  assert.is_nil(stored.removedStateKeys)
end

describe("the tables of an event", function()
  support.each_store(function(open)
    it("hold what was given, whatever the shapes before it were", function()
      local service = open { durability = "normal" }
      local session = checks.create(service)
      for count = checks.start(0), 40, STEP do
        agrees(service, session, { author = "x",
          customMetadata = { members(count), items(count), { e = {}, f = items(0) } } })
        agrees(service, session, { author = "x", customMetadata = members(40 - count),
          actions = { stateDelta = { step = count, gone = moonpad.removed } } })
      end
      assert.are.equal(moonpad.removed, session.events[2].actions.stateDelta.gone)
      for length = checks.start(0), 40, STEP do
        local text = ("y"):rep(length)
        agrees(service, session, { author = "x", customMetadata = { text, text .. '"', "\n" .. text } })
      end
    end)

    it("hold short texts, whether they come again or not", function()
      local service = open { durability = "normal" }
      local session = checks.create(service)
      local texts = { "concierge", "concierge", "concierge", "concierges", "concierge", "concierge", "Concierge",
        "", "", "", "a", "a", "b", "a", ("y"):rep(40), ("y"):rep(40), ("y"):rep(39), ("y"):rep(41), ("y"):rep(41),
        ("y"):rep(40), ("y"):rep(39) .. "z", ("y"):rep(40),
        "\u{e4}", "\u{e4}", "\u{e5}", "\n", "\n", "a\0", "a\0", "a" }
      for i, text in ipairs(texts) do
        agrees(service, session, { author = text == "" and "x" or text,
          customMetadata = { first = text, name = { text = text, list = { text, texts[i - 1] or "", text } } } })
      end
      for i, text in ipairs(texts) do
        local event = session.events[i]
        assert.are.equal(text == "" and "x" or text, event.author)
        assert.are.same({ text, texts[i - 1] or "", text }, event.customMetadata.name.list)
      end
    end)

    it("hold more names than are remembered", function()
      local service = open { durability = "normal" }
      local session = checks.create(service)
      for count = 1 + 30 * checks.start(0), 300, 30 * STEP do
        local object = {}
        for i = 1, count do object["name" .. i] = "text" .. i % 7 end
        for _ = 1, 2 do agrees(service, session, { author = "x", customMetadata = object }) end
      end
    end)

    it("hold every number to the last bit", function()
      local service = open { durability = "normal" }
      local session = checks.create(service)
      agrees(service, session, { author = "x", customMetadata = NUMBERS })
      for _, number in ipairs(NUMBERS) do agrees(service, session, { author = "x", customMetadata = number }) end
      local values = math.random
      for _ = 1, checks.scaled(50) do
        local list = {}
        for i = 1, 40, 4 do
          list[i] = values(0) >> values(0, 63)
          list[i + 1] = values(-10 ^ 15 // 1, 10 ^ 15 // 1) / 10 ^ values(0, 20)
          list[i + 2] = string.unpack("d", string.pack("j", values(0) & ~(1 << 62)))
          list[i + 3] = values(0, 10 ^ 9 // 1) / 1000
          if list[i + 2] ~= list[i + 2] then list[i + 2] = 0.0 end
        end
        agrees(service, session, { author = "x", customMetadata = list })
      end
    end)

    it("hold random values", function()
      local service = open { durability = "normal" }
      local session = checks.create(service)
      local values = random.new(seed)
      for number = 1, checks.scaled(300) do
        local ok, message = pcall(agrees, service, session, { author = "x", customMetadata = { values:value(5) } })
        assert(ok, ("MOONPAD_SEED=%d, event %d: %s"):format(seed, number, tostring(message)))
      end
    end)

    it("are read while finalizers read events too", function()
      local service = open { durability = "normal" }
      local session = checks.create(service)
      local count, large, runs = checks.scaled(40) + 3, ("z"):rep(3000), 0
      local function content(i) return { i, i % 5 == 0 and large or "small", members(i % 20) } end
      for i = 1, count do agrees(service, session, { author = "x", customMetadata = content(i) }) end
      local function rearm()
        setmetatable({}, { __gc = function()
          runs = runs + 1
          assert(json.encode(session.events[runs % count + 1]) ~= "")
          if runs < 20 * count then rearm() end
        end })
      end
      rearm()
      for round = 1, 3 do
        for i, event in ipairs(session.events) do
          checks.identical(content(i), event.customMetadata)
          if i % 10 == round then collectgarbage() end
        end
      end
      assert.is_true(runs > 0)
    end)
  end)
end)
