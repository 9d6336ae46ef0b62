-- moonpad.clock and moonpad.sleep.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

local NAP <const> = 0.03

-- A run of an agent that calls each of these tools once.
local function start(...)
  local tools, calls = {}, {}
  for index, work in ipairs { ... } do
    tools[index] = { name = "tool" .. index, run = work }
    calls[index] = moonpad.functionCall("tool" .. index)
  end
  local runner = moonpad.runner {
    appName = "app", sessionService = moonpad.open "memory:",
    agent = moonpad.agent { name = "A", model = moonpad.models.scripted { calls, "done" }, tools = tools },
  }
  return runner:start { userId = "u", sessionId = "s", newMessage = "go" }
end

describe("moonpad.clock", function()
  it("gives seconds that never go back", function()
    local before = moonpad.clock()
    assert.equal("float", math.type(before))
    for _ = 1, 100 do
      local now = moonpad.clock()
      assert.is_true(now >= before)
      before = now
    end
  end)
end)

describe("moonpad.sleep", function()
  it("blocks outside of runs, as long as it is told to", function()
    local before = moonpad.clock()
    moonpad.sleep(NAP)
    assert.is_true(moonpad.clock() - before >= NAP)
    moonpad.sleep(0)
  end)

  it("blocks in a tool that a test calls by itself, and where Lua cannot yield", function()
    local slept
    local tool = moonpad.tool { name = "nap", run = function()
      local before = moonpad.clock()
      table.sort({ 2, 1 }, function(a, b)
        moonpad.sleep(NAP)
        return a < b
      end)
      slept = moonpad.clock() - before
    end }
    tool.run({}, testing.toolContext())
    assert.is_true(slept >= NAP)
    slept = nil
    local invocation = start(tool.run)
    while invocation:step() do end
    assert.is_true(slept >= NAP)
  end)

  it("makes a step of a run return waiting until it is over", function()
    local woke
    local invocation = start(function()
      local before = moonpad.clock()
      moonpad.sleep(NAP)
      woke = moonpad.clock() - before
    end)
    local waited, events = 0, 0
    repeat
      local event = invocation:step()
      if event == "waiting" then
        waited = waited + 1
        moonpad.sleep(0.001)
      elseif event then
        events = events + 1
      end
    until event == nil
    assert.is_true(woke >= NAP)
    assert.is_true(waited > 0)
    assert.equal(3, events)
  end)

  it("lets the calls beside it go on", function()
    local order = {}
    local invocation = start(function()
      moonpad.sleep(NAP)
      order[#order + 1] = "slow"
    end, function() order[#order + 1] = "quick" end)
    while support.step(invocation) do end
    assert.same({ "quick", "slow" }, order)
  end)

  it("gives others a turn even where it is for no time at all", function()
    local invocation = start(function() moonpad.sleep(0) end)
    local seen = {}
    for event in function() return invocation:step() end do seen[#seen + 1] = event == "waiting" end
    assert.same({ false, true, false, false }, seen)
  end)

  it("ends with the error cancelled when its run is", function()
    local caught
    local invocation = start(function()
      local ok, err = pcall(moonpad.sleep, 1000)
      caught = not ok and err
      error(err, 0)
    end)
    repeat until invocation:step() == "waiting"
    invocation:cancel()
    assert.equal("cancelled", caught.code)
    assert.is_nil(invocation:step())
  end)

  it("is refused in a coroutine of one's own in a run", function()
    local message
    local invocation = start(function()
      local _, err = coroutine.wrap(function() return pcall(moonpad.sleep, 0) end)()
      message = err.message
    end)
    while invocation:step() do end
    assert.matches("^moonpad.sleep: in a run, call it from the coroutine", message)
  end)

  it("takes seconds from 0 to 1e9", function()
    for _, value in ipairs { -1, -0.001, 0 / 0, math.huge, -math.huge, 1e10, "1", true, {}, moonpad.null } do
      checks.raises("invalid_argument", { "moonpad.sleep", "expected a number from 0 to 1000000000, got" },
        moonpad.sleep, value)
    end
    checks.raises("invalid_argument", "got nil", moonpad.sleep)
    checks.raises("invalid_argument", "call its functions with a dot", moonpad.sleep, moonpad, 1)
  end)
end)
