-- What Lua stores is what Lua reads, bit for bit: 100,000 random values through each store.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local random = require "spec.support.random_values"
local support = require "spec.support"

local BATCHES, VALUES = checks.scaled(200), 500

local seed = checks.seed()

local function explained(where, number, run)
  local ok, message = pcall(run)
  assert(ok, ("MOONPAD_SEED=%d, %s %d: %s"):format(seed, where, number, tostring(message)))
end

-- One delta: half of the values in an array, half under keys of their own in an object, one under
-- an odd key of the session.
local function batch(values)
  local list, map = {}, {}
  for index = 1, VALUES // 2 do
    list[index] = values:value(4)
    map[values:key() .. index] = values:value(4)
  end
  return { list = list, ["user:map"] = map, ["k" .. values:key()] = values:value(4) }
end

describe("100,000 random values", function()
  support.each_store(function(open)
    it("come back bit for bit, from the state and from the events", function()
      local values = random.new(seed)
      local service = open { durability = "normal" }
      local session = checks.create(service)
      for revision = 1, BATCHES do
        local delta = batch(values)
        local event = checks.append(service, session, delta, { customMetadata = { first = delta.list[1] } })
        explained("batch", revision, function()
          assert(event.revision == revision)
          local again = checks.get(service)
          local stored = again.events[revision]
          checks.identical(delta, stored.actions.stateDelta)
          checks.identical({ first = delta.list[1] }, stored.customMetadata)
          for key, value in pairs(delta) do
            checks.identical(value, moonpad.toTable(again.state[key]))
            checks.identical(value, moonpad.toTable(session.state[key]))
          end
        end)
      end
      assert.are.equal(BATCHES, #checks.get(service).events)
    end)
  end)
end)

describe("random values", function()
  it("come back bit for bit through moonpad.json", function()
    local values = random.new(seed)
    for index = 1, checks.scaled(10000) do
      local value = values:value(5)
      explained("value", index, function() checks.identical(value, moonpad.json.decode(moonpad.json.encode(value))) end)
    end
  end)

  it("are the same read through a node, place by place", function()
    local values = random.new(seed)
    local function walk(expected, found)
      if type(expected) ~= "table" then return checks.identical(expected, found) end
      assert(type(found) == "userdata")
      local count = 0
      for key, value in pairs(expected) do
        count = count + 1
        walk(value, found[key])
      end
      for _ in pairs(found) do count = count - 1 end
      assert(count == 0)
      checks.identical(expected, moonpad.toTable(found))
    end
    for index = 1, checks.scaled(2000) do
      local value = values:value(5)
      explained("value", index, function() walk(value, moonpad.state({ k = value }).k) end)
    end
  end)
end)
