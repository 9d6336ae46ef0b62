-- context:endInvocation(): the event of this callback or tool still goes out, nothing new begins.
local moonpad = require "moonpad"
local support = require "spec.support"

local calls = support.calls

-- A model that notes that it was asked.
local function modelOf(asked, name, answers)
  local count = 0
  return function(request, context)
    asked[#asked + 1] = name
    count = count + 1
    local answer = answers[count]
    if type(answer) == "function" then return answer(request, context) end
    return answer
  end
end

local function agentOf(asked, name, fields)
  fields = fields or {}
  fields.name = name
  fields.model = fields.model or modelOf(asked, name, fields.answers or { name .. " says" })
  fields.answers = nil
  return moonpad.agent(fields)
end

local function finish(context)
  context.state.ended = true
  context:endInvocation()
end

describe("context:endInvocation", function()
  support.any_store(function(open)
    local service, asked

    before_each(function()
      service, asked = open(), {}
    end)

    local function runnerOf(agent, plugins)
      return moonpad.runner { appName = "app", agent = agent, sessionService = service, plugins = plugins }
    end

    -- What came out: author and text of each event.
    local function said(agent, plugins)
      local lines = {}
      for _, event in ipairs(support.run(runnerOf(agent, plugins), "Hi")) do
        lines[#lines + 1] = event.author .. ": " .. event:text()
      end
      return lines
    end

    local function isEnded() return support.stored(service).state.ended end

    it("lets the answer of a tool out, and asks no model about it", function()
      local stop = moonpad.tool { name = "stop", run = function(_, context)
        finish(context)
        return { done = true }
      end }
      local other = moonpad.tool { name = "other", run = function(_, context) context.state.other = true end }
      local events = support.run(runnerOf(agentOf(asked, "clerk", {
        tools = { stop, other }, answers = { calls({ "stop", {} }, { "other", {} }), "never" },
      })), "Hi")
      assert.are.same({ "clerk" }, asked)
      assert.are.equal(2, #events)
      assert.are.same({ done = true }, events[2]:functionResponses()[1].response)
      assert.are.equal("other", events[2]:functionResponses()[2].name)
      assert.is_true(isEnded())
      assert.is_true(support.stored(service).state.other)
    end)

    it("holds where the tool fails afterwards, whose state is taken back", function()
      local stop = moonpad.tool { name = "stop", run = function(_, context)
        finish(context)
        error "broken"
      end }
      local events = support.run(runnerOf(agentOf(asked, "clerk", {
        tools = { stop }, answers = { calls { "stop", {} }, "never" },
      })), "Hi")
      assert.are.same({ "clerk" }, asked)
      assert.is_truthy(events[2]:functionResponses()[1].response.error:find("broken", 1, true))
      assert.is_nil(isEnded())
    end)

    it("in beforeAgentCallback keeps the agent from beginning, and all after it", function()
      local agent = moonpad.sequentialAgent { name = "flow", subAgents = {
        agentOf(asked, "one", { beforeAgentCallback = finish }), agentOf(asked, "two"),
      } }
      assert.are.same({ "one: " }, said(agent))
      assert.are.same({}, asked)
      assert.is_true(isEnded())
    end)

    it("in beforeAgentCallback lets its answer out", function()
      local agent = moonpad.sequentialAgent { name = "flow", subAgents = {
        agentOf(asked, "one", { beforeAgentCallback = function(context)
          finish(context)
          return "Closed."
        end }), agentOf(asked, "two"),
      } }
      assert.are.same({ "one: Closed." }, said(agent))
    end)

    it("in beforeModelCallback keeps the model from being asked, and stores the state", function()
      local agent = agentOf(asked, "clerk", { beforeModelCallback = finish })
      assert.are.same({ "clerk: " }, said(agent))
      assert.are.same({}, asked)
      assert.is_true(isEnded())
    end)

    it("in beforeModelCallback without a change makes no event", function()
      assert.are.same({}, said(agentOf(asked, "clerk", {
        beforeModelCallback = function(context) context:endInvocation() end,
      })))
      assert.are.same({}, asked)
    end)

    it("in afterModelCallback lets the answer out and calls no tool", function()
      local count = 0
      local look = moonpad.tool { name = "look", run = function() count = count + 1 end }
      local agent = agentOf(asked, "clerk", {
        tools = { look }, answers = { calls { "look", {}, "c1" }, "again" },
        afterModelCallback = function(context)
          if #asked == 1 then finish(context) end
        end,
      })
      local runner = runnerOf(agent)
      local events = support.run(runner, "Hi")
      assert.are.equal(1, #events)
      assert.are.equal("look", events[1]:functionCalls()[1].name)
      assert.are.equal(0, count)
      -- The next run goes on, and tells the model of the call that was not made.
      assert.are.equal("again", support.run(runner, "More")[1]:text())
    end)

    it("in a model lets what it answers out", function()
      local agent = agentOf(asked, "clerk", { answers = { function(_, context)
        finish(context)
        return "Bye."
      end } })
      local after = 0
      local outer = moonpad.sequentialAgent { name = "flow", subAgents = { agent },
        afterAgentCallback = function() after = after + 1 end }
      assert.are.same({ "clerk: Bye." }, said(outer))
      assert.are.equal(0, after)
      assert.is_true(isEnded())
    end)

    it("skips the afterAgentCallbacks, and no later run", function()
      local after, isFirst = 0, true
      local agent = agentOf(asked, "clerk", {
        answers = { "one", "two" },
        afterModelCallback = function(context)
          if isFirst then context:endInvocation() end
          isFirst = false
        end,
        afterAgentCallback = function() after = after + 1 end,
      })
      local runner = runnerOf(agent)
      support.run(runner, "Hi")
      assert.are.equal(0, after)
      support.run(runner, "Hi")
      assert.are.equal(1, after)
    end)

    it("leaves all loops", function()
      local rounds = 0
      local inner = moonpad.loopAgent { name = "inner", subAgents = {
        moonpad.customAgent { name = "worker", run = function(context)
          rounds = rounds + 1
          if rounds == 2 then finish(context) end
        end },
        agentOf(asked, "two"),
      }, maxIterations = 5 }
      local agent = moonpad.loopAgent { name = "outer", subAgents = { inner, agentOf(asked, "three") },
        maxIterations = 5 }
      said(agent)
      assert.are.equal(2, rounds)
      assert.are.same({ "two" }, { asked[1] })
      assert.are.equal(1, #asked)
    end)

    it("lets the agent that is handed the conversation wait for the next message, whoever hands it over", function()
      local function hand(context)
        context:transferToAgent "other"
        context:endInvocation()
      end
      for _, hook in ipairs { "beforeAgentCallback", "beforeModelCallback", "afterModelCallback" } do
        local agent = agentOf(asked, "desk", { [hook] = hand, subAgents = { agentOf(asked, "other") } })
        local message = { userId = "u", sessionId = hook, newMessage = "Hi" }
        for _, event in ipairs(support.run(runnerOf(agent), message)) do
          assert.are.equal("desk", event.author, hook)
        end
        assert.are.equal("other", support.run(runnerOf(agent), message)[1].author, hook)
        asked[#asked] = nil
      end
      local tool = moonpad.tool { name = "hand", run = function(_, context) hand(context) end }
      local agent = agentOf(asked, "desk", {
        tools = { tool }, answers = { calls { "hand", {} } }, subAgents = { agentOf(asked, "other") },
      })
      assert.are.equal(2, #support.run(runnerOf(agent), "Hi"))
      for _, name in ipairs(asked) do assert.are.equal("desk", name) end
    end)

    it("lets the other branches of a parallel agent finish what is under way, and begin nothing", function()
      local isOpen, isEnding = false, false
      local quick = agentOf(asked, "quick", { answers = { function(_, context)
        repeat coroutine.yield() until isOpen
        context:endInvocation()
        isEnding = true
        return "enough"
      end } })
      local slow = agentOf(asked, "slow", {
        tools = { moonpad.tool { name = "look", run = function() error "must not be called" end } },
        answers = { function()
          isOpen = true
          repeat coroutine.yield() until isEnding
          return calls { "look", {} }
        end, "never" },
        afterAgentCallback = function() error "must not be called" end,
      })
      local agent = moonpad.parallelAgent { name = "team", subAgents = {
        quick, slow, moonpad.sequentialAgent { name = "line", subAgents = {
          moonpad.customAgent { name = "waits", run = function() repeat coroutine.yield() until isEnding end },
          agentOf(asked, "third"),
        } },
      } }
      local authors = {}
      for _, event in ipairs(support.run(runnerOf(agent), "Hi")) do
        authors[event.author] = (authors[event.author] or 0) + 1
      end
      assert.are.same({ quick = 1, slow = 1 }, authors)
      assert.are.same({ "quick", "slow" }, asked)
    end)

    it("keeps branches that come later from beginning", function()
      local agent = moonpad.parallelAgent { name = "team", subAgents = {
        agentOf(asked, "first", { beforeAgentCallback = finish }), agentOf(asked, "second"),
      } }
      assert.are.same({ "first: " }, said(agent))
      assert.are.same({}, asked)
    end)

    it("in a custom agent lets it say more, and run no other agent", function()
      local final = "not asked"
      local other = agentOf(asked, "other")
      local agent = moonpad.customAgent { name = "host", subAgents = { other }, run = function(context)
        context:emit "before"
        finish(context)
        final = context:runAgent(other)
        context:emit "after"
      end }
      assert.are.same({ "host: before", "host: ", "host: after" }, said(agent))
      assert.is_nil(final)
      assert.are.same({}, asked)
      assert.is_true(isEnded())
    end)

    it("in the run of an agent that is a tool ends that run alone", function()
      local inner = agentOf(asked, "inner", { answers = { "inner says", "never" },
        afterModelCallback = function(context) context:endInvocation() end })
      local agent = agentOf(asked, "outer", {
        tools = { moonpad.agentTool { agent = inner } },
        answers = { calls { "inner", { request = "Go" } }, "done" },
      })
      local lines = said(agent)
      assert.are.equal("outer: done", lines[#lines])
      assert.are.same({ "outer", "inner", "outer" }, asked)
    end)

    it("in the hooks of plugins keeps the agents from running; afterRun is asked all the same", function()
      for _, hook in ipairs { "onUserMessage", "beforeRun" } do
        local after = 0
        local plugin = { [hook] = finish, afterRun = function() after = after + 1 end }
        said(agentOf(asked, "clerk"), { plugin })
        assert.are.equal(1, after, hook)
        assert.are.same({}, asked, hook)
      end
      assert.is_true(isEnded())
    end)

    it("lets nobody go on whom afterRun hands over to", function()
      local agent = agentOf(asked, "desk", { subAgents = { agentOf(asked, "other") } })
      said(agent, { { afterRun = function(context)
        context:transferToAgent "other"
        context:endInvocation()
      end } })
      assert.are.same({ "desk" }, asked)
    end)

    it("works in a run that is stepped", function()
      local stop = moonpad.tool { name = "stop", run = function(_, context)
        coroutine.yield()
        finish(context)
        coroutine.yield()
        return "ok"
      end }
      local invocation = runnerOf(agentOf(asked, "clerk", {
        tools = { stop }, answers = { calls { "stop", {} }, "never" },
      })):start { userId = "u", sessionId = "s", newMessage = "Hi" }
      assert.are.equal("stop", support.step(invocation):functionCalls()[1].name)
      assert.are.equal("stop", support.step(invocation):functionResponses()[1].name)
      assert.is_nil(support.step(invocation))
      assert.is_true(isEnded())
    end)
  end)

  it("is refused where it would do nothing", function()
    local kept
    local agent = moonpad.agent { name = "clerk", model = function() return "Hello" end,
      instruction = function(context)
        local ok, err = pcall(context.endInvocation, context)
        assert.is_false(ok)
        assert.are.equal("invalid_argument", err.code)
        return nil
      end,
      beforeAgentCallback = function(context)
        kept = context
        local ok, err = pcall(context.endInvocation)
        assert.is_false(ok)
        assert.is_truthy(err.message:find("with a colon", 1, true))
      end }
    local runner = moonpad.runner { appName = "app", agent = agent, sessionService = moonpad.open "memory:" }
    assert.are.equal("Hello", support.run(runner, "Hi")[1]:text())
    local ok, err = pcall(kept.endInvocation, kept)
    assert.is_false(ok)
    assert.is_truthy(err.message:find("has ended", 1, true))
  end)

  it("can be called with a context of moonpad.testing", function()
    require("moonpad.testing").toolContext():endInvocation()
  end)
end)
