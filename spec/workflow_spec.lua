-- Agents without a model that run others: in sequence and in loops. (Side by side: parallel_spec.)
local core = require "moonpad.core"
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

local function texts(events)
  local list = {}
  for index, event in ipairs(events) do list[index] = event:text() end
  return list
end

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function run(agent, fields)
    local definition = { appName = "app", agent = agent, sessionService = service }
    for name, value in pairs(fields or {}) do definition[name] = value end
    return support.run(moonpad.runner(definition), "go")
  end

  local function agent(name, fields)
    local definition = { name = name, model = function() return name end }
    for field, value in pairs(fields or {}) do definition[field] = value end
    return moonpad.agent(definition)
  end

  describe("sequentialAgent", function()
    it("runs its sub-agents one after the other, each seeing what the ones before have said and written", function()
      local seen
      local events = run(moonpad.sequentialAgent { name = "S", subAgents = {
        agent("A", { outputKey = "draft" }),
        agent("B", { instruction = "Improve <draft>.", model = function(request) seen = request return "B" end }),
      } })
      assert.same({ "A", "B" }, texts(events))
      assert.equal("Improve A.", seen.systemInstruction)
      assert.equal("[A] said: A", seen.contents[2].parts[2].text)
    end)

    it("shows its sub-agents what its own callback wrote, on an event of its own", function()
      local events = run(moonpad.sequentialAgent {
        name = "S", subAgents = { agent("A", { instruction = "By {by}.", model = function(request)
          return request.systemInstruction
        end }) },
        beforeAgentCallback = function(context) context.state.by = context.agentName end,
      })
      assert.same({ "S", "A" }, { events[1].author, events[2].author })
      assert.equal("By S.", events[2]:text())
      assert.equal("S", support.stored(service).state.by)
    end)

    it("goes on when one of them was answered for", function()
      local skipped = agent("A", { beforeAgentCallback = function() return "skipped" end })
      local events = run(moonpad.sequentialAgent { name = "S", subAgents = { skipped, agent "B" } })
      assert.same({ "skipped", "B" }, texts(events))
    end)

    it("refuses an agent with another parent, two of one name, and what is no agent", function()
      local child = agent "Greeter"
      local function message(fields)
        fields.name = "Two"
        return tostring(failure(moonpad.sequentialAgent, fields))
      end
      moonpad.sequentialAgent { name = "One", subAgents = { child } }
      assert.matches("one parent", message { subAgents = { child } })
      assert.matches('two agents are called "Greeter"', message { subAgents = { agent "Greeter", agent "Greeter" } })
      assert.matches("subAgents%[1%]", message { subAgents = { {} } })
      assert.matches("model", message { model = "x" })
    end)

    it("without sub-agents does nothing but its callbacks", function()
      local events = run(moonpad.sequentialAgent {
        name = "S", beforeAgentCallback = function(context) context.state.n = 1 end,
      })
      assert.equal(1, #events)
      assert.equal("S", events[1].author)
      assert.same({ n = 1 }, events[1].actions.stateDelta)
    end)

    it("stops where a sub-agent fails; what was stored before stays", function()
      local bad = agent("B", { model = function(_, context) context.state.lost = 1 error "broken" end })
      local root = moonpad.sequentialAgent { name = "S", subAgents = {
        agent("A", { outputKey = "a" }), bad, agent("C", { outputKey = "c" }),
      } }
      assert.equal("model", failure(run, root).code)
      local state = support.stored(service).state
      assert.same({ a = "A" }, state:getAll())
    end)

    it("goes on when a sub-agent's callback has answered for it, and when one escalates", function()
      local events = run(moonpad.sequentialAgent { name = "S", subAgents = {
        agent("A", { beforeAgentCallback = function() return "instead" end }),
        agent("B", { afterModelCallback = function(context) context:escalate() end }), agent "C",
      } })
      assert.same({ "instead", "B", "C" }, texts(events))
    end)

    it("runs a nested one in its place, in the same invocation", function()
      local events = run(moonpad.sequentialAgent { name = "S", subAgents = {
        agent "A", moonpad.sequentialAgent { name = "T", subAgents = { agent "B" } }, agent "C",
      } })
      assert.same({ "A", "B", "C" }, texts(events))
      assert.equal(events[1].invocationId, events[3].invocationId)
      for _, event in ipairs(events) do assert.is_nil(event.branch) end
    end)
  end)

  describe("loopAgent", function()
    it("runs its sub-agents as many rounds as maxIterations says", function()
      local events = run(moonpad.loopAgent { name = "L", maxIterations = 3, subAgents = { agent "A", agent "B" } })
      assert.same({ "A", "B", "A", "B", "A", "B" }, texts(events))
    end)

    it("takes an integer from 0 as maxIterations", function()
      for _, value in ipairs { -1, 1.5, "3" } do
        local err = failure(moonpad.loopAgent, { name = "L", maxIterations = value })
        assert.equal("invalid_argument", err.code)
        assert.matches("maxIterations", err.message)
      end
    end)

    it("is left when a sub-agent escalates: that one finishes, those behind it do not begin", function()
      for _, limit in ipairs { 0, 10, false } do
        local round = 0
        local events = run(moonpad.loopAgent { name = "L", maxIterations = limit or nil, subAgents = {
          agent("A", {
            afterModelCallback = function(context)
              round = round + 1
              if round == 2 then context:escalate() end
            end,
            afterAgentCallback = function(context) context.state.rounds = round end,
          }), agent "B",
        } })
        assert.same({ "A", "", "B", "A", "" }, texts(events))
        assert.is_true(events[4].actions.escalate)
        assert.equal(2, events[5].actions.stateDelta.rounds)
      end
    end)

    it("is left by an escalation that is all a callback has done", function()
      local events = run(moonpad.loopAgent { name = "L", subAgents = {
        agent("A", { beforeAgentCallback = function(context) context:escalate() end }), agent "B",
      } })
      assert.same({ "", "A" }, texts(events))
      assert.is_true(events[1].actions.escalate)
    end)

    it("is left by the tool exit_loop, without another word of the model", function()
      local model = moonpad.models.scripted { "draft", support.calls { "exit_loop", {} } }
      local events = run(moonpad.loopAgent { name = "L", subAgents = {
        agent("A", { model = model, tools = { moonpad.exitLoop } }),
      } })
      assert.equal(3, #events)
      assert.is_true(events[3].actions.escalate)
      assert.is_true(events[3].actions.skipSummarization)
      assert.is_true(events[3]:isFinalResponse())
      assert.equal(2, #model.requests)
      assert.equal("exit_loop", model.requests[1].tools[1].name)
    end)

    it("is left alone where it stands inside another one", function()
      local events = run(moonpad.loopAgent { name = "Outer", maxIterations = 2, subAgents = {
        moonpad.loopAgent { name = "Inner", subAgents = {
          agent("A", { afterModelCallback = function(context) context:escalate() end }),
        } }, agent "B",
      } })
      assert.same({ "A", "B", "A", "B" }, texts(events))
    end)

    it("without sub-agents ends at once", function()
      assert.equal(0, #run(moonpad.loopAgent { name = "L" }))
    end)

    it("in which nothing happens gives way to others", function()
      local open_, rounds = false, 0
      local runner = moonpad.runner { appName = "app", sessionService = service, agent = moonpad.loopAgent {
        name = "L", subAgents = { moonpad.customAgent { name = "Watch", run = function(context)
          rounds = rounds + 1
          if open_ then context:escalate() end
        end } },
      } }
      local invocation = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
      support.stepUntil(invocation, function() return rounds > 0 end)
      local before = rounds
      for _ = 1, 3 do assert.equal("waiting", invocation:step()) end
      assert.equal(before + 3, rounds)
      open_ = true
      assert.is_true(support.step(invocation).actions.escalate)
      assert.is_nil(support.step(invocation))
    end)

    it("counts model calls over all rounds", function()
      local err = failure(run, moonpad.loopAgent { name = "L", subAgents = { agent "A" } }, { maxLlmCalls = 4 })
      assert.equal("limit", err.code)
      assert.equal(5, #support.stored(service).events)
    end)
  end)

  it("uses the global instruction of the root for every agent, and nobody else's", function()
    local seen = {}
    local function listener(name, fields)
      fields = fields or {}
      fields.model = function(request) seen[name] = request.systemInstruction return name end
      return agent(name, fields)
    end
    local inner = listener("B", { instruction = "I am B.", globalInstruction = "not this" })
    local root = listener("A", { globalInstruction = "Be <mood>.", instruction = "I am A.", subAgents = { inner },
      beforeAgentCallback = function(context) context.state.mood = "kind" end,
      afterAgentCallback = function(context) context:transferToAgent "B" end })
    run(root)
    assert.matches("^Be kind%.\n\nI am A%.\n\nYou can hand", seen.A)
    assert.matches("^Be kind%.\n\nI am B%.\n\nYou can hand", seen.B)
    assert.not_matches("not this", seen.B)
  end)

  describe("waiting", function()
    it("costs no processor time worth mentioning: it looks a few times, and sleeps in between", function()
      -- A machine that is busy makes it look less often.
      local looks, start = 0, core.monotonic()
      local runner = moonpad.runner { appName = "app", sessionService = service, agent = agent("A", {
        model = function()
          while core.monotonic() - start < 0.5 do
            looks = looks + 1
            coroutine.yield()
          end
          return "done"
        end,
      }) }
      local events = support.run(runner, "go")
      assert.equal("done", events[1]:text())
      local most = 10 + (core.monotonic() - start) / 0.005
      assert.is_true(looks < most, ("looked %d times, expected less than %.0f"):format(looks, most))
    end)

    it("with wait(seconds) comes back in time", function()
      local runner = moonpad.runner { appName = "app", sessionService = service, agent = agent("A", {
        model = function() while true do coroutine.yield() end end,
      }) }
      local invocation <close> = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
      local before = core.monotonic()
      assert.equal("waiting", invocation:wait(0.1))
      assert.is_true(core.monotonic() - before >= 0.09)
      assert.equal("waiting", invocation:wait(0))
    end)
  end)
end)
