-- What the flow of an agent and its runner promise besides: the rest of what ADK's own tests say.
local moonpad = require "moonpad"
local support = require "spec.support"

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function runnerOf(agent)
    return moonpad.runner { appName = "app", agent = agent, sessionService = service }
  end

  it("calls that are marked as thoughts are run, and kept in the history", function()
    local call = { thought = true, functionCall = { id = "c1", name = "look", args = {} } }
    local model = moonpad.models.scripted { { content = { parts = { call } } }, "done" }
    local agent = moonpad.agent { name = "A", model = model, tools = { { name = "look", run = function() end } } }
    local events = support.run(runnerOf(agent), "go")
    assert.equal(3, #events)
    assert.equal("look", model.requests[2].contents[2].parts[1].functionCall.name)
    assert.equal("look", model.requests[2].contents[3].parts[1].functionResponse.name)
  end)

  it("an answer that ends in the result of executed code is not the last word", function()
    local model = moonpad.models.scripted {
      { content = { parts = { { text = "I compute." }, { codeExecutionResult = { output = "4" } } } } }, "It is 4.",
    }
    local events = support.run(runnerOf(moonpad.agent { name = "A", model = model }), "go")
    assert.same({ false, true }, { events[1]:isFinalResponse(), events[2]:isFinalResponse() })
  end)

  it("the event that answers several calls belongs to the caller's invocation, author and branch", function()
    local tool = { name = "t", run = function() end }
    local agent = moonpad.agent { name = "A", tools = { tool },
      model = moonpad.models.scripted { support.calls({ "t", {}, "1" }, { "t", {}, "2" }), "done" } }
    local events = support.run(runnerOf(moonpad.parallelAgent { name = "P", subAgents = { agent } }), "go")
    assert.same({ events[1].invocationId, "A", "P.A", "user" },
      { events[2].invocationId, events[2].author, events[2].branch, events[2].content.role })
    assert.same({ "1", "2" },
      { events[2]:functionResponses()[1].id, events[2]:functionResponses()[2].id })
  end)

  it("a user cannot call functions", function()
    local runner = runnerOf(moonpad.agent { name = "A", model = function() return "x" end })
    local ok, err = pcall(support.run, runner, { role = "user", parts = { { functionCall = { name = "t" } } } })
    assert.is_false(ok)
    assert.equal("invalid_argument", err.code)
  end)

  it("tools that run side by side need as long as the slowest", function()
    local turns = {}
    local function waiting(name, count)
      return { name = name, run = function()
        for _ = 1, count do
          turns[#turns + 1] = name
          coroutine.yield()
        end
      end }
    end
    local agent = moonpad.agent { name = "A", tools = { waiting("a", 5), waiting("b", 3), waiting("c", 5) },
      model = moonpad.models.scripted { support.calls({ "a", {} }, { "b", {} }, { "c", {} }), "done" } }
    local invocation = runnerOf(agent):start { userId = "u", sessionId = "s", newMessage = "go" }
    repeat until support.step(invocation) == nil
    assert.equal("abcabcabcacac", table.concat(turns))
  end)

  it("one agent may run in several runners and runs at once", function()
    local began = {}
    local agent = moonpad.agent { name = "A", model = function(_, context)
      context.state.n = (context.state.n or 0) + 1
      began[context.session.id] = true
      coroutine.yield()
      return context.session.id
    end }
    local first, second = runnerOf(agent), runnerOf(agent)
    local one = first:start { userId = "u", sessionId = "one", newMessage = "go" }
    local two = second:start { userId = "u", sessionId = "two", newMessage = "go" }
    support.stepUntil(one, function() return began.one end)
    support.stepUntil(two, function() return began.two end)
    assert.same({ "one", "two" }, { support.step(one):text(), support.step(two):text() })
    assert.is_nil(support.step(one))
    assert.is_nil(support.step(two))
  end)
end)
