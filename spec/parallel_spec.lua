-- Agents side by side: branches, what their models hear, failures. What they write:
-- branch_writes_spec.
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function runnerOf(root, fields)
    local definition = { appName = "app", agent = root, sessionService = service }
    for name, value in pairs(fields or {}) do definition[name] = value end
    return moonpad.runner(definition)
  end

  local function run(root)
    return support.run(runnerOf(root), "go")
  end

  local function agent(name, fields)
    local definition = { name = name, model = function() return name end }
    for field, value in pairs(fields or {}) do definition[field] = value end
    return moonpad.agent(definition)
  end

  local function custom(name, body)
    return moonpad.customAgent { name = name, run = body }
  end

  local function parallel(...)
    return moonpad.parallelAgent { name = "P", subAgents = { ... } }
  end

  describe("parallelAgent", function()
    it("gives each agent a branch of its own", function()
      local events = run(parallel(agent "A", agent "B"))
      assert.same({ "P.A", "P.B" }, { events[1].branch, events[2].branch })
      assert.same({ "A", "B" }, { events[1].author, events[2].author })
      assert.equal("P.B", support.stored(service).events[3].branch)
    end)

    it("gives a branch within a branch to those of a nested one, and keeps it in sequences and loops", function()
      local inner = moonpad.parallelAgent { name = "Q", subAgents = { agent "A" } }
      local events = run(parallel(moonpad.sequentialAgent { name = "S", subAgents = {
        moonpad.loopAgent { name = "L", maxIterations = 1, subAgents = { agent "B" } }, inner,
      } }))
      assert.same({ "P.S", "P.S.Q.A" }, { events[1].branch, events[2].branch })
    end)

    it("keeps a point in a name from looking like a step", function()
      local events = run(parallel(agent "Dr. No"))
      assert.equal("P.Dr%2E No", events[1].branch)
    end)

    it("lets them go on by turns, one event each", function()
      local function talker(name)
        return custom(name, function(context) for count = 1, 3 do context:emit(name .. count) end end)
      end
      local order = {}
      for _, event in ipairs(run(parallel(talker "A", talker "B"))) do order[#order + 1] = event:text() end
      assert.equal("A1 B1 A2 B2 A3 B3", table.concat(order, " "))
    end)

    it("does not let one that waits hold up the others", function()
      local waiting = true
      local events = run(parallel(
        agent("Slow", { model = function() while waiting do coroutine.yield() end return "slow" end }),
        agent("Fast", { afterAgentCallback = function() waiting = false end })
      ))
      assert.same({ "Fast", "Slow" }, { events[1].author, events[2].author })
    end)

    it("stores every event before its agent goes on", function()
      local counts = {}
      local function counter(name)
        return custom(name, function(context)
          context:emit "one"
          counts[#counts + 1] = #support.stored(service).events
          context:emit "two"
          counts[#counts + 1] = #support.stored(service).events
        end)
      end
      run(parallel(counter "A", counter "B"))
      -- The user's message and the first events of both are there when A goes on.
      assert.same({ 3, 4, 5, 5 }, counts)
    end)

    it("steps without blocking: waiting only when all of them wait", function()
      local gate, begun = {}, {}
      local function waiter(name)
        return agent(name, { model = function()
          begun[name] = true
          while not gate[name] do coroutine.yield() end
          return name
        end })
      end
      local invocation = runnerOf(parallel(waiter "A", waiter "B")):start {
        userId = "u", sessionId = "s", newMessage = "go",
      }
      support.stepUntil(invocation, function() return begun.A and begun.B end)
      gate.B = true
      assert.equal("B", support.step(invocation).author)
      assert.equal("waiting", invocation:step())
      gate.A = true
      assert.equal("A", support.step(invocation).author)
      assert.is_nil(support.step(invocation))
    end)

    it("without sub-agents does nothing", function()
      assert.equal(0, #run(moonpad.parallelAgent { name = "P" }))
    end)
  end)

  describe("the history that an agent's model gets", function()
    local function heard(request)
      local all = {}
      for _, content in ipairs(request.contents) do
        for _, part in ipairs(content.parts) do
          if part.text ~= "For context:" then all[#all + 1] = part.text end
        end
      end
      return table.concat(all, "|")
    end

    it("holds its own branch and those above it, not those beside it; afterwards everybody sees all", function()
      local seen = {}
      local function listener(name, answers)
        return agent(name, { model = function(request)
          seen[#seen + 1] = name .. ": " .. heard(request)
          coroutine.yield()
          return answers and table.remove(answers, 1) or name
        end })
      end
      local function twice(name, child)
        return moonpad.loopAgent { name = name, maxIterations = 2, subAgents = { child } }
      end
      run(moonpad.sequentialAgent { name = "S", subAgents = {
        listener "First",
        -- A branch whose name begins like another's.
        parallel(twice("b", listener "B"), twice("bc", listener "C")),
        listener "Last",
      } })
      table.sort(seen)
      assert.same({
        "B: go|[First] said: First", "B: go|[First] said: First|B",
        "C: go|[First] said: First", "C: go|[First] said: First|C",
        "First: go",
        "Last: go|[First] said: First|[B] said: B|[C] said: C|[B] said: B|[C] said: C",
      }, seen)
    end)

    it("of a nested branch holds what was said above it", function()
      local seen
      run(parallel(moonpad.sequentialAgent { name = "S", subAgents = {
        agent "Above",
        moonpad.parallelAgent { name = "Q", subAgents = {
          agent "Beside", agent("X", { model = function(request) seen = heard(request) return "x" end }),
        } },
      } }))
      assert.equal("go|[Above] said: Above", seen)
    end)
  end)

  describe("a failure", function()
    it("of one stops the others, which hear of it where they wait; the session can be used at once", function()
      local heard, closed
      local function waiting(_, context)
        local _ <close> = setmetatable({}, { __close = function() closed = true end })
        context.state.half = 1
        local ok, err = pcall(coroutine.yield)
        heard = { ok, err.code }
        error(err, 0)
      end
      local runner = runnerOf(parallel(
        agent("A", {
          model = moonpad.models.scripted { support.calls { "wait", {} } },
          tools = { { name = "wait", run = waiting } },
        }),
        agent("B", { model = function() coroutine.yield() error "broken" end }),
        agent("C", { model = function() while true do coroutine.yield() end end })
      ))
      local err = failure(support.run, runner, "go")
      assert.equal("model", err.code)
      assert.matches("broken", err.message)
      assert.same({ false, "cancelled" }, heard)
      assert.is_true(closed)
      local session = support.stored(service)
      assert.is_nil(session.state.half)
      assert.equal(2, #session.events)
      assert.equal(0, #support.run(runnerOf(moonpad.parallelAgent { name = "P" }), "again"))
    end)

    it("of the first one keeps the others from beginning", function()
      local began = false
      local err = failure(run, parallel(
        custom("A", function() error({ message = "broken" }) end),
        agent("B", { beforeAgentCallback = function() began = true end })
      ))
      assert.equal("broken", err.message)
      assert.is_false(began)
    end)

    it("has a traceback that shows where it was", function()
      local function culprit() error "broken" end
      local invocation = runnerOf(parallel(custom("A", function() culprit() end))):start {
        userId = "u", sessionId = "s", newMessage = "go",
      }
      failure(invocation.wait, invocation)
      assert.matches("parallel_spec.lua:%d+: in upvalue 'culprit'", invocation.traceback)
    end)

    it("can be caught by a custom agent around them, whose run goes on", function()
      local kept
      local root = moonpad.customAgent { name = "Root", run = function(context)
        local ok, err = pcall(context.runAgent, context, "P")
        assert.is_false(ok)
        context.state.problem = err.message
        context:emit "I went on."
      end, subAgents = { parallel(
        custom("A", function(inner)
          inner.state.lost, kept = 1, inner.state
          coroutine.yield()
          coroutine.yield()
        end),
        custom("B", function() coroutine.yield() error({ message = "broken" }) end)
      ) } }
      local events = run(root)
      assert.equal("I went on.", events[1]:text())
      assert.same({ problem = "broken" }, support.stored(service).state:getAll())
      assert.matches("its agent has been stopped", failure(function() kept.x = 1 end).message)
    end)

    it("leaves out what a cancelled run had not stored", function()
      local heard, waits
      local runner = runnerOf(parallel(
        custom("A", function(context)
          context:emit "first"
          context.state.lost = 1
        end),
        agent("B", { model = function()
          waits = true
          local ok, err
          repeat ok, err = pcall(coroutine.yield) until not ok
          heard = err.code
          error(err, 0)
        end })
      ))
      for event in runner:run { userId = "u", sessionId = "s", newMessage = "go" } do
        if event:text() == "first" then break end
      end
      local session = support.stored(service)
      assert.equal(2, #session.events)
      assert.is_nil(session.state.lost)
      local invocation = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
      assert.equal("first", support.step(invocation):text())
      waits = false
      repeat invocation:step() until waits
      invocation:cancel()
      assert.equal("cancelled", heard)
      assert.is_nil(invocation:step())
    end)
  end)

  it("inside a loop is left after all branches are done", function()
    local events = run(moonpad.loopAgent { name = "L", subAgents = { parallel(
      agent("A", { afterModelCallback = function(context) context:escalate() end }), agent "B"
    ) } })
    assert.equal(2, #events)
  end)
end)
