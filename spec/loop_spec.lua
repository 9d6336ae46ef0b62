-- An event loop steps its runs when the descriptor of their service is readable, and not otherwise
-- (contract 2).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local scene = require "spec.support.run_scene"
local slow_store = require "spec.support.slow_store"
local support = require "spec.support"

local custom, options, runnerOf = scene.custom, scene.options, scene.runnerOf

-- As an event loop does it: each run is stepped until it waits, then nothing is done before the
-- descriptor is readable. Tells what came out of each run, and how often the loop waited.
local function loop(service, invocations)
  local fd, said, waits, live = service:fd(), {}, 0, #invocations
  local isOver = {}
  while true do
    for index, invocation in ipairs(invocations) do
      while not isOver[index] do
        local ok, event = pcall(invocation.step, invocation)
        if event == "waiting" then break end
        if not ok or event == nil then
          isOver[index], live = true, live - 1
        end
        if not ok then
          said[#said + 1] = event.code or tostring(event)
        elseif event then
          said[#said + 1] = event:text()
        end
      end
    end
    if live == 0 then return said, waits end
    waits = waits + 1
    support.waitUntil("the descriptor", function() return slow_store.isReadable(fd) end)
    service:poll()
  end
end

local function expectDark(service)
  assert.is_false(slow_store.isReadable(service:fd()))
  assert.equal(0, service:poll())
end

-- It says its name, once.
local function speaker(name)
  return custom(name, function(context) context:emit(name) end)
end

local function fails()
  error("out of tea", 0)
end

local function ordersOf(count)
  if count == 1 then return { { 1 } } end
  local orders = {}
  for _, order in ipairs(ordersOf(count - 1)) do
    for at = 1, count do
      local longer = { table.unpack(order) }
      table.insert(longer, at, count)
      orders[#orders + 1] = longer
    end
  end
  return orders
end

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function start(agent, sessionId)
    return runnerOf(service, agent):start(options(sessionId))
  end

  -- More than is remembered in one step, in any store.
  local function makeLong()
    local session = checks.create(service, "long")
    for index = 1, 350 do
      service:appendEvent(session, { author = "user", content = { parts = { { text = "line " .. index } } } })
    end
    return session
  end

  -- An agent that goes over all that, and gives way on the way.
  local function rememberer(memory)
    local session = makeLong()
    return custom("A", function(context)
      memory:addSession(session)
      context:emit "remembered"
    end)
  end

  -- A run that has given way on a service that nobody asks anything else, and waits for its
  -- next step.
  local function startGivingWay(memory)
    local hasBegun = false
    local session = makeLong()
    local invocation = start(custom("A", function(context)
      hasBegun = true
      memory:addSession(session)
      context:emit "remembered"
    end))
    support.stepUntil(invocation, function() return hasBegun end)
    -- A store on a disk may still be reading what is to be remembered.
    support.waitUntil("the descriptor", function() return slow_store.isReadable(service:fd()) end)
    assert.equal(0, service:poll())
    assert.is_true(slow_store.isReadable(service:fd()))
    return invocation
  end

  describe("a run that gives way", function()
    local memory
    before_each(function() memory = moonpad.memoryService "memory:" end)
    after_each(function() memory:close() end)

    it("is stepped when the descriptor is readable, until it is over", function()
      local said, waits = loop(service, { start(rememberer(memory)) })
      assert.same({ "remembered" }, said)
      assert.is_true(waits >= 3)
      expectDark(service)
    end)

    it("and asks a store as well", function()
      local onDisk <close> = moonpad.memoryService("sqlite:" .. support.tmpdir() .. "/memory.db")
      local said = loop(service, { start(rememberer(onDisk)) })
      assert.same({ "remembered" }, said)
      expectDark(service)
    end)

    it("within an agent that is a tool", function()
      local inner = rememberer(memory)
      local said = loop(service, { start(moonpad.agent { name = "Outer",
        model = moonpad.models.scripted { support.calls { "A", request = "go" }, "over" },
        tools = { moonpad.agentTool { agent = inner } },
      }) })
      assert.equal("over", said[#said])
      expectDark(service)
    end)

    it("within a tool that steps it", function()
      local runner = runnerOf(service, rememberer(memory))
      local said = loop(service, { start(custom("Outer", function(context)
        local inner = runner:start(options "inner")
        local event
        repeat
          event = inner:step()
          if event == "waiting" then coroutine.yield() end
        until event ~= "waiting"
        assert(inner:step() == nil)
        context:emit("it " .. event:text())
      end)) })
      -- On SQLite the inner run also asks a store.
      assert.same({ "it remembered" }, said)
      expectDark(service)
    end)

    it("ends a poll that waits for something else #threads", function()
      local other <close> = slow_store.open "slow:0:memory:"
      local session = checks.create(other)
      local long = makeLong()
      local hasBegun = false
      local invocation = runnerOf(other, custom("A", function()
        hasBegun = true
        memory:addSession(long)
      end)):start(options "own")
      support.stepUntil(invocation, function() return hasBegun end)
      slow_store.hold(true)
      local pending = other:appendEventAsync(session, { author = "x" })
      assert.equal(0, other:poll(600))
      assert.is_nil(pending:result())
      slow_store.hold(false)
      assert.equal(1, other:poll(600))
      assert.is_nil(support.step(invocation))
      expectDark(other)
    end)

    it("goes on in a wait", function()
      local invocation = startGivingWay(memory)
      assert.equal("remembered", invocation:wait(support.TIMEOUT_SECONDS):text())
      assert.is_nil(invocation:wait(support.TIMEOUT_SECONDS))
      expectDark(service)
    end)

    it("can be cancelled", function()
      startGivingWay(memory):cancel()
      expectDark(service)
    end)

    it("can be dropped", function()
      startGivingWay(memory)
      collectgarbage()
      collectgarbage()
      expectDark(service)
    end)

    it("is told of until it is stepped itself", function()
      local invocation = startGivingWay(memory)
      local other = start(speaker "B", "other")
      assert.equal("B", support.step(other):text())
      assert.is_nil(support.step(other))
      assert.is_true(slow_store.isReadable(service:fd()))
      assert.same({ "remembered" }, (loop(service, { invocation })))
      expectDark(service)
    end)

    it("ends when the service is closed meanwhile", function()
      local invocation = startGivingWay(memory)
      local following = start(speaker "B")
      assert.equal("waiting", following:step())
      service:close()
      assert.is_true(slow_store.isReadable(service:fd()))
      assert.same({ "closed", "closed" }, (loop(service, { following, invocation })))
      expectDark(service)
    end)

    it("may outlive its service", function()
      for _, ends in ipairs { "cancel", "step", "drop" } do
        service = open()
        local invocation = startGivingWay(memory)
        getmetatable(service).__gc(service)
        if ends == "cancel" then
          invocation:cancel()
        elseif ends == "step" then
          pcall(support.step, invocation)
        end
        invocation = nil -- luacheck: ignore
        collectgarbage()
        collectgarbage()
      end
    end)
  end)

  describe("runs in one line", function()
    for count = 2, 3 do
      it(count .. " of them, stepped in any order", function()
        for index, order in ipairs(ordersOf(count)) do
          local inLine, said, invocations = {}, {}, {}
          for place = 1, count do
            inLine[place] = start(speaker("run " .. place), "s" .. index)
            said[place] = "run " .. place
          end
          for at, place in ipairs(order) do invocations[at] = inLine[place] end
          assert.same(said, (loop(service, invocations)))
          expectDark(service)
        end
      end)
    end

    it("the next one is told of when the one ahead fails", function()
      local ahead = start(custom("A", fails))
      assert.same({ "out of tea", "B" }, (loop(service, { start(speaker "B"), ahead })))
      expectDark(service)
    end)

    -- A run that waits for nothing that moonpad knows of, and one behind it.
    local function startTwo()
      local hasBegun = false
      local ahead = start(custom("A", function()
        hasBegun = true
        while true do coroutine.yield() end
      end))
      support.stepUntil(ahead, function() return hasBegun end)
      local behind = start(speaker "B")
      assert.equal("waiting", behind:step())
      expectDark(service)
      return ahead, behind
    end

    it("the next one is told of when the one ahead is cancelled", function()
      local ahead, behind = startTwo()
      ahead:cancel()
      assert.is_true(slow_store.isReadable(service:fd()))
      assert.same({ "B" }, (loop(service, { behind })))
      expectDark(service)
    end)

    it("the next one is told of when the one ahead is dropped", function()
      local behind = select(2, startTwo())
      collectgarbage()
      collectgarbage()
      assert.is_true(slow_store.isReadable(service:fd()))
      assert.same({ "B" }, (loop(service, { behind })))
      expectDark(service)
    end)

    it("one that was told of and is cancelled tells of the one behind it", function()
      local ahead, behind = startTwo()
      local last = start(speaker "C")
      assert.equal("waiting", last:step())
      ahead:cancel()
      assert.is_true(slow_store.isReadable(service:fd()))
      assert.equal("waiting", last:step())
      assert.is_true(slow_store.isReadable(service:fd()))
      behind:cancel()
      assert.is_true(slow_store.isReadable(service:fd()))
      assert.same({ "C" }, (loop(service, { last })))
      expectDark(service)
    end)

    it("one that is cancelled behind another tells nothing", function()
      local ahead, behind = startTwo()
      behind:cancel()
      expectDark(service)
      ahead:cancel()
      expectDark(service)
    end)

    it("one that another waits for is told of when it has something for its own loop", function()
      local ahead = start(custom("A", function(context)
        coroutine.yield()
        context:emit "A"
      end))
      local behind = start(speaker "B")
      assert.equal("waiting", ahead:step())
      assert.equal("B", behind:wait(support.TIMEOUT_SECONDS):text())
      assert.is_nil(behind:wait(support.TIMEOUT_SECONDS))
      assert.is_true(slow_store.isReadable(service:fd()))
      assert.equal(0, service:poll())
      assert.equal("A", ahead:step():text())
      assert.is_false(slow_store.isReadable(service:fd()))
      assert.is_nil(ahead:step())
      expectDark(service)
    end)

    it("one that another waits for, and that fails", function()
      local ahead = start(custom("A", function()
        coroutine.yield()
        fails()
      end))
      local behind = start(speaker "B")
      assert.equal("waiting", ahead:step())
      assert.equal("B", behind:wait():text())
      assert.is_true(slow_store.isReadable(service:fd()))
      assert.equal("out of tea", checks.failure(ahead.step, ahead))
      assert.is_nil(behind:wait())
      expectDark(service)
    end)

    it("a loop over the last one steps those ahead of it", function()
      local ahead, behind = startTwo()
      local last = start(speaker "C")
      ahead:cancel()
      assert.equal("C", last:wait():text())
      assert.is_nil(last:wait())
      assert.is_true(slow_store.isReadable(service:fd()))
      assert.same({ "B" }, (loop(service, { behind })))
      expectDark(service)
    end)
  end)
end)

describe("an append under way #threads", function()
  local service
  before_each(function() service = slow_store.open "slow:0:memory:" end)
  after_each(function()
    slow_store.hold(false)
    service:close()
    support.cleanup()
  end)

  it("of a cancelled run: the runs behind it begin when it is stored", function()
    local isReached = false
    local ahead = runnerOf(service, custom("A", function(context)
      isReached = true
      coroutine.yield()
      context:emit "A"
    end)):start(options())
    support.stepUntil(ahead, function() return isReached end)
    local before = slow_store.roundTrips()
    slow_store.hold(true)
    support.stepUntil(ahead, function() return slow_store.roundTrips() > before end)
    local first = runnerOf(service, speaker "B"):start(options())
    local second = runnerOf(service, speaker "C"):start(options())
    assert.equal("waiting", second:step())
    assert.equal("waiting", first:step())
    ahead:cancel()
    expectDark(service)
    slow_store.hold(false)
    assert.same({ "B", "C" }, (loop(service, { second, first })))
    expectDark(service)
    local texts = {}
    for index, event in ipairs(checks.get(service).events) do texts[index] = event:text() end
    assert.same({ "go", "A", "go", "B", "go", "C" }, texts)
  end)

  -- Runs that append to the same session object: the append of the first is under way, the others
  -- wait for it.
  local function startAppending(count)
    local shared = checks.get(service, "shared") or checks.create(service, "shared")
    local invocations = {}
    for index = 1, count do
      local hasBegun = false
      invocations[index] = runnerOf(service, custom("A" .. index, function()
        hasBegun = true
        coroutine.yield()
        service:appendEvent(shared, { author = "x", content = { parts = { { text = "by " .. index } } } })
      end)):start(options("s" .. index))
      support.stepUntil(invocations[index], function() return hasBegun end)
    end
    local before = slow_store.roundTrips()
    slow_store.hold(true)
    support.stepUntil(invocations[1], function() return slow_store.roundTrips() > before end)
    for index = 2, count do assert.equal("waiting", invocations[index]:step()) end
    expectDark(service)
    return table.unpack(invocations)
  end

  local function expectAppended(...)
    local texts = {}
    for index, event in ipairs(checks.get(service, "shared").events) do texts[index] = event:text() end
    assert.same({ ... }, texts)
  end

  it("those that wait for it are told when its own run has found it done", function()
    local first, second = startAppending(2)
    slow_store.hold(false)
    assert.is_nil(support.step(first))
    assert.is_true(slow_store.isReadable(service:fd()))
    assert.equal(0, service:poll())
    assert.same({}, (loop(service, { second })))
    expectDark(service)
    expectAppended("by 1", "by 2")
  end)

  it("its run is told when another one has found it done", function()
    local first, second = startAppending(2)
    slow_store.hold(false)
    assert.is_nil(support.step(second))
    assert.is_true(slow_store.isReadable(service:fd()))
    assert.equal(0, service:poll())
    assert.is_nil(first:step())
    expectDark(service)
  end)

  it("nobody is told any more of what a cancelled run has waited for", function()
    local first, second = startAppending(2)
    slow_store.hold(false)
    assert.is_nil(support.step(second))
    first:cancel()
    expectDark(service)
    expectAppended("by 1", "by 2")
    first, second = startAppending(2)
    slow_store.hold(false)
    assert.is_nil(support.step(first))
    second:cancel()
    expectDark(service)
  end)

  it("several wait for that of a cancelled run, and one of them is cancelled, too", function()
    local first, second, third, fourth = startAppending(4)
    first:cancel()
    for _, waiting in ipairs { second, third, fourth } do assert.equal("waiting", waiting:step()) end
    third:cancel()
    expectDark(service)
    slow_store.hold(false)
    support.waitUntil("the descriptor", function() return slow_store.isReadable(service:fd()) end)
    assert.same({}, (loop(service, { fourth, second })))
    expectDark(service)
    expectAppended("by 1", "by 4", "by 2")
  end)

  -- A run that waits for an asynchronous append, which a poll then finds done.
  local function startAwaiting()
    local session, hasBegun = checks.create(service, "shared"), false
    local invocation = runnerOf(service, custom("A", function(context)
      slow_store.hold(true)
      local pending = service:appendEventAsync(session, { author = "x" })
      hasBegun = true
      context:await(pending)
      context:emit "awaited"
    end)):start(options())
    support.stepUntil(invocation, function() return hasBegun end)
    expectDark(service)
    slow_store.hold(false)
    assert.equal(1, service:poll(support.TIMEOUT_SECONDS))
    assert.is_true(slow_store.isReadable(service:fd()))
    assert.equal(0, service:poll())
    return invocation
  end

  it("that a run awaits: it is told when a poll has found it done", function()
    assert.same({ "awaited" }, (loop(service, { startAwaiting() })))
    expectDark(service)
  end)

  it("that a run awaits, and was cancelled", function()
    startAwaiting():cancel()
    expectDark(service)
  end)
end)
