-- Against the wire format of https://platform.openai.com/docs/api-reference/chat, and what other
-- servers make of it.
local model = require "spec.support.model"
local moonpad = require "moonpad"
local openai = require "moonpad.models.openai"
local providers = require "moonpad.models.providers"
local server = require "spec.support.http"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

local function chunk(delta, reason)
  return moonpad.json.encode {
    id = "chatcmpl-1", object = "chat.completion.chunk", created = 1700000000, model = "m-1",
    choices = { { index = 0, delta = delta, finish_reason = reason or moonpad.null } },
  }
end

local USAGE = '{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":19,'
  .. '"completion_tokens":10,"total_tokens":29,"prompt_tokens_details":{"cached_tokens":5},'
  .. '"completion_tokens_details":{"reasoning_tokens":3}}}'

local STREAM = {
  chunk { role = "assistant", content = "" }, chunk { content = "Hel" }, chunk { content = "lo ä€😀" },
  chunk({}, "stop"), USAGE, "[DONE]",
}

local WHOLE = {
  id = "chatcmpl-1", object = "chat.completion", model = "m-1",
  choices = { { index = 0, finish_reason = "stop", message = { role = "assistant", content = "Hello ä€😀" } } },
  usage = { prompt_tokens = 19, completion_tokens = 10, total_tokens = 29 },
}

describe("models.openai", function()
  model.behavesWell {
    name = "openai", new = openai.new, path = "/chat/completions", wholePath = "/chat/completions",
    stream = server.stream(STREAM).body, whole = WHOLE, text = "Hello ä€😀",
    failure = '{"error":{"message":"it is broken","type":"server_error","param":null,"code":null}}',
  }

  local web
  setup(function() web = server.start() end)
  teardown(function() web:stop() end)

  local function script(...)
    web:script { ["/chat/completions"] = { ... } }
  end

  local function make(options)
    local all = { model = "gpt-test", apiKey = "test-key", baseUrl = web.url }
    for key, value in pairs(options or {}) do all[key] = value end
    return openai.new(all)
  end

  local function sentFor(request, options)
    script(server.stream(STREAM))
    model.ask(make(options), request)
    return web:sent()
  end

  describe("a request", function()
    it("has these bytes", function()
      script(server.stream(STREAM))
      model.ask(make(), model.say("Hi", { systemInstruction = "Be brief.", config = { temperature = 0 } }))
      local sent = web:requests()[1]
      assert.are.equal("POST", sent.method)
      assert.are.equal("Bearer test-key", sent.headers.authorization)
      assert.are.equal("application/json", sent.headers["content-type"])
      assert.are.equal('{"messages":[{"content":"Be brief.","role":"system"},{"content":"Hi","role":"user"}],'
        .. '"model":"gpt-test","stream":true,"stream_options":{"include_usage":true},"temperature":0}', sent.body)
    end)

    it("does not stream when it is told not to", function()
      script(server.json(WHOLE))
      model.ask(make { stream = false })
      assert.are.equal('{"messages":[{"content":"Hi","role":"user"}],"model":"gpt-test"}', web:requests()[1].body)
    end)

    it("maps settings, and adds those of the server", function()
      local body = sentFor(model.say("Hi", {
        config = {
          temperature = 0.5, topP = 0.9, maxOutputTokens = 100, stopSequences = { "END" }, seed = 7,
          presencePenalty = 0.1, frequencyPenalty = 0.2, responseMimeType = "application/json", toolChoice = "any",
          extra = { reasoning_effort = "low", stream_options = { more = true } },
        },
      }))
      body.messages = nil
      assert.are.same({
        model = "gpt-test", stream = true, stream_options = { include_usage = true, more = true }, temperature = 0.5,
        top_p = 0.9, max_tokens = 100, stop = { "END" }, seed = 7, presence_penalty = 0.1, frequency_penalty = 0.2,
        response_format = { type = "json_object" }, tool_choice = "required", reasoning_effort = "low",
      }, body)
    end)

    it("asks for answers of a schema", function()
      local schema = { type = "object", properties = { a = { type = "string" } }, required = { "a" } }
      local body = sentFor(model.say("Hi", { config = { responseSchema = schema } }))
      local expected = { type = "json_schema", json_schema = { name = "answer", schema = schema } }
      assert.are.same(expected, body.response_format)
    end)

    it("refuses a setting that the API does not have", function()
      local err = model.failure(make(), model.say("Hi", { config = { topK = 3 } }))
      assert.are.equal("invalid_argument", err.code)
      assert.is_truthy(err.message:find("config.extra", 1, true))
    end)

    it("offers tools, with objects and lists where the schema has them", function()
      script(server.stream(STREAM))
      model.ask(make(), model.say("Hi", {
        tools = {
          { name = "now", description = "", parameters = {} },
          {
            name = "add", description = "Adds",
            parameters = {
              type = "object", required = {},
              properties = {
                n = { type = "integer", enum = {} }, o = { type = "object", properties = {}, anyOf = {} },
              },
            },
          },
        },
        config = { toolChoice = "add" },
      }))
      local text = web:requests()[1].body
      for _, piece in ipairs {
        '{"function":{"name":"now","parameters":{"properties":{},"type":"object"}},"type":"function"}',
        '"required":[]', '"enum":[]', '"anyOf":[]', '"properties":{}', '"description":"Adds"',
        '"tool_choice":{"function":{"name":"add"},"type":"function"}',
      } do
        assert.is_truthy(text:find(piece, 1, true), piece .. " is not in " .. text)
      end
    end)

    it("tells calls and their responses, with exact numbers", function()
      script(server.stream(STREAM))
      model.ask(make(), {
        contents = {
          { role = "user", parts = { { text = "a" }, { text = "b" } } },
          {
            role = "model",
            parts = {
              { text = "thinking", thought = true }, { text = "Let me" }, { text = " see." },
              { functionCall = { id = "call_1", name = "f", args = { n = 9007199254740993, x = 1.0 } } },
              { functionCall = { id = "call_2", name = "g", args = {} } },
            },
          },
          {
            role = "user",
            parts = {
              { functionResponse = { id = "call_1", name = "f", response = { result = 3 } } },
              { functionResponse = { id = "call_2", name = "g", response = {} } },
            },
          },
        },
      })
      assert.are.equal('{"messages":[{"content":"a\\nb","role":"user"},{"content":"Let me see.","role":"assistant",'
        .. '"tool_calls":[{"function":{"arguments":"{\\"n\\":9007199254740993,\\"x\\":1.0}","name":"f"},"id":"call_1",'
        .. '"type":"function"},{"function":{"arguments":"{}","name":"g"},"id":"call_2","type":"function"}]},'
        .. '{"content":"{\\"result\\":3}","role":"tool","tool_call_id":"call_1"},'
        .. '{"content":"{}","role":"tool","tool_call_id":"call_2"}],'
        .. '"model":"gpt-test","stream":true,"stream_options":{"include_usage":true}}', web:requests()[1].body)
    end)

    it("gives ids of its own to calls whose ids the API would not take", function()
      local long = "moonpad-" .. ("x"):rep(36)
      local function call(id) return { functionCall = { id = id, name = "f", args = {} } } end
      local function response(id) return { functionResponse = { id = id, name = "f", response = {} } } end
      local body = sentFor {
        contents = {
          { role = "model", parts = { call(long), call "same", call(nil) } },
          { role = "user", parts = { response(long), response "same", response(nil) } },
          { role = "model", parts = { call "same" } },
          { role = "user", parts = { response "same" } },
        },
      }
      local asked, answered, seen = {}, {}, {}
      for _, message in ipairs(body.messages) do
        for _, toolCall in ipairs(message.tool_calls or {}) do
          asked[#asked + 1] = toolCall.id
          assert.is_nil(seen[toolCall.id])
          assert.is_true(#toolCall.id <= 40)
          seen[toolCall.id] = true
        end
        answered[#answered + 1] = message.tool_call_id
      end
      assert.are.equal(4, #asked)
      assert.are.same(asked, answered)
    end)

    it("shows pictures and sounds, and refuses what cannot be shown", function()
      local function with(part) return { contents = { { role = "user", parts = { { text = "See" }, part } } } } end
      local body = sentFor(with { inlineData = { mimeType = "image/png", data = "AAAA" } })
      assert.are.same({
        { type = "text", text = "See" },
        { type = "image_url", image_url = { url = "data:image/png;base64,AAAA" } },
      }, body.messages[1].content)
      body = sentFor(with { inlineData = { mimeType = "audio/wav", data = "AAAA" } })
      assert.are.same({ data = "AAAA", format = "wav" }, body.messages[1].content[2].input_audio)
      body = sentFor(with { fileData = { mimeType = "image/png", fileUri = "https://x/y.png" } })
      assert.are.equal("https://x/y.png", body.messages[1].content[2].image_url.url)
      local err = model.failure(make(), with { inlineData = { mimeType = "video/mp4", data = "" } })
      assert.are.equal("invalid_argument", err.code)
    end)

    it("ends with a turn of the user", function()
      local body = sentFor { contents = {} }
      assert.are.equal("user", body.messages[#body.messages].role)
      body = sentFor { contents = { { role = "model", parts = { { text = "I did it." } } } } }
      assert.are.equal("user", body.messages[#body.messages].role)
    end)

    it("names the limit of an answer as the server wants it", function()
      local function limits(name, baseUrl)
        local request = model.say("Hi", { model = name, config = { maxOutputTokens = 5 } })
        local body = model.bodyOf("openai", request, { quirks = (providers.ofAddress(baseUrl) or {}).quirks })
        return { body.max_completion_tokens, body.max_tokens }
      end
      local new, old = { 5, nil }, { nil, 5 }
      for name, expected in pairs {
        ["gpt-4o"] = old, ["gpt-5"] = new, ["openai/gpt-5-mini"] = new, ["o3"] = new, ["gpt-oss:20b"] = old,
      } do
        assert.are.same({ name, expected }, { name, limits(name, "http://127.0.0.1:4000/v1") })
      end
      assert.are.same(new, limits("gpt-4o", "https://api.openai.com/v1"))
      assert.are.same(new, limits("gpt-5", "https://x.openai.azure.com/openai/v1"))
      assert.are.same(old, limits("o3", "https://api.mistral.ai/v1"))
    end)

    it("takes the model's name from the request, where a callback has changed it", function()
      assert.are.equal("other", sentFor(model.say("Hi", { model = "other" })).model)
    end)
  end)

  describe("an answer", function()
    local function answer(...)
      script(server.stream { ... })
      local partials, last = model.ask(make())
      return last, partials
    end

    it("has text, usage and the reason of its end", function()
      local last, partials = answer(table.unpack(STREAM))
      assert.are.same({ "Hel", "lo ä€😀" }, model.texts(partials))
      assert.are.same({
        content = { role = "model", parts = { { text = "Hello ä€😀" } } }, finishReason = "STOP", modelVersion = "m-1",
        usageMetadata = {
          promptTokenCount = 19, candidatesTokenCount = 10, totalTokenCount = 29, cachedContentTokenCount = 5,
          thoughtsTokenCount = 3,
        },
      }, last)
    end)

    it("has calls, put together from fragments by their index", function()
      local last, partials = answer(
        chunk { role = "assistant", content = moonpad.null, tool_calls = {
          { index = 0, id = "call_a", type = "function", ["function"] = { name = "f", arguments = "" } } } },
        chunk { tool_calls = { { index = 0, ["function"] = { arguments = '{"n":' } } } },
        chunk { tool_calls = {
          { index = 1, id = "call_b", type = "function", ["function"] = { name = "g", arguments = "" } } } },
        chunk { tool_calls = { { index = 0, ["function"] = { arguments = '9007199254740993,"x":3}' } } } },
        chunk { tool_calls = { { index = 1, ["function"] = { arguments = '{"e":[],"o":{},"f":1.0}' } } } },
        chunk({}, "tool_calls"), "[DONE]")
      assert.are.same({}, partials)
      local parts = last.content.parts
      assert.are.equal("STOP", last.finishReason)
      assert.are.same({ id = "call_a", name = "f", args = { n = 9007199254740993, x = 3 } }, parts[1].functionCall)
      assert.are.equal("integer", math.type(parts[1].functionCall.args.x))
      assert.are.same({ "call_b", "g" }, { parts[2].functionCall.id, parts[2].functionCall.name })
      assert.are.equal('{"e":[],"f":1.0,"o":{}}', moonpad.json.encode(parts[2].functionCall.args))
      assert.are.equal(2, #parts)
    end)

    it("has calls of servers that do not count them", function()
      local function call(id, name, arguments, index)
        return { index = index, id = id, type = "function", ["function"] = { name = name, arguments = arguments } }
      end
      for _, calls in ipairs {
        { call("1", "f", "{}", 0), call("2", "g", '{"a":1}', 0) },
        { call("1", "f", "{}"), call("2", "g", '{"a":1}') },
        { call("1", "f", {}), call("2", "g", { a = 1 }) },
      } do
        local last = answer(chunk { tool_calls = { calls[1] } }, chunk { tool_calls = { calls[2] } },
          chunk({}, "tool_calls"), "[DONE]")
        assert.are.same({
          { functionCall = { id = "1", name = "f", args = {} } },
          { functionCall = { id = "2", name = "g", args = { a = 1 } } },
        }, model.parts(last))
      end
    end)

    it("has calls of servers that stream them in fragments without an index", function()
      local function fragment(id, name, arguments, index)
        return { index = index, id = id, type = "function", ["function"] = { name = name, arguments = arguments } }
      end
      local two = {
        { functionCall = { id = "1", name = "f", args = { a = 1 } } },
        { functionCall = { id = "2", name = "f", args = { b = 2 } } },
      }
      local nameless = {
        { functionCall = { name = "f", args = { a = 1 } } }, { functionCall = { name = "f", args = { b = 2 } } },
      }
      for what, case in pairs {
        ["neither index nor id"] = { two, {
          { fragment("1", "f", '{"a"') }, { fragment(nil, nil, ":1") }, { fragment(nil, nil, "}") },
          { fragment("2", "f", "") }, { fragment(nil, nil, '{"b":2}') },
        } },
        ["ids only"] = { two, {
          { fragment("1", "f", '{"a"') }, { fragment("1", nil, ":1}") },
          { fragment("2", "f", '{"b"') }, { fragment("2", nil, ":2}") },
        } },
        ["ids, in turns"] = { two, {
          { fragment("1", "f", '{"a"') }, { fragment("2", "f", '{"b"') }, { fragment("1", nil, ":1}") },
          { fragment("2", nil, ":2}") },
        } },
        ["names in each fragment"] = { two, {
          { fragment("1", "f", '{"a"') }, { fragment("1", "f", ":1}") },
          { fragment("2", "f", '{"b"') }, { fragment("2", "f", ":2}") },
        } },
        ["side by side, without anything"] = { two, {
          { fragment("1", "f", ""), fragment("2", "f", "") },
          { fragment(nil, nil, '{"a"'), fragment(nil, nil, '{"b"') },
          { fragment(nil, nil, ":1}"), fragment(nil, nil, ":2}") },
        } },
        ["empty ids and names, as some send them"] = { two, {
          { fragment("1", "f", "") }, { fragment("", "", '{"a":1}') }, { fragment("2", "f", "") },
          { fragment("", "", '{"b":2}') },
        } },
        ["a new id with each fragment"] = { two, {
          { fragment("1", "f", "", 0) }, { fragment("x", nil, '{"a"', 0) }, { fragment("y", nil, ":1}", 0) },
          { fragment("2", "f", "", 1) }, { fragment("z", nil, '{"b":2}', 1) },
        } },
        ["a new id with each fragment, and no index"] = { two, {
          { fragment("1", "f", "") }, { fragment("x", nil, '{"a":1}') }, { fragment("2", "f", "") },
          { fragment("z", nil, '{"b":2}') },
        } },
        ["an index that begins with 1"] = { two, {
          { fragment("1", "f", '{"a"', 1) }, { fragment("2", "f", '{"b"', 2) }, { fragment(nil, nil, ":1}", 1) },
          { fragment(nil, nil, ":2}", 2) },
        } },
        ["the index 0 for all, whole"] = { two, {
          { fragment("1", "f", '{"a":1}', 0) }, { fragment("2", "f", '{"b":2}', 0) },
        } },
        ["the index 0 for all, together"] = { two, {
          { fragment("1", "f", '{"a":1}', 0), fragment("2", "f", '{"b":2}', 0) },
        } },
        ["an id and a name that are said again at the end"] = { two, {
          { fragment("1", "f", '{"a":1}') }, { fragment("1", "f", "") }, { fragment("2", "f", '{"b":2}') },
          { fragment("2", "f", "") },
        } },
        ["the same id for all"] = { {
          { functionCall = { id = "null", name = "f", args = { a = 1 } } },
          { functionCall = { id = "null", name = "f", args = { b = 2 } } },
        }, { { fragment("null", "f", '{"a":1}') }, { fragment("null", "f", '{"b":2}') } } },
        ["an index that comes after the beginning"] = { two, {
          { fragment("1", "f", "") }, { fragment("2", "f", "") }, { fragment(nil, nil, '{"a":1}', 0) },
          { fragment(nil, nil, '{"b":2}', 1) },
        } },
        ["an index at the beginning only"] = { two, {
          { fragment("1", "f", "", 0) }, { fragment(nil, nil, '{"a":1}') }, { fragment("2", "f", "", 1) },
          { fragment(nil, nil, '{"b":2}') },
        } },
        ["no ids at all"] = { nameless, { { fragment(nil, "f", '{"a":1}') }, { fragment(nil, "f", '{"b":2}') } } },
        ["no ids at all, together"] = { nameless, {
          { fragment(nil, "f", '{"a":1}'), fragment(nil, "f", '{"b":2}') },
        } },
        ["no ids, index 0 for all"] = { nameless, {
          { fragment(nil, "f", '{"a":1}', 0) }, { fragment(nil, "f", '{"b":2}', 0) },
        } },
        ["no ids, in fragments"] = { nameless, {
          { fragment(nil, "f", "") }, { fragment(nil, nil, '{"a":1}') }, { fragment(nil, "f", "") },
          { fragment(nil, nil, '{"b":2}') },
        } },
        ["a name that comes after the id"] = { two, {
          { fragment("1") }, { fragment(nil, "f") }, { fragment(nil, nil, '{"a":1}') }, { fragment("2") },
          { fragment(nil, "f") }, { fragment(nil, nil, '{"b":2}') },
        } },
      } do
        local chunks = {}
        for index, list in ipairs(case[2]) do chunks[index] = chunk { tool_calls = list } end
        chunks[#chunks + 1] = chunk({}, "tool_calls")
        chunks[#chunks + 1] = "[DONE]"
        local last = answer(table.unpack(chunks))
        assert.are.same(case[1], last.content.parts, what)
      end
    end)

    it("has as many calls as a whole message, whatever their ids", function()
      local function call(id, index)
        return { id = id, index = index, ["function"] = { name = "f", arguments = "{}" } }
      end
      for _, list in ipairs { { call(), call() }, { call "1", call "1" }, { call("1", 0), call("2", 0) } } do
        script(server.json { choices = { { finish_reason = "stop", message = { tool_calls = list } } } })
        local _, last = model.ask(make { stream = false })
        assert.are.equal(2, #last.content.parts)
      end
    end)

    it("may give its content as a list of parts", function()
      local last, partials = answer(
        chunk { content = { { type = "thinking", thinking = { { type = "text", text = "Hm" } } } } },
        chunk { content = { { type = "text", text = "Y" }, { type = "reference", reference_ids = { 1 } } } },
        chunk { content = "es" }, chunk({}, "stop"), "[DONE]")
      assert.are.same({ "(Hm)", "Y", "es" }, model.texts(partials))
      assert.are.same({ { text = "Hm", thought = true, openai = { field = "thinking" } }, { text = "Yes" } },
        model.parts(last))
    end)

    it("has calls without arguments", function()
      local call = { index = 0, id = "1", ["function"] = { name = "f" } }
      local last = answer(chunk({ tool_calls = { call } }, "tool_calls"), "[DONE]")
      assert.are.equal("{}", moonpad.json.encode(last.content.parts[1].functionCall.args))
    end)

    it("keeps arguments that are no JSON as they are, for the runner to complain of", function()
      local broken = { index = 0, id = "1", ["function"] = { name = "f", arguments = '{"a":' } }
      local last = answer(chunk({ tool_calls = { broken } }, "tool_calls"), "[DONE]")
      assert.are.equal('{"a":', last.content.parts[1].functionCall.args)
      script(server.stream { chunk({ tool_calls = { broken } }, "length"), "[DONE]" })
      local err = model.failure(make())
      assert.are.equal("model", err.code)
      assert.is_truthy(err.message:find("maxOutputTokens", 1, true))
    end)

    it("has thoughts apart from text", function()
      local last, partials = answer(chunk { reasoning_content = "Hm" }, chunk { reasoning_content = "m." },
        chunk { content = "Yes" }, chunk({}, "stop"), "[DONE]")
      assert.are.same({ "(Hm)", "(m.)", "Yes" }, model.texts(partials))
      assert.are.same({
        { text = "Hmm.", thought = true, openai = { field = "reasoning_content" } }, { text = "Yes" },
      }, model.parts(last))
    end)

    it("may be refused, filtered, cut off, empty", function()
      local last = answer(chunk { refusal = "I can" }, chunk({ refusal = "not." }, "stop"), "[DONE]")
      assert.are.same({ "I cannot.", "SAFETY" }, { last.content.parts[1].text, last.finishReason })
      last = answer(chunk({}, "content_filter"), "[DONE]")
      assert.are.same({ "SAFETY", "SAFETY" }, { last.errorCode, last.finishReason })
      last = answer(chunk({ content = "Once" }, "length"), "[DONE]")
      assert.are.same({ "Once", "MAX_TOKENS" }, { last.content.parts[1].text, last.finishReason })
      last = answer(chunk({ content = "" }, "stop"), "[DONE]")
      assert.are.equal("MODEL_RETURNED_NO_CONTENT", last.errorCode)
      assert.is_nil(last.content)
    end)

    it("may end without [DONE], and come without choices in between", function()
      local last = answer('{"choices":null}', chunk { content = "Hi" }, '{"prompt_filter_results":[]}',
        chunk({}, "stop"))
      assert.are.equal("Hi", last.content.parts[1].text)
    end)

    it("may be long", function()
      local pieces = {}
      for index = 1, 1000 do pieces[index] = chunk { content = ("x"):rep(100) } end
      pieces[#pieces + 1] = chunk({}, "stop")
      local last, partials = answer(table.unpack(pieces))
      assert.are.equal(100000, #last.content.parts[1].text)
      assert.are.equal(1000, #partials)
    end)

    it("may come whole, with calls", function()
      script(server.json {
        choices = { {
          finish_reason = "tool_calls",
          message = {
            role = "assistant", content = moonpad.null,
            tool_calls = {
              { id = "1", type = "function", ["function"] = { name = "f", arguments = '{"a":1}' } },
              { id = "2", type = "function", ["function"] = { name = "g", arguments = "{}" } },
            },
          },
        } },
      })
      local _, last = model.ask(make { stream = false })
      assert.are.same({
        { functionCall = { id = "1", name = "f", args = { a = 1 } } },
        { functionCall = { id = "2", name = "g", args = {} } },
      }, model.parts(last))
    end)
  end)

  describe("a run with tools", function()
    local function call(id, name, arguments, index)
      return { index = index, id = id, type = "function", ["function"] = { name = name, arguments = arguments } }
    end

    it("goes through two parallel calls and back", function()
      script(
        server.stream({
          chunk { reasoning_content = "Both." },
          chunk { tool_calls = { call("c1", "add", '{"a":1,"b":2}', 0), call("c2", "add", '{"a":3,"b":', 1) } },
          chunk { tool_calls = { { index = 1, ["function"] = { arguments = "4}" } } } },
          chunk({}, "tool_calls"), "[DONE]",
        }, { split = 1 }),
        server.stream { chunk { content = "3 and 7" }, chunk({}, "stop"), "[DONE]" },
        server.stream(STREAM))
      local add = moonpad.tool {
        name = "add", description = "Adds",
        parameters = { type = "object", properties = { a = { type = "integer" }, b = { type = "integer" } } },
        run = function(args, context)
          context.state:increment "sums"
          return args.a + args.b
        end,
      }
      local service = moonpad.open "memory:"
      local runner = moonpad.runner {
        appName = "app", sessionService = service,
        agent = moonpad.agent { name = "a", model = make(), tools = { add } },
      }
      local events = support.run(runner, "Add")
      assert.are.equal("3 and 7", events[#events]:text())
      assert.are.equal(2, support.stored(service).state.sums)
      local messages = web:sent(2).messages
      assert.are.same({ "user", "assistant", "tool", "tool" },
        { messages[1].role, messages[2].role, messages[3].role, messages[4].role })
      assert.are.same({ '{"result":3}', '{"result":7}' }, { messages[3].content, messages[4].content })
      assert.are.same({ "c1", "c2" }, { messages[3].tool_call_id, messages[4].tool_call_id })
      assert.are.equal('{"a":3,"b":4}', messages[2].tool_calls[2]["function"].arguments)
      -- DeepSeek wants its reasoning back where it called functions.
      assert.are.equal("Both.", messages[2].reasoning_content)
      local text = moonpad.json.encode(support.stored(service).events[2])
      assert.is_nil(text:find("test-key", 1, true))
    end)
  end)

  describe("keys", function()
    local CODE = [[
      local ok, value = pcall(require("moonpad.models.openai").new, { model = "m", baseUrl = %s })
      if not ok then return print(value.code, value.message) end
      local ok, err = pcall(value.generate, value, { contents = {} })
      if ok then pcall(err) end]]

    it("come from the environment, and are asked for by name", function()
      local text = model.lua({}, CODE:format "nil")
      assert.is_truthy(text:find("^invalid_argument"))
      assert.is_truthy(text:find("OPENAI_API_KEY", 1, true))
      script(server.stream(STREAM))
      model.lua({ OPENAI_API_KEY = "from-environment", OPENAI_BASE_URL = web.url .. "/" }, CODE:format "nil")
      assert.are.equal("Bearer from-environment", web:requests()[1].headers.authorization)
    end)

    it("of the environment are not sent to another address", function()
      script(server.stream(STREAM))
      model.lua({ OPENAI_API_KEY = "from-environment" }, CODE:format(("%q"):format(web.url)))
      assert.are.equal(1, #web:requests())
      assert.is_nil(web:requests()[1].headers.authorization)
    end)

    it("that are missing are mentioned when the server wants one", function()
      script(server.json('{"error":"no"}', { status = 401 }))
      local err = model.failure(openai.new { model = "m", baseUrl = web.url })
      assert.are.equal('openai "m": HTTP 401: no (no API key was given)', err.message)
    end)
  end)
end)
