-- A run on a SQLite file that another process is writing to: no step waits for the lock, whatever
-- the durability.
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local lock = require "spec.support.lock"
local moonpad = require "moonpad"
local support = require "spec.support"

require("spec.support.turns").quickRunsOneIn(4)

-- Of who is to have the lock in the end, however busy the machine is. A step that waited for it
-- would wait that long, and then it would be busy.
local TIMEOUT_MS = support.TIMEOUT_MS
local STEPS = 10

for _, durability in ipairs { "full", "normal" } do
  describe(("a run on a file that is locked, with durability %s,"):format(durability), function()
    local folder, path, service, release
    before_each(function()
      folder = support.tmpdir()
      path = folder .. "/test.db"
      service = moonpad.open("sqlite:" .. path, { durability = durability, busyTimeoutMs = TIMEOUT_MS })
    end)
    after_each(function()
      if release then release() end
      release = nil
      service:close()
      support.cleanup()
    end)

    local function take() release = lock(path, folder) end
    local function letGo()
      release()
      release = nil
    end

    local function newRunner(agent, on)
      return moonpad.runner { appName = "app", agent = agent, sessionService = on or service }
    end

    local function counter()
      return moonpad.agent { name = "Counter", model = function(_, context)
        context.state:increment "calls"
        context.state["temp:seen"] = true
        return "counted"
      end }
    end

    local function start(agent, on)
      return newRunner(agent, on):start { userId = "u", sessionId = "s", newMessage = "Hi" }
    end

    local function expectWaiting(invocation)
      for _ = 1, STEPS do assert.equal("waiting", invocation:step()) end
    end

    local function finish(invocation)
      local texts = {}
      while true do
        local event = invocation:wait()
        if event == nil then return table.concat(texts, " ") end
        texts[#texts + 1] = event:text()
      end
    end

    local function stored()
      local session = checks.get(service)
      local texts = {}
      for index, event in ipairs(session.events) do texts[index] = event.author .. ": " .. event:text() end
      return table.concat(texts, ", "), session.state:getAll()
    end

    it("waits without blocking to store the message, and stores it once", function()
      checks.create(service)
      local invocation = start(counter())
      take()
      expectWaiting(invocation)
      letGo()
      assert.equal("counted", finish(invocation))
      local texts, state = stored()
      assert.equal("user: Hi, Counter: counted", texts)
      assert.same({ calls = 1 }, state)
    end)

    it("waits without blocking to create the session", function()
      local invocation = start(counter())
      take()
      expectWaiting(invocation)
      letGo()
      assert.equal("counted", finish(invocation))
      assert.equal("user: Hi, Counter: counted", (stored()))
    end)

    -- The first event has been taken when the second finds the file locked.
    local function startAndLock(agent)
      checks.create(service)
      local asked = false
      local invocation = start(moonpad.sequentialAgent { name = "Flow", subAgents = {
        moonpad.agent { name = "First", model = function()
          asked = true
          return "first"
        end },
        agent,
      } })
      assert.equal("first", invocation:wait():text())
      assert.is_true(asked)
      take()
      return invocation
    end

    it("stores what the agent has written while it waits as it was written", function()
      local answer, answered = { content = { parts = { { text = "counted" } } } }, false
      local invocation = startAndLock(moonpad.agent { name = "Counter", model = function(_, context)
        context.state:increment "calls"
        context.state.list = { 1, 2 }
        answered = true
        return answer
      end })
      support.stepUntil(invocation, function() return answered end)
      expectWaiting(invocation)
      answer.content.parts[1].text = "changed afterwards"
      letGo()
      local event = invocation:wait()
      assert.equal("counted", event:text())
      assert.same({ calls = 1, list = { 1, 2 } }, event.actions.stateDelta)
      assert.is_nil(invocation:wait())
      local texts, state = stored()
      assert.equal("user: Hi, First: first, Counter: counted", texts)
      assert.same({ calls = 1, list = { 1, 2 } }, state)
    end)

    it("lets a value of temp: be seen when its event is stored", function()
      local seen
      local invocation = startAndLock(moonpad.sequentialAgent { name = "Both", subAgents = {
        counter(),
        moonpad.agent { name = "Reader", model = function(_, context)
          seen = context.state["temp:seen"]
          return "read"
        end },
      } })
      expectWaiting(invocation)
      letGo()
      assert.equal("counted read", finish(invocation))
      assert.is_true(seen)
      assert.same({ calls = 1 }, select(2, stored()))
    end)

    it("meets a conflict with what was stored before it had the lock", function()
      checks.create(service)
      local locked = false
      local invocation = start(moonpad.agent { name = "Counter", model = function(_, context)
        context.state.calls = (context.state.calls or 0) + 1
        local other = checks.get(service)
        other.state.calls = 10
        service:updateSession(other)
        take()
        locked = true
        return "counted"
      end })
      support.stepUntil(invocation, function() return locked end)
      expectWaiting(invocation)
      letGo()
      local err = checks.raises("conflict", nil, function() invocation:wait() end)
      assert.same({ "calls" }, err.keys)
      assert.same({ calls = 10 }, select(2, stored()))
    end)

    it("lets no other branch go on meanwhile", function()
      local turns, before = 0, nil
      local invocation = startAndLock(moonpad.parallelAgent { name = "Both", subAgents = {
        counter(),
        moonpad.agent { name = "Thinker", model = function()
          while turns < 3 do
            turns = turns + 1
            coroutine.yield()
          end
          return "thought"
        end },
      } })
      support.stepUntil(invocation, function()
        local isSame = before == turns
        before = turns
        return isSame
      end)
      expectWaiting(invocation)
      assert.equal(before, turns)
      letGo()
      assert.equal("counted thought", finish(invocation))
      assert.equal(3, turns)
      assert.same({ calls = 1 }, select(2, stored()))
    end)

    it("is busy once busyTimeoutMs have passed", function()
      checks.create(service)
      local steps, milliseconds = 0, 150
      -- A machine that is busy may let so much time pass within one step.
      while steps == 0 do
        local impatient <close> = moonpad.open("sqlite:" .. path, { busyTimeoutMs = milliseconds })
        local invocation = start(counter(), impatient)
        take()
        local from = core.monotonic()
        checks.raises("busy", ("busyTimeoutMs (%d ms)"):format(milliseconds), function()
          while invocation:step() == "waiting" do steps = steps + 1 end
        end)
        local seconds = core.monotonic() - from
        assert.is_true(seconds >= milliseconds / 1000)
        letGo()
        assert.equal("", (stored()))
        if steps > 0 then assert.equal("counted", finish(start(counter(), impatient))) end
        milliseconds = milliseconds * 4
        assert(milliseconds < TIMEOUT_MS, "the step waits")
      end
    end)

    it("is busy at once with a busyTimeoutMs of 0", function()
      checks.create(service)
      local impatient <close> = moonpad.open("sqlite:" .. path, { busyTimeoutMs = 0 })
      local invocation = start(counter(), impatient)
      take()
      checks.raises("busy", nil, support.step, invocation)
    end)

    it("can be waited for with a limit", function()
      checks.create(service)
      local invocation = start(counter())
      take()
      local from = core.monotonic()
      assert.equal("waiting", invocation:wait(0.05))
      assert.is_true(core.monotonic() - from >= 0.05)
      letGo()
      assert.equal("counted", finish(invocation))
    end)

    it("can be cancelled while it waits; the append under way is finished, and then the next run begins", function()
      local cleaned, written = false, false
      local invocation = startAndLock(moonpad.customAgent { name = "Host", run = function(context)
        context.state.written = true
        written = true
        local ok, err = pcall(context.emit, context, "emitted")
        cleaned = not ok and err.code
        error(err, 0)
      end })
      support.stepUntil(invocation, function() return written end)
      expectWaiting(invocation)
      invocation:cancel()
      assert.equal("cancelled", cleaned)
      assert.is_nil(invocation:step())
      local next = start(counter())
      expectWaiting(next)
      assert.equal("waiting", next:wait(0.01))
      letGo()
      assert.equal("counted", finish(next))
      local texts, state = stored()
      assert.equal("user: Hi, First: first, Host: emitted, user: Hi, Counter: counted", texts)
      assert.same({ written = true, calls = 1 }, state)
    end)

    it("waits on the spot in a loop over its events", function()
      checks.create(service)
      local impatient <close> = moonpad.open("sqlite:" .. path, { busyTimeoutMs = 150 })
      take()
      local from = core.monotonic()
      checks.raises("busy", nil, function()
        for _ in newRunner(counter(), impatient):run { userId = "u", sessionId = "s", newMessage = "Hi" } do
          error "there is no event"
        end
      end)
      assert.is_true(core.monotonic() - from >= 0.15)
    end)
  end)
end
