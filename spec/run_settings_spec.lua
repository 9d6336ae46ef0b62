-- The settings of a single run: maxLlmCalls, streaming, customMetadata, saveInputBlobsAsArtifacts.
local moonpad = require "moonpad"
local openai = require "moonpad.models.openai"
local server = require "spec.support.http"
local support = require "spec.support"
local testing = require "moonpad.testing"

local calls = support.calls

local function optionsOf(more)
  local options = { userId = "u", sessionId = "s", newMessage = "Hi" }
  for name, value in pairs(more or {}) do options[name] = value end
  return options
end

local function runnerOf(service, agent, more)
  local definition = { appName = "app", agent = agent, sessionService = service }
  for name, value in pairs(more or {}) do definition[name] = value end
  return moonpad.runner(definition)
end

local function agentOf(model, fields)
  fields = fields or {}
  fields.name, fields.model = fields.name or "clerk", model
  return moonpad.agent(fields)
end

local function says(text)
  return function() return text end
end

local function fails(action, ...)
  local ok, err = pcall(action, ...)
  assert.is_false(ok)
  return err
end

-- A model that streams, whatever it is asked.
local function streams(...)
  local chunks = { ... }
  return function()
    local index = 0
    return function()
      index = index + 1
      return chunks[index]
    end
  end
end

describe("the settings of a run", function()
  it("are checked before it begins", function()
    local service = moonpad.open "memory:"
    local runner = runnerOf(service, agentOf(says "Hello"))
    local wrong = {
      { "maxLlmCalls", -1, "integer from 0" }, { "maxLlmCalls", 1.0, "integer from 0" },
      { "maxLlmCalls", "1", "integer from 0" }, { "maxLlmCalls", true, "integer from 0" },
      { "streaming", "true", "boolean" }, { "streaming", 1, "boolean" }, { "streaming", moonpad.null, "boolean" },
      { "customMetadata", "x", "named fields" }, { "customMetadata", true, "named fields" },
      { "customMetadata", { 1, 2 }, "named fields" }, { "customMetadata", moonpad.array {}, "named fields" },
      { "customMetadata", { a = { b = print } }, "customMetadata.a.b: a function" },
      { "customMetadata", { a = 0 / 0 }, "NaN" }, { "customMetadata", { [1.5] = 1 }, "key" },
      { "customMetadata", { a = "\xff" }, "UTF-8" },
      { "saveInputBlobsAsArtifacts", 1, "boolean" }, { "saveInputBlobsAsArtifacts", "no", "boolean" },
    }
    for _, case in ipairs(wrong) do
      for _, method in ipairs { "run", "start", "ask" } do
        local err = fails(runner[method], runner, optionsOf { [case[1]] = case[2] })
        assert.are.equal("invalid_argument", err.code, case[1])
        assert.is_truthy(err.message:find("runner:" .. method .. ": " .. case[1], 1, true), err.message)
        assert.is_truthy(err.message:find(case[3], 1, true), err.message)
      end
    end
    local loop = {}
    loop.loop = loop
    assert.are.equal("invalid_argument", fails(runner.ask, runner, optionsOf { customMetadata = loop }).code)
    assert.is_truthy(fails(runner.ask, runner, optionsOf { maxLlmCall = 1 }).message:find("maxLlmCalls", 1, true))
    assert.is_nil(support.stored(service))
  end)
end)

describe("maxLlmCalls of a run", function()
  support.any_store(function(open)
    -- An agent that would go on for ever.
    local function endless(count)
      local look = moonpad.tool { name = "look", run = function() return "nothing" end }
      return agentOf(function()
        count.calls = count.calls + 1
        return calls { "look", {} }
      end, { tools = { look } })
    end

    it("wins over the runner's, in both directions", function()
      local service, count = open(), { calls = 0 }
      local runner = runnerOf(service, endless(count), { maxLlmCalls = 3 })
      for _, case in ipairs { { nil, 3 }, { 1, 1 }, { 5, 5 } } do
        count.calls = 0
        assert.are.equal("limit", fails(runner.ask, runner, optionsOf { maxLlmCalls = case[1] }).code)
        assert.are.equal(case[2], count.calls)
      end
    end)

    it("of 0 is no limit, where the runner has one", function()
      local count = 0
      local runner = runnerOf(open(), agentOf(function()
        count = count + 1
        return count < 10 and calls { "look", {} } or "done"
      end, { tools = { moonpad.tool { name = "look", run = says "nothing" } } }), { maxLlmCalls = 2 })
      assert.are.equal("done", (runner:ask(optionsOf { maxLlmCalls = 0 })))
    end)

    it("holds for agents that are tools, at any depth", function()
      local function tree(count)
        local innermost = endless(count)
        local middle = moonpad.agent { name = "middle", tools = { moonpad.agentTool { agent = innermost } },
          model = function()
            count.calls = count.calls + 1
            return calls { "clerk", { request = "Go" } }
          end }
        return moonpad.agent { name = "outer", tools = { moonpad.agentTool { agent = middle } }, model = function()
          count.calls = count.calls + 1
          return calls { "middle", { request = "Go" } }
        end }
      end
      for _, case in ipairs { { nil, 4, 4 }, { 3, 4, 3 }, { 7, 4, 7 } } do
        local count = { calls = 0 }
        local runner = runnerOf(open(), tree(count), { maxLlmCalls = case[2] })
        assert.are.equal("limit", fails(runner.ask, runner, optionsOf { maxLlmCalls = case[1] }).code)
        assert.are.equal(case[3], count.calls)
      end
    end)
  end)
end)

describe("streaming of a run", function()
  support.any_store(function(open)
    it("is told to models, callbacks and agents that are tools", function()
      for _, streaming in ipairs { "default", true, false } do
        local seen = {}
        local function model(name)
          return function(request)
            seen[#seen + 1] = { name, request.streaming }
            return #seen == 1 and calls { "inner", { request = "Go" } } or "done"
          end
        end
        local inner = agentOf(model "inner", { name = "inner" })
        local agent = agentOf(model "outer", {
          tools = { moonpad.agentTool { agent = inner } },
          beforeModelCallback = function(_, request) seen.inCallback = { request.streaming } end,
        })
        local expected
        if streaming ~= "default" then expected = streaming end
        runnerOf(open(), agent):ask(optionsOf { streaming = expected })
        assert.are.same({
          { "outer", expected }, { "inner", expected }, { "outer", expected }, inCallback = { expected },
        }, seen)
      end
    end)

    local function kinds(runner, streaming)
      local list = {}
      for _, event in ipairs(support.run(runner, optionsOf { streaming = streaming })) do
        list[#list + 1] = (event.partial and "partial " or "") .. event:text()
      end
      return list
    end

    it("false lets no partial event out, whatever the model does", function()
      local asked, seen = 0, 0
      local plugin = { onEvent = function(_, event) seen = seen + (event.partial and 1 or 0) end }
      local agent = agentOf(streams("Hel", "lo"), { afterModelCallback = function() asked = asked + 1 end })
      local runner = runnerOf(open(), agent, { plugins = { plugin } })
      assert.are.same({ "Hello" }, kinds(runner, false))
      assert.are.same({ 1, 0 }, { asked, seen })
      assert.are.same({ "partial Hel", "partial lo", "Hello" }, kinds(runner, nil))
      assert.are.same({ 4, 2 }, { asked, seen })
      assert.are.same({ "partial Hel", "partial lo", "Hello" }, kinds(runner, true))
    end)

    it("false keeps tool calls of a streamed answer", function()
      local look = moonpad.tool { name = "look", run = says "nothing" }
      local count = 0
      local runner = runnerOf(open(), agentOf(function()
        count = count + 1
        if count > 1 then return "done" end
        local call = calls { "look", {} }
        call.partial = true
        return streams("I look. ", call)()
      end, { tools = { look } }))
      local events = support.run(runner, optionsOf { streaming = false })
      assert.are.equal(3, #events)
      assert.are.equal("I look. ", events[1]:text())
      assert.are.equal("look", events[1]:functionCalls()[1].name)
    end)

    it("false lets none of a callback or a custom agent out, either", function()
      local function partial() return { partial = true, content = "piece" } end
      local runner = runnerOf(open(), moonpad.sequentialAgent { name = "flow", subAgents = {
        agentOf(says "Hello", { beforeModelCallback = partial }),
        agentOf(says "Hello", { name = "after", afterModelCallback = partial }),
        moonpad.customAgent { name = "custom", run = function(context)
          assert.is_true(context:emit { partial = true, content = "piece" }.partial)
          context:emit "whole"
        end },
      } })
      assert.are.same({ "whole" }, kinds(runner, false))
      assert.are.same({ "partial piece", "partial piece", "partial piece", "whole" }, kinds(runner, true))
    end)
  end)

  describe("with a model behind HTTP #http", function()
    local web
    setup(function() web = server.start() end)
    teardown(function() web:stop() end)

    local WHOLE = { choices = { { index = 0, finish_reason = "stop", message = { content = "Hello" } } } }
    local CHUNKS = {
      '{"choices":[{"index":0,"delta":{"content":"Hel"}}]}',
      '{"choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":"stop"}]}', "[DONE]",
    }

    it("wins over the model's own setting", function()
      for _, own in ipairs { true, false } do
        for _, streaming in ipairs { "default", true, false } do
          local asked = streaming
          if streaming == "default" then asked = nil end
          local expected = own
          if asked ~= nil then expected = asked end
          web:script { ["/chat/completions"] = {
            expected and server.stream(CHUNKS) or { body = moonpad.json.encode(WHOLE),
              headers = { ["content-type"] = "application/json" } },
          } }
          local model = openai.new { model = "m", apiKey = "key-of-test", baseUrl = web.url, stream = own }
          local events = support.run(runnerOf(moonpad.open "memory:", agentOf(model)), optionsOf { streaming = asked })
          assert.are.equal("Hello", events[#events]:text())
          assert.are.equal(expected and 3 or 1, #events)
          assert.are.equal(expected or nil, web:sent().stream)
        end
      end
    end)

    it("is a boolean in a request that is made by hand", function()
      local model = openai.new { model = "m", apiKey = "key-of-test", baseUrl = web.url }
      local err = fails(model.generate, model, { contents = {}, streaming = "no" })
      assert.are.equal("invalid_argument", err.code)
      assert.is_truthy(err.message:find("streaming", 1, true))
    end)
  end)
end)

describe("customMetadata of a run", function()
  support.any_store(function(open)
    local METADATA = { tenant = "t1", trace = { id = 7 } }

    it("is on every event of the run, and on no other", function()
      local service = open()
      local look = moonpad.tool { name = "look", run = says "nothing" }
      local runner = runnerOf(service, moonpad.sequentialAgent { name = "flow", subAgents = {
        agentOf(moonpad.models.scripted { calls { "look", {} }, function() return streams("do", "ne")() end, "next" },
          { tools = { look }, beforeAgentCallback = function(context) context.state.seen = true end }),
        moonpad.customAgent { name = "custom", run = function(context) context:emit "mine" end },
      } }, { plugins = { { beforeRun = function(context) context.state.run = true end, afterRun = says "bye" } } })
      local seen = support.run(runner, optionsOf { customMetadata = METADATA })
      local partials = 0
      for _, event in ipairs(seen) do
        assert.are.same(METADATA, event.customMetadata)
        partials = partials + (event.partial and 1 or 0)
      end
      assert.are.equal(2, partials)
      local stored = support.stored(service).events
      assert.are.equal("user", stored[1].author)
      assert.are.equal(#seen - partials + 1, #stored)
      for _, event in ipairs(stored) do assert.are.same(METADATA, event.customMetadata) end
      support.run(runner, optionsOf())
      local all = support.stored(service).events
      for index = #stored + 1, #all do assert.is_nil(all[index].customMetadata) end
    end)

    it("gives way to what an event says itself", function()
      local runner = runnerOf(open(), agentOf(function()
        return { content = "Hello", customMetadata = { tenant = "own", more = 1 } }
      end))
      local event = support.run(runner, optionsOf { customMetadata = METADATA })[1]
      assert.are.same({ tenant = "own", more = 1, trace = { id = 7 } }, event.customMetadata)
    end)

    it("stands beside the tracebacks of tools", function()
      local look = moonpad.tool { name = "look", run = function() error "broken" end }
      local runner = runnerOf(open(), agentOf(moonpad.models.scripted { calls { "look", {}, "c1" }, "done" },
        { tools = { look } }))
      local metadata = support.run(runner, optionsOf { customMetadata = METADATA })[2].customMetadata
      assert.are.equal("t1", metadata.tenant)
      assert.is_string(metadata.toolErrors.c1)
    end)

    it("is seen by plugins, who may add to it and cannot take it away", function()
      local seen
      local runner = runnerOf(open(), agentOf(streams("a", "b")), { plugins = { { onEvent = function(_, event)
        seen = event.customMetadata
        return { customMetadata = { added = true } }
      end } } })
      for _, event in ipairs(support.run(runner, optionsOf { customMetadata = METADATA })) do
        assert.are.same({ tenant = "t1", trace = { id = 7 }, added = true }, event.customMetadata)
      end
      assert.are.same(METADATA, seen)
    end)

    it("belongs to the run: later changes of the table, or of an event's, reach nobody", function()
      local given = { list = { 1 } }
      local runner = runnerOf(open(), agentOf(streams("a", "b")))
      local invocation = runner:start(optionsOf { customMetadata = given })
      given.list[1] = 2
      for event in function() return support.step(invocation) end do
        assert.are.same({ list = { 1 } }, event.customMetadata)
        event.customMetadata.list[1] = 3
      end
    end)

    it("goes on an event of state alone, and on none of an agent that is a tool", function()
      local service = open()
      local inside = {}
      local inner = agentOf(says "inner", { name = "inner" })
      local runner = runnerOf(service, agentOf(
        moonpad.models.scripted { calls { "inner", { request = "Go" } }, "done" },
        { tools = { moonpad.agentTool { agent = inner } } }
      ), { plugins = { { onEvent = function(_, event)
        if event.author == "inner" then inside[#inside + 1] = event.customMetadata or "none" end
      end } } })
      support.run(runner, optionsOf { customMetadata = METADATA })
      assert.are.same({ "none" }, inside)
      local alone = runnerOf(service, moonpad.customAgent { name = "mute", run = function() end })
      alone:ask { userId = "u", sessionId = "s", stateDelta = { a = 1 }, customMetadata = METADATA }
      local events = support.stored(service).events
      assert.are.same({ a = 1 }, events[#events].actions.stateDelta)
      assert.are.same(METADATA, events[#events].customMetadata)
    end)

    it("may be empty, or hold null", function()
      local runner = runnerOf(open(), agentOf(says "Hello"))
      assert.are.equal("Hello", (runner:ask(optionsOf { customMetadata = {} })))
      local _, events = runner:ask(optionsOf { customMetadata = { a = moonpad.null, list = moonpad.array {} } })
      assert.are.equal(moonpad.null, events[1].customMetadata.a)
      assert.are.equal("[]", moonpad.json.encode(events[1].customMetadata.list))
    end)
  end)
end)

describe("saveInputBlobsAsArtifacts", function()
  -- All bytes; and the same in base64.
  local BYTES, BASE64 = "\0\1\xff\xfe", "AAH//g=="

  local function imageOf(data, fields)
    local inline = { mimeType = "image/png", data = data }
    for name, value in pairs(fields or {}) do inline[name] = value end
    return { inlineData = inline }
  end

  support.any_store(function(open)
    local service, artifacts, seen
    before_each(function()
      service, artifacts, seen = open(), moonpad.artifactService "memory:", {}
    end)

    local function newRunner(more)
      more = more or {}
      more.artifactService = artifacts
      return runnerOf(service, agentOf(function(request, context)
        seen.parts = request.contents[#request.contents].parts
        seen.userContent = context.userContent
        return "Thanks"
      end), more)
    end

    local function load(name)
      return artifacts:load { appName = "app", userId = "u", sessionId = "s", filename = name }
    end

    it("keeps the files as artifacts, and names them in their place", function()
      local message = { parts = {
        { text = "Look:" }, imageOf(BASE64), imageOf("AAH__g", { displayName = "cat.png" }), { text = "Nice?" },
      } }
      newRunner():ask(optionsOf { newMessage = message, saveInputBlobsAsArtifacts = true })
      local event = support.stored(service).events[1]
      local first = ("artifact_%s_1"):format(event.invocationId)
      local second = ("artifact_%s_2"):format(event.invocationId)
      local expected = {
        { text = "Look:" }, { text = ("Uploaded file: %s. It is saved into artifacts"):format(first) },
        { text = ("Uploaded file: %s. It is saved into artifacts"):format(second) }, { text = "Nice?" },
      }
      assert.are.same(expected, event.content.parts)
      assert.are.equal("user", event.content.role)
      assert.are.same(expected, seen.parts)
      assert.are.same(expected, seen.userContent.parts)
      assert.are.same({ [first] = 0, [second] = 0 }, event.actions.artifactDelta)
      assert.are.same({ inlineData = { mimeType = "image/png", data = BYTES } }, load(first))
      assert.are.same({ inlineData = { mimeType = "image/png", data = BYTES, displayName = "cat.png" } }, load(second))
      -- The caller's table is his.
      assert.are.equal(BASE64, message.parts[2].inlineData.data)
    end)

    it("does nothing to a message without files, and none without being asked", function()
      newRunner():ask(optionsOf { saveInputBlobsAsArtifacts = true })
      newRunner():ask { userId = "u", sessionId = "s", saveInputBlobsAsArtifacts = true }
      for _, saves in ipairs { false, "default" } do
        local option
        if saves == false then option = false end
        newRunner():ask(optionsOf { newMessage = { parts = { imageOf(BASE64) } }, saveInputBlobsAsArtifacts = option })
        assert.are.equal(BASE64, seen.parts[1].inlineData.data)
      end
      assert.are.same({}, artifacts:list { appName = "app", userId = "u", sessionId = "s" })
    end)

    it("keeps what a plugin has put into the message", function()
      newRunner { plugins = { { onUserMessage = function()
        return { parts = { imageOf(BASE64, { mimeType = moonpad.null }) } }
      end } } }:ask(optionsOf { saveInputBlobsAsArtifacts = true })
      local name = artifacts:list({ appName = "app", userId = "u", sessionId = "s" })[1]
      assert.are.same({ inlineData = { mimeType = "application/octet-stream", data = BYTES } }, load(name))
    end)

    it("refuses what is no base64, and saves nothing then", function()
      for _, data in ipairs { "A", "AAH//g=A", "AAAA====", "not base64!", "\xff\xff\xff\xff", 5, true } do
        local runner = newRunner()
        local err = fails(runner.ask, runner, optionsOf {
          newMessage = { parts = { imageOf(BASE64), imageOf(data) } }, saveInputBlobsAsArtifacts = true,
        })
        assert.are.equal("invalid_argument", err.code)
        assert.is_truthy(err.message:find("newMessage.parts[2].inlineData.data", 1, true), err.message)
      end
      assert.are.same({}, artifacts:list { appName = "app", userId = "u", sessionId = "s" })
      assert.are.equal(0, #support.stored(service).events)
    end)

    it("takes a long file, in a run that is stepped", function()
      local data = ("QUJD\n"):rep(20000)
      local invocation = newRunner():start(optionsOf {
        newMessage = { parts = { imageOf(data) } }, saveInputBlobsAsArtifacts = true,
      })
      assert.are.equal("Thanks", support.step(invocation):text())
      local name = artifacts:list({ appName = "app", userId = "u", sessionId = "s" })[1]
      assert.are.equal(("ABC"):rep(20000), load(name).inlineData.data)
    end)
  end)

  it("is unsupported without an artifact service, and says what to do", function()
    local runner = runnerOf(moonpad.open "memory:", agentOf(says "Hello"))
    local err = fails(runner.start, runner, optionsOf { saveInputBlobsAsArtifacts = true })
    assert.are.equal("unsupported", err.code)
    assert.is_truthy(err.message:find("runner:start: saveInputBlobsAsArtifacts", 1, true))
    assert.is_truthy(err.message:find("moonpad.artifactService", 1, true))
    assert.are.equal("Hello", (runner:ask(optionsOf { saveInputBlobsAsArtifacts = false })))
  end)
end)

it("an agent that is a tool runs in a context of moonpad.testing, with the limit of a runner", function()
  local tool = moonpad.agentTool { agent = agentOf(says "Hello") }
  assert.are.equal("Hello", tool.run({ request = "Go" }, testing.toolContext()))
end)
