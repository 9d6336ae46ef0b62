-- What a user of ADK counts on, as far as the other specs of agents do not say it already.
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

local function text(words, role)
  return { role = role or "user", parts = { { text = words } } }
end

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  local function agent(fields)
    local definition = { name = "A", model = function() return "hello" end }
    for name, value in pairs(fields or {}) do definition[name] = value end
    return moonpad.agent(definition)
  end

  local function runnerOf(root, fields)
    local definition = { appName = "app", agent = root, sessionService = service }
    for name, value in pairs(fields or {}) do definition[name] = value end
    return moonpad.runner(definition)
  end

  local function run(root, message, fields)
    return support.run(runnerOf(root, fields), message or "go")
  end

  -- A session with a history; returns what the model of an agent is asked then.
  local function asked(history, fields, root)
    local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
    for _, event in ipairs(history) do service:appendEvent(session, event) end
    local model = moonpad.models.scripted { "ok" }
    local asker = agent(fields)
    asker.model = model
    run(root and root(asker) or asker, "Now")
    return model.requests[1].contents
  end

  describe("events", function()
    it("get ids of their own, all different, and keep one that was given", function()
      local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
      local seen = {}
      for _ = 1, 20 do
        local id = service:appendEvent(session, { author = "x" }).id
        assert.is_nil(seen[id])
        seen[id] = true
      end
      assert.equal("mine", service:appendEvent(session, { author = "x", id = "mine" }).id)
    end)

    it("of one run share its invocation, whoever has written them", function()
      local helper = agent { name = "B", beforeAgentCallback = function(context) context.state.b = 1 end }
      local events = run(moonpad.sequentialAgent { name = "S", subAgents = {
        agent { tools = { { name = "t", run = function() end } },
          model = moonpad.models.scripted { support.calls { "t" }, "done" } }, helper,
      } }, { userId = "u", sessionId = "s", newMessage = "go", stateDelta = { x = 1 } })
      local ids = {}
      for _, event in ipairs(support.stored(service).events) do ids[event.invocationId] = true end
      assert.same({ [events[1].invocationId] = true }, ids)
      assert.equal(5, #events)
    end)

    it("of a run are the caller's own tables: changing one changes no history", function()
      local runner = runnerOf(agent())
      for event in runner:run { userId = "u", sessionId = "s", newMessage = "go" } do
        event.content.parts[1].text, event.actions.stateDelta.x, event.author = "changed", 1, "nobody"
      end
      local stored = support.stored(service).events[2]
      assert.same({ "hello", "A", {} }, { stored:text(), stored.author, stored.actions.stateDelta })
    end)

    it("may carry the marks of an application; a plugin puts them on all that the agents say", function()
      local events = run(agent { outputKey = "out" }, nil, { plugins = { {
        onEvent = function(_, event)
          event.customMetadata = { tenant = 7 }
          return event
        end,
      } } })
      assert.same({ tenant = 7 }, events[1].customMetadata)
      assert.same({ tenant = 7 }, support.stored(service).events[2].customMetadata)
    end)
  end)

  describe("instructions", function()
    local function systemOf(fields, message)
      local model = moonpad.models.scripted { "ok" }
      fields.model = model
      run(agent(fields), message)
      return model.requests[1].systemInstruction
    end

    it("fill in several placeholders, of all scopes", function()
      assert.equal("a=1 b=2 c=3 d=4, {foo:x} and nothing: ", systemOf({
        instruction = "a={a} b={user:b} c={app:c} d={temp:d}, {foo:x} and nothing: {none?}{user:none?}{null}",
      }, { userId = "u", sessionId = "s", newMessage = "go",
        stateDelta = { a = 1, ["user:b"] = 2, ["app:c"] = 3, ["temp:d"] = 4, null = moonpad.null } }))
    end)

    it("of the root may be a function as well, whose text is taken as it is", function()
      local told
      assert.equal("{a} for A\n\nUse {b}.", systemOf {
        globalInstruction = function(context)
          told = { context.agentName, context.session.userId, context.userContent.parts[1].text }
          return "{a} for " .. context.agentName
        end,
        instruction = function() return "Use {b}." end,
      })
      assert.same({ "A", "u", "go" }, told)
    end)

    it("may be added by a plugin, for all agents", function()
      local model = moonpad.models.scripted { "ok" }
      run(agent { instruction = "Be kind.", model = model }, nil, { plugins = { {
        beforeModelCallback = function(_, request)
          request.systemInstruction = "House rules.\n\n" .. request.systemInstruction
        end,
      } } })
      assert.equal("House rules.\n\nBe kind.", model.requests[1].systemInstruction)
    end)

    it("that are a function may wait, and say nothing", function()
      assert.equal("late", systemOf { instruction = function() coroutine.yield() return "late" end })
      assert.is_nil(systemOf { instruction = function() return nil end })
    end)

    it("are given a context that changes nothing at all", function()
      local refused = {}
      systemOf { instruction = function(context)
        for _, change in ipairs {
          function() context.state.x = 1 end, function() context.state:increment "x" end,
          function() context.actions.escalate = true end, function() context:escalate() end,
          function() context:transferToAgent "A" end, function() context:saveArtifact("f", "text") end,
          function() context.invocationId = "other" end,
        } do
          refused[#refused + 1] = failure(change).code
        end
        return "x"
      end }
      assert.equal(7, #refused)
      for _, code in ipairs(refused) do assert.equal("invalid_argument", code) end
    end)
  end)

  describe("callbacks", function()
    it("of a failed model: the error goes on where none answers, the list ends where one does", function()
      local called = {}
      local function noter(name, answer)
        return function() called[#called + 1] = name return answer end
      end
      local function failing() error({ message = "down" }) end
      local err = failure(run, agent { model = failing, onModelErrorCallback = { noter "a", noter "b" } })
      assert.same({ "model", "down" }, { err.code, err.cause.message })
      assert.same({ "a", "b" }, called)
      called = {}
      local events = run(agent { model = failing, onModelErrorCallback = { noter "a", noter("b", "up"), noter "c" } })
      assert.equal("up", events[1]:text())
      assert.same({ "a", "b" }, called)
    end)

    it("around the model run as lists, and the model's answer is that of the last word", function()
      local order = {}
      local events = run(agent {
        beforeModelCallback = { function() order[#order + 1] = "1" end, function() order[#order + 1] = "2" end },
        afterModelCallback = {
          function() order[#order + 1] = "3" end, function() order[#order + 1] = "4" return "changed" end,
          function() order[#order + 1] = "never" end,
        },
      })
      assert.equal("1234", table.concat(order))
      assert.equal("changed", events[1]:text())
    end)

    local function withTool(fields, toolRun)
      fields.tools = { { name = "t", run = toolRun or function(args) return args end } }
      fields.model = moonpad.models.scripted { support.calls { "t", { a = 1, deep = { 1 } }, "c1" }, "done" }
      return agent(fields)
    end

    it("before a tool may change its arguments, but not the call that is stored", function()
      local events = run(withTool { beforeToolCallback = function(_, _, args)
        args.a = 2
        args.deep[1] = 3
      end })
      assert.same({ a = 2, deep = { 3 } }, events[2]:functionResponses()[1].response)
      assert.same({ a = 1, deep = { 1 } }, events[1]:functionCalls()[1].args)
      assert.same({ a = 1, deep = { 1 } }, support.stored(service).events[2]:functionCalls()[1].args)
    end)

    it("after a tool may change its result in place", function()
      local events = run(withTool { afterToolCallback = function(_, _, _, result) result.more = true end })
      assert.same({ a = 1, deep = { 1 }, more = true }, events[2]:functionResponses()[1].response)
    end)

    it("of a failed tool run as a list; where none answers, the model is told", function()
      local called = 0
      local function count() called = called + 1 end
      local events = run(withTool({ onToolErrorCallback = { count, count } }, function() error("broken", 0) end))
      assert.equal(2, called)
      assert.same({ error = "broken" }, events[2]:functionResponses()[1].response)
    end)

    it("see the call that they are about, and share what they write with the tool", function()
      local ids = {}
      local function note(context) ids[#ids + 1] = context.functionCallId end
      local events = run(withTool({ beforeToolCallback = function(context)
        note(context)
        context.state.n = 1
      end, afterToolCallback = function(context)
        note(context)
        context.state.n = context.state.n + 1
      end }, function(_, context)
        note(context)
        context.state.n = context.state.n + 1
      end))
      assert.same({ "c1", "c1", "c1" }, ids)
      assert.same({ n = 3 }, events[2].actions.stateDelta)
    end)

    it("around an agent may wait for something asynchronous", function()
      local polls = 0
      local job = { poll = function()
        polls = polls + 1
        return polls == 3, "found"
      end }
      local events = run(agent { beforeAgentCallback = function(context) context.state.x = context:await(job) end })
      assert.same({ x = "found" }, events[1].actions.stateDelta)
    end)

    it("name agents as they like, but for the user", function()
      assert.equal("User", agent({ name = "User" }).name)
      assert.equal("my agent", agent({ name = "my agent" }).name)
      assert.equal("invalid_argument", failure(agent, { name = "user" }).code)
    end)
  end)

  describe("outputKey", function()
    it("is for what the agent itself has said: the author counts, to the letter", function()
      for _, author in ipairs { "B", "a" } do
        local events = run(agent { outputKey = "out" }, nil, { plugins = { {
          onEvent = function() return { author = author } end,
        } } })
        assert.equal(author, events[1].author)
        assert.same({}, events[1].actions.stateDelta)
      end
    end)

    it("of an agent that hands over stays empty, and that of the other gets the answer", function()
      local other = agent { name = "B", outputKey = "b", model = function() return "from B" end }
      local root = agent { outputKey = "a", subAgents = { other },
        model = function() return support.calls { "transfer_to_agent", { agent_name = "B" } } end }
      run(root)
      assert.same({ b = "from B" }, support.stored(service).state:getAll())
    end)

    it("is what the next agent finds, in its first callback and in its instruction", function()
      local seen
      local model = moonpad.models.scripted { "ok" }
      run(moonpad.sequentialAgent { name = "S", subAgents = {
        agent { outputKey = "draft" },
        agent { name = "B", model = model, instruction = "Improve {draft}.",
          beforeAgentCallback = function(context) seen = context.state.draft end },
      } })
      assert.equal("hello", seen)
      assert.equal("Improve hello.", model.requests[1].systemInstruction)
    end)

    it("does not undo what a tool callback wrote under the key, when the tool's answer is the last word", function()
      local events = run(agent {
        outputKey = "out", tools = { { name = "t", run = function(_, context)
          context.actions.skipSummarization = true
          return "shown"
        end } },
        model = moonpad.models.scripted { support.calls { "t" } },
        afterToolCallback = function(context) context.state.out = "by the callback" end,
      })
      assert.is_true(events[2]:isFinalResponse())
      assert.same({ out = "by the callback" }, events[2].actions.stateDelta)
    end)
  end)

  describe("function calls", function()
    it("without an id are given one, and the model is told it with the answer", function()
      local model = moonpad.models.scripted { support.calls({ "t", { n = 1 } }, { "t", { n = 2 } }), "done" }
      local seen = {}
      local events = run(agent { model = model, tools = { { name = "t", run = function(args, context)
        seen[args.n] = context.functionCallId
        return args
      end } } })
      local calls, responses = events[1]:functionCalls(), events[2]:functionResponses()
      assert.not_equal(calls[1].id, calls[2].id)
      local contents = model.requests[2].contents
      for index = 1, 2 do
        local id = calls[index].id
        assert.matches("^moonpad%-%x+%-", id)
        assert.same({ id, id, id, id }, {
          seen[index], responses[index].id, contents[2].parts[index].functionCall.id,
          contents[3].parts[index].functionResponse.id,
        })
      end
    end)

    it("without arguments are calls with none", function()
      for _, args in ipairs { false, moonpad.null } do
        local call = { functionCall = { name = "t", args = args or nil } }
        local events = run(agent {
          model = moonpad.models.scripted { { content = { parts = { call } } }, "done" },
          tools = { { name = "t", parameters = { type = "object" }, run = function(given)
            return { count = #given, empty = next(given) == nil }
          end } },
        })
        assert.same({ count = 0, empty = true }, events[2]:functionResponses()[1].response)
      end
    end)

    it("side by side leave the state of all of them", function()
      local tools, calls, expected = {}, {}, {}
      for index = 1, 5 do
        local name = "t" .. index
        tools[index] = { name = name, run = function(_, context)
          for _ = 1, 6 - index do coroutine.yield() end
          context.state[name] = index
          context.state:append("order", name)
        end }
        calls[index], expected[name] = { name }, index
      end
      expected.order = { "t5", "t4", "t3", "t2", "t1" } -- the order in which they end
      local events = run(agent {
        tools = tools, model = moonpad.models.scripted { support.calls(table.unpack(calls)), "done" },
      })
      assert.same(expected, events[2].actions.stateDelta)
      assert.same(expected, support.stored(service).state:getAll())
    end)

    it("that fail leave what the others did in place, in one event", function()
      local events = run(agent {
        tools = {
          { name = "good", run = function(_, context) context.state.good = 1 return { ok = true } end },
          { name = "bad", run = function(_, context) context.state.bad = 1 error("no", 0) end },
        },
        model = moonpad.models.scripted { support.calls({ "bad" }, { "good" }), "done" },
      })
      assert.same({ good = 1 }, events[2].actions.stateDelta)
      assert.same({ { error = "no" }, { ok = true } },
        { events[2]:functionResponses()[1].response, events[2]:functionResponses()[2].response })
    end)
  end)

  describe("who goes on with a conversation", function()
    local function speakers(history, root)
      local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
      for _, event in ipairs(history) do service:appendEvent(session, event) end
      return run(root)[1].author
    end

    local function tree(fields)
      local child = { name = "B" }
      for name, value in pairs(fields or {}) do child[name] = value end
      return agent { subAgents = { agent(child), agent { name = "C" } } }
    end

    it("is the root at the beginning, and alone", function()
      assert.equal("A", speakers({}, tree()))
      assert.equal("A", run(agent(), { userId = "u", sessionId = "alone", newMessage = "go" })[1].author)
    end)

    it("is the latest agent that is still there, whatever others have said since", function()
      assert.equal("B", speakers({
        { author = "B", content = text("one", "model") }, { author = "user", content = text "x" },
        { author = "Somebody else", content = text("gone", "model") }, { author = "user", content = text "y" },
      }, tree()))
    end)

    it("is the root when it spoke last", function()
      assert.equal("A", speakers({
        { author = "B", content = text("one", "model") }, { author = "A", content = text("two", "model") },
      }, tree()))
    end)

    it("is the agent whose call is being answered, also where it could not give the conversation back", function()
      local root = tree { disallowTransferToParent = true, tools = { { name = "ask", longRunning = true,
        run = function() end } } }
      local session = service:createSession { appName = "app", userId = "u", sessionId = "s" }
      service:appendEvent(session, { author = "B", longRunningToolIds = { "c1" }, content = { role = "model",
        parts = { { functionCall = { id = "c1", name = "ask", args = {} } } } } })
      service:appendEvent(session, { author = "A", content = text("two", "model") })
      local answer = { functionResponse = { id = "c1", response = { ok = 1 } } }
      local events = run(root, { role = "user", parts = { answer } })
      assert.equal("B", events[1].author)
    end)
  end)

  describe("a run", function()
    it("reads its session once: what others store shows after its own next append, not before", function()
      local seen = {}
      local function look(context) seen[#seen + 1] = tostring(context.state["user:x"]) end
      run(agent {
        beforeAgentCallback = function(context)
          look(context)
          service:updateUserState { appName = "app", userId = "u", state = { x = 1 } }
          look(context)
        end,
        beforeModelCallback = function(context)
          look(context)
          context.state.own = 1
        end,
        afterAgentCallback = look,
      })
      assert.same({ "nil", "nil", "nil", "1" }, seen)
    end)

    it("creates the session that it does not find; rewinding one that is gone is an error", function()
      assert.is_nil(support.stored(service))
      local events = run(agent())
      local session = support.stored(service)
      service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
      local err = failure(service.rewind, service, session, { invocationId = events[1].invocationId })
      assert.equal("not_found", err.code)
    end)

    it("does not store the answer of an agent that was left before it gave one", function()
      local waits = false
      local invocation <close> = runnerOf(agent { model = function()
        waits = true
        coroutine.yield()
        return "never"
      end }):start { userId = "u", sessionId = "s", newMessage = "go" }
      support.stepUntil(invocation, function() return waits end)
      invocation:cancel()
      assert.equal(1, #support.stored(service).events)
    end)
  end)

  describe("agents side by side", function()
    it("stop when one of them fails: what was stored stays, the rest never happens", function()
      local reached, heard = false, nil
      local err = failure(run, moonpad.parallelAgent { name = "P", subAgents = {
        agent { name = "Quick", outputKey = "quick" },
        agent { name = "Failing", model = function()
          for _ = 1, 3 do coroutine.yield() end
          error({ message = "broken" })
        end },
        agent { name = "Slow", model = function()
          local ok, problem = pcall(function()
            for _ = 1, 100 do coroutine.yield() end
          end)
          heard = not ok and problem.code
          if not ok then error(problem, 0) end
          reached = true
          return "late"
        end },
      } })
      assert.equal("broken", err.cause.message)
      assert.same({ "cancelled", false }, { heard, reached })
      assert.same({ quick = "hello" }, support.stored(service).state:getAll())
      assert.equal("hello", run(agent())[1]:text())
    end)
  end)

  describe("rewinding", function()
    local ids
    before_each(function()
      local turn = 0
      local runner = runnerOf(agent { beforeAgentCallback = function(context)
        turn = turn + 1
        context.state.turn = turn
        context.state["only" .. turn] = true
        context.state:append("log", turn)
        context.state["user:turn"] = turn
        if turn == 3 then context.state.only1 = nil end
      end })
      ids = {}
      for index = 1, 3 do ids[index] = support.run(runner, "turn " .. index)[1].invocationId end
    end)

    local function restored(index)
      local session = support.stored(service)
      service:rewind(session, { invocationId = ids[index] })
      return support.stored(service).state:getAll()
    end

    it("before the second turn leaves what the first one left", function()
      assert.same({ turn = 1, only1 = true, log = { 1 }, ["user:turn"] = 3 }, restored(2))
    end)

    it("before the third turn leaves what the first two left, and brings back what the third removed", function()
      assert.same({ turn = 2, only1 = true, only2 = true, log = { 1, 2 }, ["user:turn"] = 3 }, restored(3))
    end)

    it("before the first turn leaves nothing of the session's own", function()
      assert.same({ ["user:turn"] = 3 }, restored(1))
    end)

    it("is exact also from a session object that shows the last event only", function()
      local session = service:getSession { appName = "app", userId = "u", sessionId = "s", numRecentEvents = 1 }
      service:rewind(session, { invocationId = ids[2] })
      assert.same({ turn = 1, only1 = true, log = { 1 }, ["user:turn"] = 3 }, support.stored(service).state:getAll())
      assert.equal(1, session.state.turn)
    end)

    it("hides the turns from the model, and the next turn goes on from there", function()
      restored(2)
      local model = moonpad.models.scripted { "ok" }
      run(agent { model = model }, "again")
      assert.same({ text "turn 1", text("hello", "model"), text "again" }, model.requests[1].contents)
    end)

    it("keeps every version of every file; the events before tell which one was in use", function()
      local artifacts = moonpad.artifactService "memory:"
      local saved = 0
      local runner = runnerOf(agent { beforeAgentCallback = function(context)
        saved = saved + 1
        context:saveArtifact("plan.txt", "plan " .. saved)
      end }, { artifactService = artifacts })
      support.run(runner, "first")
      local second = support.run(runner, "second")[1].invocationId
      service:rewind(support.stored(service), { invocationId = second })
      local version
      for _, event in ipairs(support.stored(service).events) do
        if event.invocationId == second then break end
        version = (event.actions.artifactDelta or {})["plan.txt"] or version
      end
      local name = { appName = "app", userId = "u", sessionId = "s", filename = "plan.txt", version = version }
      assert.same({ 0, "plan 1" }, { version, artifacts:load(name).text })
      name.version = nil
      assert.equal("plan 2", artifacts:load(name).text)
    end)
  end)

  describe("what a model is shown of other agents", function()
    local call = { functionCall = { id = "1", name = "look", args = { at = "sea" } } }
    local response = { functionResponse = { id = "1", name = "look", response = { seen = "ships" } } }

    it("is told in the third person: words, calls and their answers, without thoughts", function()
      local contents = asked {
        { author = "B", content = { role = "model", parts = {
          { text = "hm", thought = true }, { text = "I look." }, call,
        } } },
        { author = "B", content = { role = "user", parts = { response } } },
        { author = "B", content = { role = "model", parts = { { text = "only a thought", thought = true } } } },
      }
      assert.same({
        { role = "user", parts = {
          { text = "For context:" }, { text = "[B] said: I look." },
          { text = '[B] called tool `look` with parameters: {"at":"sea"}' },
        } },
        { role = "user", parts = {
          { text = "For context:" }, { text = '[B] `look` tool returned result: {"seen":"ships"}' },
        } },
        text "Now",
      }, contents)
    end)

    it("keeps pictures as they are", function()
      local image = { inlineData = { mimeType = "image/png", data = "iVBORw0=" } }
      local contents = asked { { author = "B", content = { role = "model", parts = { image } } } }
      assert.same({ { text = "For context:" }, image }, contents[1].parts)
    end)

    it("leaves the agent's own calls as calls", function()
      local contents = asked {
        { author = "A", content = { role = "model", parts = { call } } },
        { author = "A", content = { role = "user", parts = { response } } },
      }
      assert.same({ { role = "model", parts = { call } }, { role = "user", parts = { response } }, text "Now" },
        contents)
    end)

    it("begins with their last words, without history before", function()
      local contents = asked({
        { author = "user", content = text "Old" }, { author = "A", content = text("Old answer", "model") },
      }, { includeContents = "none" }, function(asker)
        return moonpad.sequentialAgent { name = "S", subAgents = {
          agent { name = "B", model = function() return "a draft" end }, asker,
        } }
      end)
      local told = { { text = "For context:" }, { text = "[B] said: a draft" } }
      assert.same({ { role = "user", parts = told } }, contents)
    end)
  end)

  describe("the agent's own thoughts", function()
    it("are no answer: an event that has nothing else is not shown again, and gives no output", function()
      local model = moonpad.models.scripted {
        { content = { parts = { { text = "hm", thought = true } } } }, "ok",
      }
      local runner = runnerOf(agent { model = model, outputKey = "out" })
      local events = support.run(runner, "one")
      assert.equal("", events[1]:text())
      assert.is_nil(support.stored(service).state.out)
      support.run(runner, "two")
      assert.same({ text "one", text "two" }, model.requests[2].contents)
    end)
  end)
end)
