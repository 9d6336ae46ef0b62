-- The callbacks of one agent, its outputKey, and plugins beside them. (All their
-- orders: plugins_spec.)
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

local function anAgent(fields)
  local definition = { name = "Greeter", model = function() return "Hello!" end }
  for name, value in pairs(fields or {}) do definition[name] = value end
  return moonpad.agent(definition)
end

support.any_store(function(open)
  local function runnerOf(fields, runnerFields)
    local definition = { appName = "app", agent = anAgent(fields), sessionService = open() }
    for name, value in pairs(runnerFields or {}) do definition[name] = value end
    return moonpad.runner(definition), definition.sessionService
  end

  describe("callbacks around the agent", function()
    it("put what they change on an event of their own, before and after", function()
      local runner = runnerOf {
        beforeAgentCallback = function(context) context.state.before = 1 end,
        afterAgentCallback = function(context) context.state["user:after"] = context.state.before + 1 end,
      }
      local events = support.run(runner, "Hi")
      assert.equal(3, #events)
      assert.same({ before = 1 }, events[1].actions.stateDelta)
      assert.is_nil(events[1].content)
      assert.is_false(events[1]:isFinalResponse())
      assert.same({ ["user:after"] = 2 }, events[3].actions.stateDelta)
    end)

    it("make no event when they change nothing", function()
      local runner = runnerOf { beforeAgentCallback = function(context) return context.state.nothing end }
      assert.equal(1, #support.run(runner, "Hi"))
    end)

    it("make an event for anything that they changed, be it escalate or a temp: key", function()
      local runner, service = runnerOf {
        beforeAgentCallback = function(context) context:escalate() end,
        afterAgentCallback = function(context) context.state["temp:x"] = 1 end,
      }
      local events = support.run(runner, "Hi")
      assert.equal(3, #events)
      assert.is_true(events[1].actions.escalate)
      assert.is_nil(support.stored(service).state["temp:x"])
    end)

    it("answer for the agent, which does not run then; outputKey does not get the answer", function()
      local called = false
      local runner, service = runnerOf {
        outputKey = "reply",
        model = function() called = true return "no" end,
        beforeAgentCallback = function() return "Closed today." end,
        afterAgentCallback = function() called = true end,
      }
      local events = support.run(runner, "Hi")
      assert.equal(1, #events)
      assert.equal("Closed today.", events[1]:text())
      assert.is_false(called)
      assert.is_nil(support.stored(service).state.reply)
    end)

    it("add an answer after the agent's", function()
      local runner = runnerOf { afterAgentCallback = function()
        return { role = "model", parts = { { text = "Anything else?" } } }
      end }
      local events = support.run(runner, "Hi")
      assert.equal("Anything else?", events[2]:text())
    end)

    it("run as a list until one answers", function()
      local ran = {}
      local function callback(name, answer)
        return function() ran[#ran + 1] = name return answer end
      end
      local runner = runnerOf { beforeAgentCallback = { callback("a"), callback("b", "stop"), callback("c", "never") } }
      assert.equal("stop", support.run(runner, "Hi")[1]:text())
      assert.same({ "a", "b" }, ran)
    end)

    it("that fail end the run with the very error, and what they wrote is rolled back", function()
      local mine = { reason = "mine" }
      local runner, service = runnerOf { beforeAgentCallback = function(context)
        context.state.half = true
        error(mine)
      end }
      assert.equal(mine, failure(support.run, runner, "Hi"))
      assert.is_nil(support.stored(service).state.half)
      assert.equal(1, #support.stored(service).events)
    end)
  end)

  describe("callbacks around the model", function()
    it("put what they write on the model's event, exactly once", function()
      local runner = runnerOf {
        beforeModelCallback = function(context) context.state.before = 1 end,
        model = function(_, context)
          context.state.during = context.state.before
          return coroutine.wrap(function() coroutine.yield "a" coroutine.yield "b" end)
        end,
        afterModelCallback = function(context) context.state.after = (context.state.after or 0) + 1 end,
      }
      local events = support.run(runner, "Hi")
      assert.equal(3, #events)
      assert.same({}, events[1].actions.stateDelta)
      assert.same({ before = 1, during = 1, after = 3 }, events[3].actions.stateDelta)
    end)

    it("may change the request, or answer in the model's place", function()
      local seen
      local runner = runnerOf {
        model = function(request) seen = request.systemInstruction return "model" end,
        beforeModelCallback = function(_, request)
          request.systemInstruction = "changed"
          if request.contents[#request.contents].parts[1].text == "skip" then return "callback" end
        end,
        afterModelCallback = function(_, response)
          assert.equal("model", response.content.parts[1].text)
        end,
      }
      assert.equal("model", support.run(runner, "Hi")[1]:text())
      assert.equal("changed", seen)
      assert.equal("callback", support.run(runner, "skip")[1]:text())
    end)

    it("may replace the response", function()
      local runner = runnerOf { afterModelCallback = function(_, response)
        return { content = { parts = { { text = response.content.parts[1].text .. " (checked)" } } } }
      end }
      assert.equal("Hello! (checked)", support.run(runner, "Hi")[1]:text())
    end)

    it("may answer for a model that failed; what they raise is not taken for the model's error", function()
      local seen
      local runner = runnerOf {
        model = function() error "down" end,
        onModelErrorCallback = function(_, request, err)
          seen = { request.contents[1].parts[1].text, tostring(err) }
          return "Sorry."
        end,
      }
      assert.equal("Sorry.", support.run(runner, "Hi")[1]:text())
      assert.equal("Hi", seen[1])
      assert.matches("down", seen[2])
      local asked = false
      local other = runnerOf {
        afterModelCallback = function() error("after", 0) end,
        onModelErrorCallback = function() asked = true return "Sorry." end,
      }
      assert.equal("after", failure(support.run, other, "Hi"))
      assert.is_false(asked)
    end)
  end)

  describe("outputKey", function()
    it("gets the non-thought text of the final event, and nobody else's", function()
      local answers = moonpad.models.scripted {
        { content = { parts = { { text = "let me see" }, { functionCall = { name = "look" } } } } },
        { content = { parts = { { text = "hm", thought = true }, { text = "It is " }, { text = "blue." } } } },
      }
      local runner, service = runnerOf {
        model = answers, outputKey = "user:answer",
        tools = { { name = "look", run = function(_, context) return context.state["user:answer"] == nil end } },
      }
      local events = support.run(runner, "Hi")
      assert.same({}, events[1].actions.stateDelta or {})
      assert.same({ result = true }, events[2]:functionResponses()[1].response)
      assert.same({ ["user:answer"] = "It is blue." }, events[3].actions.stateDelta)
      assert.equal("It is blue.", support.stored(service).state["user:answer"])
    end)

    it("is seen by the callback after the agent", function()
      local seen
      local runner = runnerOf {
        outputKey = "reply", afterAgentCallback = function(context) seen = context.state.reply end,
      }
      support.run(runner, "Hi")
      assert.equal("Hello!", seen)
    end)
  end)

  describe("plugins", function()
    it("come before the agent's callbacks, and see the whole run", function()
      local log = {}
      local function note(name, answer) return function() log[#log + 1] = name return answer end end
      local runner = runnerOf({ beforeModelCallback = note "agent" }, { plugins = { {
        name = "logger", onUserMessage = note "message", beforeRun = note "before", onEvent = note "event",
        beforeModelCallback = note "plugin", afterRun = note "after",
      } } })
      support.run(runner, "Hi")
      assert.same({ "message", "before", "plugin", "agent", "event", "after" }, log)
    end)

    it("may replace the user's message, fields of an event, and the run", function()
      local runner, service = runnerOf({}, { plugins = { {
        onUserMessage = function(context, message)
          context.state.asked = message.parts[1].text
          return "Changed"
        end,
        onEvent = function(_, event) return { id = "other", customMetadata = { seen = event:text() } } end,
      } } })
      local event = support.run(runner, "Hi")[1]
      assert.not_equal("other", event.id)
      assert.same({ seen = "Hello!" }, event.customMetadata)
      assert.equal("Hello!", event:text())
      local session = support.stored(service)
      assert.equal("Changed", session.events[1]:text())
      assert.equal("Hi", session.state.asked)
      local closed = runnerOf({}, { plugins = { { beforeRun = function() return "Closed." end } } })
      local events = support.run(closed, "Hi")
      assert.equal(1, #events)
      assert.same({ "Closed.", "model" }, { events[1]:text(), events[1].author })
    end)

    it("must not misspell a hook", function()
      local err = failure(runnerOf, {}, { plugins = { { beforeModelCallbak = function() end } } })
      assert.matches("beforeModelCallback", tostring(err))
    end)
  end)
end)
