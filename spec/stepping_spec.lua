-- A stepped run does not hold its thread while a store is asked; what happens depends neither on
-- the store nor on who drives the run (contract 1.4 point 2, 2 "nothing waits that need not").
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local moonpad = require "moonpad"
local scene = require "spec.support.run_scene"
local slow_store = require "spec.support.slow_store"
local support = require "spec.support"
local turns = require "spec.support.turns"

local custom, options, raises, runnerOf = scene.custom, scene.options, checks.raises, scene.runnerOf

describe("what happens in a run", function()
  local expected
  setup(function() expected = scene.play("memory:", "run") end)
  teardown(support.cleanup)

  it("has all there is in it", function()
    assert.equal(16, #expected.events)
    local text = table.concat(expected.log, "\n")
    for _, line in ipairs { "slow waits", "slow goes on", "quick asks", "Helper's afterToolCallback asks",
                            "plugin's onEvent asks", "Streamer's model asks", "Custom, after its event asks" } do
      assert(text:find(line, 1, true), "the log has no " .. line)
    end
    assert.equal(1, expected.state.custom)
    assert.equal("Left is done", expected.state.said_by_Left)
    assert.is_nil(expected.state.lost)
  end)

  it("is not interrupted where nothing waits but for a store", function()
    for index = 1, #expected.log do
      local who = expected.log[index]:match "^(.*) asks$"
      if who then assert.equal(who, (expected.log[index + 1]:match "^(.*) was answered")) end
    end
  end)

  local stores = support.servers { "slow:0:memory:", "memory:", "sqlite:FILE", "slow:2:memory:", "slow:0:sqlite:FILE" }
  for index, store in ipairs(stores) do
    for driver in pairs(scene.drivers) do
      turns.it(("is the same on %s, driven by %s"):format(store, driver), turns.isDue(index, #stores), function()
        local got = scene.play(store, driver)
        assert.same(expected.log, got.log)
        assert.same(expected.events, got.events)
        assert.same(expected.stored, got.stored)
        assert.same(expected.state, got.state)
      end)
    end
  end
end)

---- While a store is asked

describe("while a store is asked #threads", function()
  local service
  before_each(function() service = slow_store.open "slow:0:memory:" end)
  after_each(function()
    slow_store.hold(false)
    service:close()
    support.cleanup()
  end)

  local function startOn(agent, sessionId)
    return runnerOf(service, agent):start(options(sessionId))
  end

  local function ask()
    return #service:listSessions { appName = "app", userId = "nobody" }
  end

  local function askState()
    return service:getUserState { appName = "app", userId = "u" }
  end

  -- Steps until the store has been asked so often, and no answer can come.
  local function stepUntilAsked(invocation, isReached)
    support.stepUntil(invocation, isReached)
    local before = slow_store.roundTrips()
    slow_store.hold(true)
    support.stepUntil(invocation, function() return slow_store.roundTrips() > before end)
  end

  -- A function that tells when its caller has come so far, and waits there for a step; what follows
  -- asks a store that is held.
  local function gate()
    local isReached = false
    local function pass()
      isReached = true
      coroutine.yield()
    end
    return pass, function() return isReached end
  end

  local function texts()
    local list = {}
    local session = checks.get(service)
    for index = 1, #session.events do list[index] = session.events[index]:text() end
    return table.concat(list, ", ")
  end

  it("no step makes a round trip on its own thread", function()
    local log = {}
    local function call(method, fields)
      fields.appName, fields.userId = "app", "u"
      log[#log + 1] = method
      return service[method](service, fields)
    end
    local function callAll(context)
      local made = call("createSession", { sessionId = "made", state = { n = 1 } })
      made.state.n = 2
      service:updateSession(made)
      service:appendEvent(call("getSession", { sessionId = "made" }), { author = "x" })
      service:refresh(made)
      service:stateAt(made, 1)
      service:fork(made, { at = 1, sessionId = "fork" })
      service:rewind(made, { revision = 0 })
      call("listSessions", {})
      call("updateUserState", { state = { k = 1 } })
      call("incrementState", { key = "k" })
      call("getUserState", {})
      service:updateAppState { appName = "app", state = { k = 1 } }
      service:getAppState { appName = "app" }
      call("deleteSession", { sessionId = "fork" })
      context.state.done = true
      context:emit "done"
    end
    local invocation = startOn(custom("A", callAll))
    local here, all, waits = slow_store.roundTripsHere(), slow_store.roundTrips(), 0
    local event
    -- A round trip ends only after a step that said so, however slow the steps are.
    slow_store.hold(true)
    repeat
      event = invocation:step()
      if event == "waiting" then
        waits = waits + 1
        slow_store.hold(true, 1)
      end
    until event == nil
    slow_store.hold(false)
    local asked = slow_store.roundTrips() - all
    assert.equal(here, slow_store.roundTripsHere())
    assert(asked >= 18 and waits >= asked, ("%d round trips, %d steps that waited"):format(asked, waits))
    assert.equal(7, #log)
    assert.is_true(checks.get(service).state.done)
  end)

  it("no step of a run with models, tools and branches does", function()
    local world = scene.open "slow:0:memory:"
    local invocation = world.runner:start(options())
    local here, all = slow_store.roundTripsHere(), slow_store.roundTrips()
    while support.step(invocation) do end -- luacheck: ignore
    assert.equal(here, slow_store.roundTripsHere())
    assert.is_true(slow_store.roundTrips() - all > 100)
    scene.close(world)
  end)

  it("a blocking loop makes its calls on the spot", function()
    local all, here = slow_store.roundTrips(), slow_store.roundTripsHere()
    support.run(runnerOf(service, custom("A", function(context)
      ask()
      context:emit "x"
    end)), "go")
    assert.equal(slow_store.roundTrips() - all, slow_store.roundTripsHere() - here)
  end)

  it("nothing else of the run begins or goes on, and other runs do", function()
    local log = {}
    local pass, isReached = gate()
    local function tool(name, run)
      return { name = name, run = function()
        log[#log + 1] = name
        if run then run() end
        log[#log + 1] = name .. " over"
      end }
    end
    local function agent(name, tools)
      return moonpad.agent { name = name, tools = tools, model = moonpad.models.scripted {
        support.calls({ "one" }, { "two" }), name .. " done",
      } }
    end
    local invocation = startOn(moonpad.parallelAgent { name = "Both", subAgents = {
      agent("A", { tool("one", function()
        pass()
        ask()
      end), tool "two" }),
      custom("B", function()
        while true do
          log[#log + 1] = "B"
          coroutine.yield()
        end
      end),
    } })
    assert.equal("A", support.step(invocation).author)
    stepUntilAsked(invocation, isReached)
    local before = table.concat(log, ", ")
    local others = moonpad.open "memory:"
    local other = runnerOf(others, custom("Other", function(context)
      coroutine.yield()
      context:emit "other"
    end)):start(options())
    for _ = 1, 5 do assert.equal("waiting", invocation:step()) end
    assert.equal("other", support.step(other):text())
    assert.equal(before, table.concat(log, ", "))
    slow_store.hold(false)
    assert.equal("A", support.step(invocation).author)
    assert.matches("^B, one, two, two over, .*one over", table.concat(log, ", "))
    invocation:cancel()
    others:close()
  end)

  it("no other tool begins while one goes over a long history", function()
    local long = checks.create(service, "long")
    for index = 1, 250 do
      service:appendEvent(long, { author = "user", content = { parts = { { text = "text " .. index } } } })
    end
    local memory <close> = moonpad.memoryService "memory:"
    local log = {}
    local agent = moonpad.agent { name = "A",
      model = moonpad.models.scripted { support.calls({ "one" }, { "two" }), "done" },
      tools = {
        { name = "one", run = function()
          log[#log + 1] = "one"
          memory:addSession(checks.get(service, "long"))
          log[#log + 1] = "one over"
        end },
        { name = "two", run = function() log[#log + 1] = "two" end },
      },
    }
    local invocation = startOn(agent)
    while support.step(invocation) do end -- luacheck: ignore
    assert.same({ "one", "one over", "two" }, log)
    assert.equal(1, #memory:searchMemory { appName = "app", userId = "u", query = "250" }.memories)
  end)

  it("the descriptor tells an event loop when to step", function()
    local fd = service:fd()
    local pass, isReached = gate()
    local invocation = startOn(custom("A", function(context)
      pass()
      ask()
      context:emit "answered"
    end))
    stepUntilAsked(invocation, isReached)
    assert.is_false(slow_store.isReadable(fd))
    slow_store.hold(false)
    support.waitUntil("the descriptor", function() return slow_store.isReadable(fd) end)
    assert.equal(0, service:poll())
    assert.is_true(slow_store.isReadable(fd))
    assert.equal("answered", support.step(invocation):text())
    assert.is_nil(support.step(invocation))
    assert.is_false(slow_store.isReadable(fd))
  end)

  it("the descriptor is that of the run's own service, whatever store is asked", function()
    local outside <close> = moonpad.open "memory:"
    local fd = outside:fd()
    local pass, isReached = gate()
    local invocation = runnerOf(outside, custom("A", function(context)
      pass()
      context:emit("there are " .. ask())
    end)):start(options())
    stepUntilAsked(invocation, isReached)
    assert.is_false(slow_store.isReadable(fd))
    slow_store.hold(false)
    support.waitUntil("the descriptor", function() return slow_store.isReadable(fd) end)
    assert.equal("there are 0", support.step(invocation):text())
    assert.is_false(slow_store.isReadable(fd))
  end)

  it("a wait with a limit comes back in time, and goes on when the answer is there", function()
    local pass, isReached = gate()
    local invocation = startOn(custom("A", function(context)
      pass()
      ask()
      context:emit "answered"
    end))
    stepUntilAsked(invocation, isReached)
    assert.equal("waiting", invocation:wait(0.01))
    slow_store.hold(false)
    assert.equal("answered", invocation:wait(support.TIMEOUT_SECONDS):text())
    assert.is_nil(invocation:wait(support.TIMEOUT_SECONDS))
  end)

  it("a loop over a run that was stepped first waits for the call under way", function()
    local pass, isReached = gate()
    local first = startOn(custom("A", function(context)
      pass()
      context:emit("there are " .. ask())
    end))
    stepUntilAsked(first, isReached)
    slow_store.hold(false)
    local second = runnerOf(service, custom("B", function(context) context:emit "mine" end))
    assert.equal("mine", support.run(second)[1]:text())
    assert.equal("there are 0", first:step():text())
    assert.is_nil(support.step(first))
  end)

  it("an error is raised where the call was made, as an error object", function()
    local caught
    local invocation = startOn(custom("A", function(context)
      local who = { appName = "app", userId = "u", sessionId = "s" }
      caught = raises("already_exists", '"s"', service.createSession, service, who)
      context:emit "caught"
      local function makeItAgain() service:createSession(who) end
      makeItAgain()
      return "never"
    end))
    assert.equal("caught", support.step(invocation):text())
    assert.is_true(core.isError(caught))
    raises("already_exists", '"s"', support.step, invocation)
    assert.matches("in local 'makeItAgain'", invocation.traceback, nil, true)
    assert.matches("stepping_spec.lua", invocation.traceback, nil, true)
  end)

  -- Where Lua cannot yield, or a yield would reach a stranger. Each calls `call` at least once.
  local places = {
    ["a comparator of table.sort"] = function(call)
      table.sort({ 2, 1 }, function(a, b)
        call()
        return a < b
      end)
    end,
    ["a callback of string.gsub"] = function(call) string.gsub("x", "x", function() call() end) end,
    ["a coroutine of the tool's own"] = function(call)
      local got = { coroutine.wrap(function()
        coroutine.yield(call())
      end)() }
      assert.same({}, got)
    end,
    ["an iterator of ipairs"] = function(call)
      local list = setmetatable({}, { __index = function(_, index)
        call()
        return index == 1 or nil
      end })
      for _ in ipairs(list) do end -- luacheck: ignore
    end,
    ["a finalizer"] = function(call)
      local isDone = false
      setmetatable({}, { __gc = function()
        call()
        isDone = true
      end })
      repeat collectgarbage() until isDone
    end,
    ["a variable that is closed with its coroutine"] = function(call)
      local thread = coroutine.create(function()
        local _ <close> = setmetatable({}, { __close = function() call() end })
        coroutine.yield()
      end)
      coroutine.resume(thread)
      assert(coroutine.close(thread))
    end,
  }

  for place, enter in pairs(places) do
    it("a call in " .. place .. " blocks, and is right", function()
      local count, trips = 0, 0
      local invocation = startOn(moonpad.agent { name = "A",
        model = moonpad.models.scripted { support.calls { "t" }, "done" },
        tools = { { name = "t", run = function()
          local before = slow_store.roundTripsHere()
          enter(function()
            count = count + 1
            service:incrementState { appName = "app", userId = "u", key = "n" }
          end)
          trips = slow_store.roundTripsHere() - before
          return { n = askState().n }
        end } },
      })
      support.step(invocation)
      local answer = support.step(invocation):functionResponses()[1].response
      assert.same({ n = count }, answer)
      assert.is_true(count > 0 and trips >= count)
    end)
  end

  it("a variable that goes out of scope may ask, also in the face of an error", function()
    local seen = {}
    local function closing(name)
      return setmetatable({}, { __close = function() seen[name] = askState().n end })
    end
    service:updateUserState { appName = "app", userId = "u", state = { n = 7 } }
    local invocation = startOn(custom("A", function()
      do local _ <close> = closing "scope" end
      pcall(function()
        local _ <close> = closing "caught"
        error "x"
      end)
      local _ <close> = closing "uncaught"
      error("told", 0)
    end))
    assert.equal("told", checks.failure(support.step, invocation))
    assert.same({ scope = 7, caught = 7, uncaught = 7 }, seen)
  end)

  ---- Ends

  -- What a run may be in the middle of. Each makes an agent; its code passes the gate, and
  -- then asks.
  local function caught(heard, call)
    local ok, err = pcall(call)
    heard[#heard + 1] = ok and "answered" or err.code
    if not ok then error(err, 0) end
  end

  local kinds = {
    ["a call of a custom agent"] = function(pass, heard)
      return custom("A", function()
        pass()
        caught(heard, ask)
      end)
    end,
    ["a call of a tool"] = function(pass, heard)
      return moonpad.agent { name = "A", model = moonpad.models.scripted { support.calls { "t" } },
        tools = { { name = "t", run = function()
          pass()
          caught(heard, ask)
        end } } }
    end,
    ["a call of a model in a branch"] = function(pass, heard)
      return moonpad.parallelAgent { name = "P", subAgents = {
        custom("Waits", function()
          caught(heard, function()
            while true do coroutine.yield() end
          end)
        end),
        moonpad.agent { name = "A", model = function()
          pass()
          coroutine.yield()
          caught(heard, ask)
        end },
      } }
    end,
    ["a run within a tool"] = function(pass, heard)
      local inner = runnerOf(service, custom("Inner", function()
        pass()
        caught(heard, ask)
      end))
      return custom("A", function()
        caught(heard, function() support.run(inner, options "inner") end)
      end)
    end,
    ["an agent as a tool"] = function(pass, heard)
      return moonpad.agent { name = "A",
        model = moonpad.models.scripted { support.calls { "Inner", { request = "x" } } },
        tools = { moonpad.agentTool { agent = moonpad.agent { name = "Inner", model = function()
          pass()
          caught(heard, ask)
        end } } } }
    end,
  }
  local CANCELLED = {
    ["a call of a model in a branch"] = { "cancelled", "cancelled" },
    ["a run within a tool"] = { "cancelled", "cancelled" },
  }
  -- What is dropped hears nothing; but whoever drives a run has cancelled it by leaving its loop.
  local DROPPED = { ["a run within a tool"] = { "cancelled" }, ["an agent as a tool"] = { "cancelled" } }

  local function expectFree()
    slow_store.hold(false)
    local agent = custom("Next", function(context) context:emit "next" end)
    assert.equal("next", support.step(startOn(agent)):text())
    assert.matches("go, next$", texts())
    assert.is_false(slow_store.isReadable(service:fd()))
  end

  for kind, make in pairs(kinds) do
    local function prepare(heard)
      local pass, isReached = gate()
      local invocation = startOn(make(pass, heard))
      repeat invocation:step() until isReached()
      local before = slow_store.roundTrips()
      slow_store.hold(true)
      support.stepUntil(invocation, function() return slow_store.roundTrips() > before end)
      return invocation
    end

    it("a run can be cancelled in " .. kind .. ", without waiting", function()
      local heard = {}
      local invocation = prepare(heard)
      local here = slow_store.roundTripsHere()
      invocation:cancel()
      assert.same(CANCELLED[kind] or { "cancelled" }, heard)
      assert.is_nil(invocation:step())
      assert.is_nil(invocation:wait())
      assert.equal(here, slow_store.roundTripsHere())
      expectFree()
    end)

    it("a run can be cancelled in " .. kind .. ", without the library debug", function()
      local heard = {}
      local invocation = prepare(heard)
      local globals, library = package.loaded._G, debug
      globals.debug = nil
      local ok, err = pcall(invocation.cancel, invocation)
      globals.debug = library
      assert(ok, err)
      -- A plain wait is closed then.
      assert.equal("cancelled", heard[#heard])
      assert.is_nil(invocation:step())
      expectFree()
    end)

    it("a run can be dropped in " .. kind .. ", without waiting", function()
      local heard = {}
      prepare(heard)
      local here = slow_store.roundTripsHere()
      collectgarbage()
      collectgarbage()
      assert.same(DROPPED[kind] or {}, heard)
      assert.equal(here, slow_store.roundTripsHere())
      expectFree()
    end)
  end

  -- The event is on its way, and nobody can say yet whether it is stored.
  local function prepareAppend(heard)
    local pass, isReached = gate()
    local invocation = startOn(custom("A", function(context)
      context.state.written = 1
      pass()
      caught(heard, function() context:emit "emitted" end)
    end))
    stepUntilAsked(invocation, isReached)
    return invocation
  end

  local function nextRun()
    return custom("Next", function(context)
      context:emit("written: " .. tostring(context.state.written))
    end)
  end

  local function expectNextAfterAppend()
    local all = slow_store.roundTrips()
    local following = startOn(nextRun())
    for _ = 1, 5 do assert.equal("waiting", following:step()) end
    assert.equal("waiting", following:wait(0.01))
    assert.equal(all, slow_store.roundTrips())
    slow_store.hold(false)
    assert.equal("written: 1", support.step(following):text())
    assert.is_nil(support.step(following))
    assert.equal("go, emitted, go, written: 1", texts())
    assert.is_false(slow_store.isReadable(service:fd()))
  end

  it("an append of a cancelled run is finished, and the next run begins after it", function()
    local heard = {}
    local invocation = prepareAppend(heard)
    invocation:cancel()
    assert.same({ "cancelled" }, heard)
    assert.is_nil(invocation:step())
    expectNextAfterAppend()
  end)

  it("an append of a run that was dropped is finished, and the next run begins after it", function()
    local heard = {}
    prepareAppend(heard)
    collectgarbage()
    collectgarbage()
    assert.same({}, heard)
    expectNextAfterAppend()
  end)

  it("a loop over the next run waits for the append of a cancelled one", function()
    local invocation = prepareAppend {}
    invocation:cancel()
    slow_store.hold(false)
    assert.equal("written: 1", support.run(runnerOf(service, nextRun()))[1]:text())
    assert.equal("go, emitted, written: 1", texts())
  end)

  it("an event loop is told when the next run can begin", function()
    local fd = service:fd()
    local invocation = prepareAppend {}
    local following = startOn(nextRun())
    invocation:cancel()
    assert.equal("waiting", following:step())
    assert.is_false(slow_store.isReadable(fd))
    slow_store.hold(false)
    support.waitUntil("the descriptor", function() return slow_store.isReadable(fd) end)
    assert.equal("written: 1", support.step(following):text())
    assert.is_nil(support.step(following))
    assert.is_false(slow_store.isReadable(fd))
  end)

  it("an event loop is told of nothing when nobody waits to begin any more", function()
    local fd = service:fd()
    local invocation = prepareAppend {}
    local following = startOn(nextRun())
    invocation:cancel()
    assert.equal("waiting", following:step())
    following:cancel()
    slow_store.hold(false)
    support.waitUntil("the append", function() return texts() == "go, emitted" end)
    local other = checks.create(service, "other")
    service:appendEventAsync(other, { author = "x" })
    support.waitUntil("the other append", function() return service:poll() == 1 end)
    assert.is_false(slow_store.isReadable(fd))
  end)

  it("a run that is cancelled before it has its session leaves nothing behind but that", function()
    for calls = 1, 2 do
      local sessionId = "fresh" .. calls
      local before = slow_store.roundTrips()
      slow_store.hold(true, calls - 1)
      local invocation = startOn(nextRun(), sessionId)
      support.stepUntil(invocation, function() return slow_store.roundTrips() == before + calls end)
      invocation:cancel()
      assert.is_nil(invocation:step())
      slow_store.hold(false)
      local following = startOn(nextRun(), sessionId)
      assert.equal("written: nil", support.step(following):text())
      assert.equal(2, #checks.get(service, sessionId).events)
      assert.is_false(slow_store.isReadable(service:fd()))
    end
  end)

  it("code that has cancelled its own run goes on until it gives way, whatever it asks", function()
    local log = {}
    local invocation
    invocation = startOn(custom("A", function()
      invocation:cancel()
      log[#log + 1] = "asked " .. ask()
      coroutine.yield()
      log[#log + 1] = "never"
    end))
    assert.is_nil(support.step(invocation))
    assert.same({ "asked 0" }, log)
  end)

  it("code that cleans up may ask", function()
    local log = {}
    local pass, isReached = gate()
    local invocation = startOn(custom("A", function()
      local _ <close> = setmetatable({}, { __close = function() log[#log + 1] = "closed " .. ask() end })
      pass()
      local ok, err = pcall(ask)
      log[#log + 1] = not ok and err.code
      log[#log + 1] = "asked " .. ask()
    end))
    stepUntilAsked(invocation, isReached)
    slow_store.hold(false)
    invocation:cancel()
    assert.same({ "cancelled", "asked 0", "closed 0" }, log)
    assert.is_nil(invocation:step())
  end)

  it("what is stopped beside a failure cleans up without holding the thread", function()
    local log, here = {}, nil
    local invocation = startOn(moonpad.parallelAgent { name = "P", subAgents = {
      custom("Stopped", function()
        local ok, err = pcall(function()
          while true do coroutine.yield() end
        end)
        here = slow_store.roundTripsHere()
        log[#log + 1] = not ok and err.code
        log[#log + 1] = "asked " .. ask()
        here = slow_store.roundTripsHere() - here
      end),
      custom("Fails", function()
        ask()
        error("broken", 0)
      end),
    } })
    assert.equal("broken", checks.failure(support.step, invocation))
    assert.same({ "cancelled", "asked 0" }, log)
    assert.equal(0, here)
  end)

  it("a service that is closed finishes the call, and the run hears of it", function()
    local pass, isReached = gate()
    local answer
    local invocation = startOn(custom("A", function()
      pass()
      answer = ask()
      ask()
    end))
    stepUntilAsked(invocation, isReached)
    slow_store.hold(false)
    service:close()
    raises("closed", nil, support.step, invocation)
    assert.equal(0, answer)
  end)
end)
