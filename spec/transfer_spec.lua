-- Handing the conversation over within a tree of agents.
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

-- An agent whose model answers "NAME: what it was told last"; `answers` come first, one per call.
local function speaker(name, fields, answers)
  local definition = { name = name, description = "does " .. name }
  for field, value in pairs(fields or {}) do definition[field] = value end
  definition.model = definition.model or function()
    local answer = answers and table.remove(answers, 1)
    return answer or name .. " speaks"
  end
  return moonpad.agent(definition)
end

local function transferTo(name)
  return support.calls { "transfer_to_agent", { agent_name = name } }
end

local function authors(events)
  local list = {}
  for index, event in ipairs(events) do list[index] = event.author end
  return list
end

describe("a tree of agents", function()
  it("has one parent for each agent and every name once", function()
    local child = speaker "B"
    speaker("A", { subAgents = { child } })
    local err = failure(speaker, "C", { subAgents = { child } })
    assert.equal("invalid_argument", err.code)
    assert.matches('"B" belongs to "A" already', tostring(err))
    assert.matches('two agents are called "D"', tostring(failure(speaker, "D", { subAgents = {
      moonpad.sequentialAgent { name = "E", subAgents = { speaker "D" } },
    } })))
    local twice = speaker "F"
    assert.matches('two agents are called "F"', tostring(failure(speaker, "G", { subAgents = { twice, twice } })))
    assert.matches("subAgents%[1%]: expected an agent, got string", tostring(failure(speaker, "H", {
      subAgents = { "x" } })))
    assert.matches("expected a list of agents", tostring(failure(speaker, "H", { subAgents = { x = speaker "I" } })))
    assert.matches("disallowTransferToPeers", tostring(failure(speaker, "H", { disallowTransferToPeers = 1 })))
  end)

  it("does not take the sub-agents of a definition that it has refused", function()
    local child = speaker "B"
    failure(speaker, "A", { subAgents = { child, "x" } })
    assert.equal("A", speaker("A", { subAgents = { child } }).name)
  end)
end)

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function runnerOf(root, fields)
    local definition = { appName = "app", agent = root, sessionService = service }
    for field, value in pairs(fields or {}) do definition[field] = value end
    return moonpad.runner(definition)
  end

  -- The request that the model of the named agent gets, in a tree made by `build(agent)`.
  local function offered(name, build)
    local seen
    local function agent(agentName, fields)
      local own = { instruction = "I am " .. agentName }
      for field, value in pairs(fields or {}) do own[field] = value end
      own.model = function(request, context)
        if context.agentName == name then
          seen = request
          return "done"
        end
        return transferTo(name)
      end
      return speaker(agentName, own)
    end
    support.run(runnerOf(build(agent)), "go")
    for _, tool in ipairs(seen.tools) do
      if tool.name == "transfer_to_agent" then return tool.parameters.properties.agent_name.enum, seen end
    end
    return nil, seen
  end

  describe("the tool transfer_to_agent", function()
    it("is offered with sub-agents, the parent and peers, in this order", function()
      local names, request = offered("B", function(agent)
        return agent("A", { subAgents = { agent("B", { subAgents = { agent "D" } }), agent "C" } })
      end)
      assert.same({ "D", "A", "C" }, names)
      assert.matches("^I am B\n\nYou can hand the conversation over", request.systemInstruction)
      assert.matches("%- D: does D\n%- A: does A\n%- C: does C", request.systemInstruction)
      assert.matches("hand the conversation back to A%.", request.systemInstruction)
    end)

    it("leaves out those that the agent may not go to", function()
      local function tree(fields)
        return function(agent) return agent("A", { subAgents = { agent("B", fields), agent "C" } }) end
      end
      local names, request = offered("B", tree { disallowTransferToParent = true })
      assert.same({ "C" }, names)
      assert.not_matches("back to A", request.systemInstruction)
      assert.same({ "A" }, (offered("B", tree { disallowTransferToPeers = true })))
      names, request = offered("B", tree { disallowTransferToPeers = true, disallowTransferToParent = true })
      assert.is_nil(names)
      assert.equal("I am B", request.systemInstruction)
    end)

    it("is not offered where there is nobody, or where the parent has no model", function()
      assert.is_nil((offered("A", function(agent) return agent "A" end)))
      assert.is_nil((offered("A", function(agent)
        return moonpad.sequentialAgent { name = "S", subAgents = { agent "A" } }
      end)))
    end)

    it("does not reach above the agent of the runner", function()
      local child = speaker "B"
      speaker("A", { subAgents = { child, speaker "C" } })
      local events = support.run(runnerOf(child), "go")
      assert.same({ "B" }, authors(events))
    end)

    it("answers the model when it names somebody else", function()
      local root = speaker("A", { subAgents = { speaker "B" } }, { transferTo "Nobody" })
      local events = support.run(runnerOf(root), "go")
      local response = events[2]:functionResponses()[1].response
      assert.matches("agent_name: \"Nobody\" is not one of \"B\"", response.error)
      assert.same({ "A", "A", "A" }, authors(events))
      assert.is_nil(events[2].actions.transferToAgent)
    end)

    it("can be a tool of the agent's own instead", function()
      local args
      local root = speaker("A", {
        subAgents = { speaker "B" },
        tools = { { name = "transfer_to_agent", run = function(given) args = given end } },
      }, { transferTo "B" })
      local events = support.run(runnerOf(root), "go")
      assert.same({ agent_name = "B" }, args)
      assert.same({ "A", "A", "A" }, authors(events))
    end)
  end)

  describe("a transfer", function()
    it("lets the other agent go on in the same invocation, and is recorded", function()
      local root = speaker("A", { subAgents = { speaker "B" } }, { transferTo "B" })
      local events = support.run(runnerOf(root), "go")
      assert.same({ "A", "A", "B" }, authors(events))
      assert.equal("B", events[2].actions.transferToAgent)
      assert.equal("B speaks", events[3]:text())
      assert.equal(events[1].invocationId, events[3].invocationId)
      assert.equal("B", support.stored(service).events[3].actions.transferToAgent)
    end)

    it("keeps state, temp: included", function()
      local seen
      local root = speaker("A", {
        subAgents = { speaker("B", { beforeModelCallback = function(context)
          seen = { context.state.a, context.state["temp:b"] }
        end }) },
        beforeToolCallback = function(context) context.state.a, context.state["temp:b"] = 1, 2 end,
      }, { transferTo "B" })
      support.run(runnerOf(root), "go")
      assert.same({ 1, 2 }, seen)
    end)

    it("shows the other agent what was said as somebody else's words", function()
      local seen
      local root = speaker("A", {
        subAgents = { speaker("B", { model = function(request) seen = request.contents return "hi" end }) },
      }, { { content = { role = "model", parts = {
        { text = "One moment." }, transferTo("B").content.parts[1],
      } } } })
      support.run(runnerOf(root), "go")
      assert.equal("go", seen[1].parts[1].text)
      assert.equal("For context:", seen[2].parts[1].text)
      assert.equal("[A] said: One moment.", seen[2].parts[2].text)
      assert.matches("%[A%] called tool `transfer_to_agent`", seen[2].parts[3].text)
      assert.equal("user", seen[2].role)
    end)

    it("can go from peer to peer and back to the parent; every agent's callbacks run around what follows", function()
      local order = {}
      local function noted(name, answers, fields)
        fields = fields or {}
        fields.beforeAgentCallback = function() order[#order + 1] = "+" .. name end
        fields.afterAgentCallback = function() order[#order + 1] = "-" .. name end
        return speaker(name, fields, answers)
      end
      local root = noted("A", { transferTo "B" }, { subAgents = {
        noted("B", { transferTo "C" }), noted("C", { transferTo "A" }),
      } })
      local events = support.run(runnerOf(root), "go")
      assert.same({ "A", "A", "B", "B", "C", "C", "A" }, authors(events))
      assert.equal("+A +B +C +A -A -C -B -A", table.concat(order, " "))
    end)

    it("can be asked for by a tool, a model callback and an agent callback", function()
      local function to(name) return function(context) context:transferToAgent(name) end end
      local count = 0
      local function run(fields, answers)
        fields.subAgents = { speaker "B" }
        count = count + 1
        return support.run(runnerOf(speaker("A", fields, answers)), {
          userId = "u", sessionId = "s" .. count, newMessage = "go",
        })
      end
      local look = { { name = "look", run = function(_, context) context:transferToAgent "B" end } }
      assert.same({ "A", "A", "B" }, authors(run({ tools = look }, { support.calls { "look", {} } })))
      assert.same({ "A", "B" }, authors(run { afterModelCallback = to "B" }))
      -- The event of the callback itself, without content.
      local events = run { beforeAgentCallback = to "B" }
      assert.same({ "A", "B" }, authors(events))
      assert.equal("B", events[1].actions.transferToAgent)
      assert.is_nil(events[1].content)
      assert.same({ "A", "A", "B" }, authors(run { afterAgentCallback = to "B" }))
    end)

    it("can be asked for by the hooks of a plugin around the run", function()
      local function to(name) return function(context) context:transferToAgent(name) end end
      for hook, expected in pairs { onUserMessage = { "B" }, beforeRun = { "A", "B" }, afterRun = { "A", "A", "B" } } do
        local runner = runnerOf(speaker("A", { subAgents = { speaker "B" } }), { plugins = { { [hook] = to "B" } } })
        local events = support.run(runner, { userId = "u", sessionId = hook, newMessage = "go" })
        assert.same(expected, authors(events))
      end
    end)

    it("in an event written by hand must name an agent of the tree", function()
      local root = moonpad.customAgent { name = "A", run = function(context)
        context:emit { actions = { transferToAgent = "Nobody" } }
      end }
      local err = failure(support.run, runnerOf(root), "go")
      assert.equal("invalid_argument", err.code)
      assert.matches('"Nobody" is not an agent of this tree; there are A', err.message)
    end)

    it("to nobody, to oneself, or where it is not allowed, is an error at once", function()
      local errors = {}
      local root = speaker("A", { subAgents = {
        speaker("B", {
          disallowTransferToParent = true, disallowTransferToPeers = true,
          beforeModelCallback = function(context)
            for _, name in ipairs { "X", "B", "A", "C" } do
              errors[#errors + 1] = failure(context.transferToAgent, context, name)
            end
            errors[#errors + 1] = failure(context.transferToAgent, context, nil)
          end,
        }), speaker "C",
      } }, { transferTo "B" })
      support.run(runnerOf(root), "go")
      for _, err in ipairs(errors) do assert.equal("invalid_argument", err.code) end
      assert.matches('"X" is not an agent of this tree; there are A, B, C', errors[1].message)
      assert.matches('"B" has the conversation already', errors[2].message)
      assert.matches("disallowTransferToParent", errors[3].message)
      assert.matches("disallowTransferToPeers", errors[4].message)
      assert.matches("expected a string, got nil", errors[5].message)
    end)

    it("without end is stopped by an error", function()
      local function to(name) return function(context) context:transferToAgent(name) end end
      local root = speaker("A", { beforeAgentCallback = to "B", subAgents = {
        speaker("B", { beforeAgentCallback = to "A" }),
      } })
      local err = failure(support.run, moonpad.runner {
        appName = "app", agent = root, sessionService = moonpad.open "memory:",
      }, "go")
      assert.equal("limit", err.code)
    end)

    it("counts all model calls of the run together", function()
      local root = speaker("A", { model = function() return transferTo "B" end, subAgents = {
        speaker("B", { model = function() return transferTo "A" end }),
      } })
      local err = failure(support.run, runnerOf(root, { maxLlmCalls = 5 }), "go")
      assert.equal("limit", err.code)
      local count = 0
      for _, event in ipairs(support.stored(service).events) do count = count + #event:functionCalls() end
      assert.equal(5, count)
    end)
  end)

  describe("the next turn", function()
    local function conversation(root, turns)
      local runner, last = runnerOf(root), nil
      for _ = 1, turns do
        local events = support.run(runner, "go")
        last = events[1].author
      end
      return last
    end

    it("goes on with the agent that spoke last", function()
      assert.equal("B", conversation(speaker("A", { subAgents = { speaker "B" } }, { transferTo "B" }), 2))
    end)

    it("goes back to the root when that agent could not give it back", function()
      assert.equal("A", conversation(speaker("A", {
        subAgents = { speaker("B", { disallowTransferToParent = true }) },
      }, { transferTo "B" }), 2))
      -- Nor could somebody on the way up.
      assert.equal("A", conversation(speaker("A", { subAgents = {
        speaker("B", { disallowTransferToParent = true, subAgents = { speaker "C" } }, { transferTo "C" }),
      } }, { transferTo "B" }), 2))
    end)

    it("always begins with a root that is no agent with a model", function()
      local first = speaker "A"
      assert.equal("A", conversation(moonpad.sequentialAgent { name = "S", subAgents = { first, speaker "B" } }, 2))
    end)

    it("goes to the root from a workflow agent's sub-agent", function()
      local flow = moonpad.sequentialAgent { name = "S", subAgents = { speaker "B" } }
      assert.equal("A", conversation(speaker("A", { subAgents = { flow } }, { transferTo "S" }), 2))
    end)

    it("takes no notice of events that only change state, nor of rewound ones", function()
      local root = speaker("A", {
        subAgents = { speaker "B" }, afterAgentCallback = function(context) context.state.n = 1 end,
      }, { transferTo "B" })
      local runner = runnerOf(root)
      local events = support.run(runner, "one")
      assert.equal("A", events[#events].author)
      assert.equal("B", support.run(runner, "two")[1].author)
      service:rewind(support.stored(service), { invocationId = events[1].invocationId })
      assert.equal("A", support.run(runner, "three")[1].author)
    end)

    it("stays with the agent that has it when a plugin answers before or after a run", function()
      for _, hook in ipairs { "beforeRun", "afterRun" } do
        local words
        local runner = runnerOf(speaker("A", { subAgents = { speaker "B" } }, { transferTo "B" }),
          { plugins = { { [hook] = function() return words end } } })
        local function say(message)
          return authors(support.run(runner, { userId = "u", sessionId = hook, newMessage = message }))
        end
        assert.same({ "A", "A", "B" }, say "one")
        words = "too many questions"
        assert.same(hook == "beforeRun" and { "model" } or { "B", "model" }, say "two")
        words = nil
        assert.same({ "B" }, say "three")
      end
    end)

    it("goes to an agent whose callback has answered for it", function()
      for _, hook in ipairs { "beforeAgentCallback", "afterAgentCallback" } do
        local runner = runnerOf(speaker("A", {
          subAgents = { speaker("B", { [hook] = function() return "by the callback" end }) },
        }, { transferTo "B" }))
        for _, message in ipairs { "one", "two" } do
          local events = support.run(runner, { userId = "u", sessionId = hook, newMessage = message })
          assert.same({ "B", "by the callback" }, { events[#events].author, events[#events]:text() })
        end
        local events = support.run(runner, { userId = "u", sessionId = hook, newMessage = "three" })
        assert.equal("B", events[1].author)
      end
    end)
  end)
end)
