local moonpad = require "moonpad"
local schema = require "moonpad.schema.validate"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

describe("a tool", function()
  it("is an object whose run can be called directly", function()
    local tool = moonpad.tool { name = "add", description = "adds", run = function(args) return args.a + args.b end }
    assert.equal("add", tool.name)
    assert.equal("adds", tool.description)
    assert.equal("object", tool.parameters.type)
    assert.equal(3, tool.run { a = 1, b = 2 })
  end)

  it("refuses what it does not know and misses what it needs", function()
    local list = { city = { type = "string" } }
    assert.matches('tool "x".parameters: city is no keyword of JSON Schema; arguments stand in `properties`: '
      .. '{ type = "object", properties = { city = ... } }',
      tostring(failure(moonpad.tool, { name = "x", parameters = list, run = print })), 1, true)
    for _, given in ipairs { { additionalProperties = { type = "string" } }, { ["not"] = { type = "string" } }, {} } do
      assert.same(given, moonpad.tool { name = "x", parameters = given, run = print }.parameters)
    end
    assert.matches("did you mean parameters", tostring(failure(moonpad.tool, {
      name = "a", parameter = {}, run = function() end,
    })))
    assert.matches("tool.name", tostring(failure(moonpad.tool, { run = function() end })))
    assert.matches('tool "a".run', tostring(failure(moonpad.tool, { name = "a" })))
  end)
end)

describe("the check of arguments", function()
  local cases = {
    { { type = "string" }, "x", nil },
    { { type = "string" }, 1, "a: expected a string, got 1" },
    { { type = "STRING" }, "x", nil },
    { { type = "integer" }, 3, nil },
    { { type = "integer" }, 3.0, nil },
    { { type = "integer" }, 3.5, "a: expected an integer, got 3.5" },
    { { type = "number" }, 3, nil },
    { { type = "number" }, "3", "a: expected a number, got string" },
    { { type = "boolean" }, moonpad.null, "a: expected a boolean, got null" },
    { { type = "boolean", nullable = true }, moonpad.null, nil },
    { { type = { "string", "null" } }, moonpad.null, nil },
    { { type = { "string", "null" } }, 1, "a: expected a string or a null, got 1" },
    { { type = "array" }, {}, nil },
    { { type = "array" }, moonpad.array {}, nil },
    { { type = "array" }, { x = 1 }, "a: expected an array, got object" },
    { { type = "object" }, moonpad.array {}, "a: expected an object, got array" },
    { { enum = { "x", "y" } }, "y", nil },
    { { enum = { "x", "y" } }, "z", 'a: "z" is not one of "x", "y"' },
    { { minimum = 1, maximum = 3 }, 0, "a: 0 is below the minimum of 1" },
    { { minimum = 1, maximum = 3 }, 4, "a: 4 is above the maximum of 3" },
    { { minLength = 2 }, "é", "a: 1 characters are fewer than 2" },
    { { maxLength = 1 }, "é", nil },
    { { maxLength = 1 }, "ab", "a: 2 characters are more than 1" },
    { { minItems = 1 }, moonpad.array {}, "a: 0 items are fewer than 1" },
    { { items = { { type = "string" }, { type = "integer" } } }, { "x", 1, true }, nil },
    { { items = { { type = "string" }, { type = "integer" } } }, { "x", "y" },
      "a[2]: expected an integer, got string" },
    { { items = false }, { 1 }, "a[1]: nothing is taken here" },
    { { items = { type = "integer" } }, { 1, "x" }, "a[2]: expected an integer, got string" },
    { { properties = { b = { type = "object", properties = { c = { type = "string" } } } } }, { b = { c = 1 } },
      "a.b.c: expected a string, got 1" },
    { { required = { "b" } }, { c = 1 }, "a.b: is required" },
    { { properties = { b = {} }, additionalProperties = false }, { c = 1 }, "a.c: is not known here (known: b)" },
    { { additionalProperties = { type = "string" } }, { c = 1 }, "a.c: expected a string, got 1" },
    { { anyOf = { { type = "string" }, { type = "integer" } } }, 1, nil },
    { { anyOf = { { type = "string" }, { type = "integer" } } }, true,
      "a: expected a string, got boolean (nor does it fit the 1 other forms)" },
  }
  for index, case in ipairs(cases) do
    it(("case %d: %s"):format(index, case[3] or "fits"), function()
      assert.equal(case[3], schema.check(case[1], case[2], "a"))
    end)
  end
end)

support.any_store(function(open)
  -- A runner whose model makes the given calls once, and then says "done".
  local function runnerOf(calls, tools, fields, plugins)
    local model = moonpad.models.scripted { support.calls(table.unpack(calls)), "done", "done" }
    local definition = { name = "A", model = model, tools = tools }
    for name, value in pairs(fields or {}) do definition[name] = value end
    local service = open()
    local runner = moonpad.runner {
      appName = "app", agent = moonpad.agent(definition), sessionService = service, plugins = plugins,
    }
    return runner, service, model
  end

  local function responsesOf(events)
    local found = {}
    for index, response in ipairs(events[2]:functionResponses()) do found[index] = response.response end
    return found
  end

  it("answers a call, and asks the model again with the answer", function()
    local seen
    local runner, service, model = runnerOf({ { "add", { a = 2, b = 3 }, "id1" } }, { {
      name = "add",
      run = function(args, context)
        seen = { context.functionCallId, context.agentName }
        context.state.sum = args.a + args.b
        return { sum = context.state.sum }
      end,
    } })
    local events = support.run(runner, "add")
    assert.equal(3, #events)
    assert.same({ "id1", "A" }, seen)
    assert.equal("A", events[2].author)
    assert.same({ role = "user", parts = { {
      functionResponse = { id = "id1", name = "add", response = { sum = 5 } },
    } } }, events[2].content)
    assert.same({ sum = 5 }, events[2].actions.stateDelta)
    assert.equal("done", events[3]:text())
    assert.equal(3, #model.requests[2].contents)
    assert.same(events[2].content, model.requests[2].contents[3])
    assert.equal(5, support.stored(service).state.sum)
  end)

  it("gives calls without an id one of its own, which is stored", function()
    local runner, service = runnerOf({ { "look" } }, { { name = "look", run = function() return {} end } })
    local events = support.run(runner, "look")
    local id = events[1]:functionCalls()[1].id
    assert.matches("^moonpad%-", id)
    assert.equal(id, events[2]:functionResponses()[1].id)
    assert.equal(id, support.stored(service).events[2]:functionCalls()[1].id)
  end)

  it("wraps what is not an object", function()
    local values = { "text", 7, true, moonpad.null, { "a", "b" } }
    local calls, tools = {}, {}
    for index, value in ipairs(values) do
      calls[index] = { "t" .. index }
      tools[index] = { name = "t" .. index, run = function() return value end }
    end
    calls[6], tools[6] = { "nothing" }, { name = "nothing", run = function() end }
    local responses = responsesOf(support.run((runnerOf(calls, tools)), "go"))
    for index, value in ipairs(values) do assert.same({ result = value }, responses[index]) end
    assert.same({ result = moonpad.null }, responses[6])
  end)

  it("copies a state proxy that a tool returns", function()
    local runner = runnerOf({ { "a" }, { "b" } }, {
      { name = "a", run = function(_, context)
        context.state.cart = { item = "tea" }
        return context.state.cart
      end },
      { name = "b", run = function(_, context)
        context.state.list = { 1, 2 }
        return context.state.list
      end },
    })
    assert.same({ { item = "tea" }, { result = { 1, 2 } } }, responsesOf(support.run(runner, "go")))
  end)

  it("gives a tool a copy of the arguments", function()
    local runner, service = runnerOf({ { "spoil", { list = { 1 } } } }, {
      { name = "spoil", run = function(args) args.list[1] = "spoilt" return {} end },
    })
    support.run(runner, "go")
    assert.same({ list = { 1 } }, support.stored(service).events[2]:functionCalls()[1].args)
  end)

  it("is not disturbed by a caller who changes the events that he gets", function()
    local seen
    local runner = runnerOf({ { "look", { at = "sky" } } }, { {
      name = "look", run = function(args) seen = args.at return {} end,
    } })
    for event in runner:run { userId = "u", sessionId = "s", newMessage = "go" } do
      for _, call in ipairs(event:functionCalls()) do call.name, call.args = "nothing", { at = "ground" } end
      if event.content then event.content.parts = {} end
    end
    assert.equal("sky", seen)
  end)

  describe("a failed tool", function()
    it("is answered with its error, and the traceback is on the event", function()
      local runner, service = runnerOf({ { "fail", {}, "id1" } }, { {
        name = "fail", run = function(_, context)
          context.state.half = true
          context:escalate()
          error("no power", 0)
        end,
      } })
      local events = support.run(runner, "go")
      assert.same({ { error = "no power" } }, responsesOf(events))
      local trace = events[2].customMetadata.toolErrors.id1
      assert.matches("no power", trace)
      assert.matches("stack traceback", trace)
      assert.matches("tools_spec.lua", trace)
      assert.is_nil(support.stored(service).state.half)
      assert.is_nil(events[2].actions.escalate)
      assert.equal("done", events[3]:text())
    end)

    it("tells the message of an error object, or of a table", function()
      local runner = runnerOf({ { "a" }, { "b" }, { "c" } }, {
        { name = "a", run = function(_, context) context.state.x = print end },
        { name = "b", run = function() error { message = "mine" } end },
        { name = "c", run = function() error(setmetatable({}, { __tostring = function() return "own" end })) end },
      })
      local responses = responsesOf(support.run(runner, "go"))
      assert.matches("a function cannot be stored", responses[1].error)
      assert.same({ error = "mine" }, responses[2])
      assert.same({ error = "own" }, responses[3])
    end)

    it("can be answered by an error callback, and the callback after it sees that answer", function()
      local seen
      local failing = { name = "fail", run = function() error("no power", 0) end }
      local runner = runnerOf({ { "fail", { x = 1 } } }, { failing }, {
        onToolErrorCallback = function(context, tool, args, err)
          context.state.rescued = true
          seen = { tool.name, args.x, err }
          return { instead = true }
        end,
        afterToolCallback = function(_, _, _, result) result.checked = true end,
      })
      local events = support.run(runner, "go")
      assert.same({ "fail", 1, "no power" }, seen)
      assert.same({ { instead = true, checked = true } }, responsesOf(events))
      assert.is_nil(events[2].customMetadata)
      assert.same({ rescued = true }, events[2].actions.stateDelta)
    end)

    it("is one that returns what cannot be stored", function()
      local runner, service = runnerOf({ { "bad" } }, { {
        name = "bad", run = function(_, context) context.state.x = 1 return { f = print } end,
      } })
      local events = support.run(runner, "go")
      assert.matches("function", responsesOf(events)[1].error)
      assert.is_nil(support.stored(service).state.x)
    end)

    it("may tell of it in bytes that are no UTF-8: the others are answered all the same", function()
      local own = setmetatable({}, { __tostring = function() return "own caf\xe9" end })
      local runner, service = runnerOf({ { "a", {}, "1" }, { "b", {}, "2" }, { "c", {}, "3" }, { "d", {}, "4" } }, {
        { name = "a", run = function(_, context) context.state.a = 1 return "fine" end },
        { name = "b", run = function() error("cannot open caf\xe9 \xc3\xa9.txt", 0) end },
        { name = "c", run = function() error { message = "\xff" } end },
        { name = "d", run = function() error(own) end },
      })
      local events = support.run(runner, "go")
      assert.same({
        { result = "fine" }, { error = "cannot open caf? \xc3\xa9.txt" }, { error = "?" }, { error = "own caf?" },
      }, responsesOf(events))
      assert.matches("^cannot open caf%? \xc3\xa9.txt\nstack traceback", events[2].customMetadata.toolErrors["2"])
      assert.equal(1, support.stored(service).state.a)
    end)

    it("tells an error callback of it in UTF-8, which may put the words into its answer", function()
      local runner = runnerOf({ { "a", {}, "1" } }, { { name = "a", run = function() error("no caf\xe9", 0) end } }, {
        onToolErrorCallback = function(_, _, _, err) return { error = "failed: " .. tostring(err) } end,
      })
      assert.same({ { error = "failed: no caf?" } }, responsesOf(support.run(runner, "go")))
    end)

    it("may be written in a file whose name is no UTF-8", function()
      local chunk = assert(load("error('no power')", "=caf\xe9.lua"))
      local runner = runnerOf({ { "a", {}, "1" } }, { { name = "a", run = function() chunk() end } })
      local events = support.run(runner, "go")
      assert.same({ { error = "no power" } }, responsesOf(events))
      assert.matches("caf%?.lua:1: no power", events[2].customMetadata.toolErrors["1"])
    end)

    it("may raise an object that fails to say what it is", function()
      local function broken() error "broken" end
      local metatables = {
        { __tostring = broken }, { __tostring = function() return {} end },
        { __index = broken, __len = broken, __pairs = broken },
      }
      local tool = { name = "a", run = function(args) error(setmetatable({}, metatables[args.n])) end }
      local runner = runnerOf({ { "a", { n = 1 } }, { "a", { n = 2 } }, { "a", { n = 3 } } }, { tool })
      for index, response in ipairs(responsesOf(support.run(runner, "go"))) do
        assert.matches(index < 3 and "cannot be shown as text" or "", response.error)
      end
    end)

    it("has a traceback of its own, whatever ids the calls have", function()
      local runner = runnerOf({ { "a", {}, "1" }, { "b", {}, "1" }, { "a" } }, {
        { name = "a", run = function() error("first", 0) end },
        { name = "b", run = function() error("second", 0) end },
      }, {}, { { onEvent = function(_, event)
        local calls = event:functionCalls()
        if #calls == 0 then return nil end
        calls[3].id = nil
        return event
      end } })
      local events = support.run(runner, "go")
      local errors = events[2].customMetadata.toolErrors
      local third = events[1]:functionCalls()[3].id
      assert.matches("^moonpad%-", third)
      assert.matches("^first\n", errors["1"])
      assert.matches("^second\n", errors["1#2"])
      assert.matches("^first\n", errors[third])
      assert.equal(third, events[2]:functionResponses()[3].id)
    end)
  end)

  describe("a call that cannot be made", function()
    it("of an unknown tool is answered with the tools that there are", function()
      local ran = false
      local runner = runnerOf({ { "lok", {}, "id1" } }, { { name = "look", run = function() ran = true end } }, {
        beforeToolCallback = function() ran = true end,
      })
      local events = support.run(runner, "go")
      assert.matches('unknown tool "lok"; available: look', responsesOf(events)[1].error)
      assert.is_string(events[2].customMetadata.toolErrors.id1)
      assert.is_false(ran)
    end)

    it("with bad arguments names the place, and nothing runs", function()
      local ran = false
      local runner = runnerOf({ { "look", { at = { x = "left" } } } }, { {
        name = "look", run = function() ran = true end,
        parameters = {
          type = "object",
          properties = { at = { type = "object", properties = { x = { type = "integer" } } } },
        },
      } }, { beforeToolCallback = function() ran = true end })
      local message = responsesOf(support.run(runner, "go"))[1].error
      assert.matches("at.x: expected an integer, got string", message)
      assert.is_false(ran)
    end)
  end)

  it("a tool that raises nothing has failed all the same", function()
    local asked
    local runner = runnerOf({ { "look" } }, { { name = "look", run = function() error() end } },
      { onToolErrorCallback = function(_, _, _, err) asked = err.code end })
    local events = support.run(runner, "go")
    assert.same({ { error = "it failed without an error value" } }, responsesOf(events))
    assert.equal("tool", asked)
    assert.is_string(next(events[2].customMetadata.toolErrors))
  end)

  it("actions of several calls stand beside each other in their event", function()
    local function asking(name)
      return { name = name, run = function(_, context)
        context.actions.requestedToolConfirmations = { [context.functionCallId] = { hint = name } }
        context.actions.own = { [name] = true }
      end }
    end
    local runner = runnerOf({ { "look", {}, "c1" }, { "listen", {}, "c2" } }, { asking "look", asking "listen" })
    local events = support.run(runner, "go")
    assert.same({ c1 = { hint = "look" }, c2 = { hint = "listen" } }, events[2].actions.requestedToolConfirmations)
    -- Of what moonpad does not know, the later call has the say.
    assert.same({ listen = true }, events[2].actions.own)
  end)

  describe("a wrong write to context.actions", function()
    local cases = {
      { function(actions) actions.skip_summarization = true end,
        "context.actions.skip_summarization: unknown field, did you mean skipSummarization?" },
      { function(actions) actions.Escalate = true end,
        "context.actions.Escalate: unknown field, did you mean escalate?" },
      { function(actions) actions.escalate = "yes" end, "context.actions.escalate: expected a boolean, got string" },
      { function(actions) actions.transferToAgent = 1 end,
        "context.actions.transferToAgent: expected a string, got number" },
      { function(actions) actions.artifactDelta = { "a" } end,
        "context.actions.artifactDelta: expected a table with names as keys, got table" },
      { function(actions) actions.mine = { f = print } end, "context.actions.mine: " },
      { function(actions) actions[1] = true end, "context.actions.1: a name is a string" },
      { function(actions)
        actions.mine = {}
        actions.mine.f = print
      end, "context.actions.mine: " },
    }
    for _, case in ipairs(cases) do
      it("is told to the model: " .. case[2], function()
        local asked
        local runner = runnerOf({ { "look" } }, { {
          name = "look", run = function(_, context)
            context.state.seen = 1
            context.actions.own = { 1 }
            case[1](context.actions)
            return "sea"
          end,
        } }, { onToolErrorCallback = function(_, _, _, err) asked = err.code end })
        local events = support.run(runner, "go")
        local message = responsesOf(events)[1].error
        assert.equal(case[2], message:sub(1, #case[2]))
        assert.equal("invalid_argument", asked)
        assert.same({ stateDelta = {} }, events[2].actions)
        assert.equal("done", events[3]:text())
      end)
    end

    it("is none where it is a field of the host's own, or nil", function()
      local runner = runnerOf({ { "look" } }, { {
        name = "look", run = function(_, context)
          context.actions.own = { 1 }
          context.actions.escalate = true
          context.actions.escalate = nil
          context.actions.skipSummarization = moonpad.null
        end,
      } })
      assert.same({ stateDelta = {}, own = { 1 } }, support.run(runner, "go")[2].actions)
    end)
  end)

  describe("tool callbacks", function()
    it("that spoil the arguments: the tool does not run, and the model is told", function()
      local ran, asked = false, nil
      local runner = runnerOf({ { "look", { n = 1 } } }, { {
        name = "look", run = function() ran = true end,
        parameters = { type = "object", properties = { n = { type = "integer" } } },
      } }, {
        beforeToolCallback = function(_, _, args) args.n = "one" end,
        onToolErrorCallback = function(_, _, _, err) asked = err.code end,
      })
      assert.equal("look: bad arguments after beforeToolCallback: n: expected an integer, got string",
        responsesOf(support.run(runner, "go"))[1].error)
      assert.same({ false, "tool" }, { ran, asked })
    end)

    it("come before and after the tool, see its arguments and its result, and can answer in its place", function()
      local order = {}
      local tools = { { name = "look", run = function(args) order[#order + 1] = "tool " .. args.at return "seen" end } }
      local runner = runnerOf({ { "look", { at = "sky" } } }, tools, {
        beforeToolCallback = function(_, tool, args) order[#order + 1] = tool.name args.at = "sea" end,
        afterToolCallback = function(_, _, args, result)
          order[#order + 1] = args.at .. " " .. result
          return { answer = result }
        end,
      })
      assert.same({ { answer = "seen" } }, responsesOf(support.run(runner, "go")))
      assert.same({ "look", "tool sea", "sea seen" }, order)
      local skipped = runnerOf({ { "look", { at = "sky" } } }, tools, {
        beforeToolCallback = function() return { cached = true } end,
        afterToolCallback = function(_, _, _, result) result.after = true end,
      })
      assert.same({ { cached = true, after = true } }, responsesOf(support.run(skipped, "go")))
      assert.equal(3, #order)
    end)

    it("that raise nothing end the run with an error that says so", function()
      local runner = runnerOf({ { "a" } }, { { name = "a", run = function() end } },
        { afterToolCallback = function() error() end })
      local err = failure(support.run, runner, "go")
      assert.same({ "tool", "a callback or agent of the run: it failed without an error value" },
        { err.code, err.message })
    end)

    it("that fail end the run, and nothing of the calls is stored", function()
      local runner, service = runnerOf({ { "a" }, { "b" } }, {
        { name = "a", run = function(_, context) context.state.a = 1 end },
        { name = "b", run = function() end },
      }, { afterToolCallback = function(_, tool) if tool.name == "b" then error("callback", 0) end end })
      assert.equal("callback", failure(support.run, runner, "go"))
      local session = support.stored(service)
      assert.equal(2, #session.events)
      assert.is_nil(session.state.a)
    end)
  end)

  it("runs the calls of one answer side by side, and answers in call order", function()
    local order = {}
    local function tool(name, waits)
      return { name = name, run = function()
        for _ = 1, waits do
          order[#order + 1] = name
          coroutine.yield()
        end
        return { from = name }
      end }
    end
    local runner = runnerOf({ { "slow" }, { "fast" } }, { tool("slow", 3), tool("fast", 1) })
    local events = support.run(runner, "go")
    assert.same({ "slow", "fast", "slow", "slow" }, order)
    assert.same({ { from = "slow" }, { from = "fast" } }, responsesOf(events))
    assert.equal(3, #events)
  end)

  it("ends the run with the answer of a tool that says skipSummarization", function()
    local runner, _, model = runnerOf({ { "look" } }, { {
      name = "look", run = function(_, context) context.actions.skipSummarization = true return { seen = 1 } end,
    } })
    local events = support.run(runner, "go")
    assert.equal(2, #events)
    assert.is_true(events[2]:isFinalResponse())
    assert.equal(1, #model.requests)
  end)

  it("answers calls of a later request that a cancelled run left open", function()
    local runner, _, model = runnerOf({ { "look", {}, "id1" } }, { { name = "look", run = function() return {} end } })
    local started <close> = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
    assert.equal("id1", support.step(started):functionCalls()[1].id)
    started:cancel()
    support.run(runner, "again")
    assert.same({ role = "user", parts = { {
      functionResponse = { id = "id1", name = "look", response = { error = "cancelled" } },
    } } }, model.requests[2].contents[3])
  end)
end)
