-- Servers that speak like OpenAI, and what each of them wants otherwise. Formats as their
-- documentations and recorded answers have them.
local model = require "spec.support.model"
local moonpad = require "moonpad"
local openai = require "moonpad.models.openai"
local providers = require "moonpad.models.providers"
local server = require "spec.support.http"
local support = require "spec.support"

-- What is sent to a provider's server.
local function bodyFor(name, request)
  local row = providers.named(name)
  request.model = request.model or "some-model"
  request.contents = request.contents or { { role = "user", parts = { { text = "Hi" } } } }
  return model.bodyOf("openai", request, { provider = row, quirks = row and row.quirks, server = "https://there" })
end

local function message(delta, reason)
  return { choices = { { index = 0, delta = delta, finish_reason = reason } } }
end

describe("a server that speaks like OpenAI", function()
  local web
  setup(function() web = server.start() end)
  teardown(function() web:stop() end)

  local function make(options)
    local all = { model = "m", apiKey = "test-key-1", baseUrl = web.url }
    for key, value in pairs(options or {}) do all[key] = value end
    return openai.new(all)
  end

  local function stream(...)
    local events = { ... }
    for index, event in ipairs(events) do events[index] = moonpad.json.encode(event) end
    events[#events + 1] = "[DONE]"
    return server.stream(events)
  end

  -- What it answers; and what it and another server get with the next request.
  local function answerAndEcho(reply, more)
    web:script { ["/chat/completions"] = { reply } }
    local _, last = model.ask(make())
    local contents = { { role = "user", parts = { { text = "Hi" } } }, last.content }
    for _, part in ipairs(last.content.parts) do
      if part.functionCall then
        contents[3] = { role = "user", parts = { {
          functionResponse = { id = part.functionCall.id, name = part.functionCall.name, response = { ok = true } },
        } } }
      end
    end
    contents[#contents + 1] = more
    local messages = model.bodyOf("openai", { contents = contents }, { server = web.url }).messages
    -- The adapter takes away what is another's before it makes a body.
    web:script { ["/chat/completions"] = { stream(message({ content = "ok" }, "stop")) } }
    model.ask(make(), { contents = contents })
    assert.are.same(messages, web:sent().messages)
    local other = server.start()
    finally(function() other:stop() end)
    other:script { ["/chat/completions"] = { stream(message({ content = "ok" }, "stop")) } }
    model.ask(make { baseUrl = other.url }, { contents = contents })
    return last, messages[2], other:sent().messages[2]
  end

  describe("gets back what it gave, and no other server does:", function()
    local FRAGMENT = { index = 0, id = "c1", ["function"] = { name = "f", arguments = "{}" } }
    local call = { id = "c1", type = "function", ["function"] = { name = "f", arguments = "{}" } }

    it("signatures of calls (Google's)", function()
      local signed = { index = 0, id = "c1", type = "function", ["function"] = { name = "f", arguments = "{}" },
        extra_content = { google = { thought_signature = "sig=" } } }
      local last, own, others = answerAndEcho(
        stream(message({ role = "assistant", tool_calls = { signed } }, "tool_calls")))
      assert.are.same({ extra_content = signed.extra_content }, last.content.parts[1].openai)
      assert.are.same(signed.extra_content, own.tool_calls[1].extra_content)
      assert.are.same({ call }, others.tool_calls)
    end)

    it("signatures of texts, which may come behind them (Google's)", function()
      local extra = { google = { thought_signature = "sig=" } }
      local last, own, others = answerAndEcho(
        stream(message { content = "Hel" }, message { content = "lo" },
          message({ content = "", extra_content = extra }, "stop")),
        { role = "user", parts = { { text = "And?" } } })
      assert.are.equal("Hello", last.content.parts[1].text)
      assert.are.same({ role = "assistant", content = "Hello", extra_content = extra }, own)
      assert.are.same({ role = "assistant", content = "Hello" }, others)
    end)

    it("reasoning details, put together from pieces (OpenRouter's)", function()
      local function details(list)
        return message { content = "", reasoning = list[1].text, reasoning_details = list }
      end
      local last, own, others = answerAndEcho(stream(
        details { { type = "reasoning.text", text = "I ", index = 0, format = "anthropic-claude-v1" } },
        details { { type = "reasoning.text", text = "think", index = 0 } },
        details { { type = "reasoning.text", index = 0, signature = "sig" } },
        details { { type = "reasoning.encrypted", data = "blob", index = 1, id = "rs_1" } },
        message({ content = "", tool_calls = { FRAGMENT } }, "tool_calls")))
      assert.are.equal("I think", last.content.parts[1].text)
      assert.is_true(last.content.parts[1].thought)
      assert.are.same({
        { type = "reasoning.text", text = "I think", index = 0, format = "anthropic-claude-v1", signature = "sig" },
        { type = "reasoning.encrypted", data = "blob", index = 1, id = "rs_1" },
      }, own.reasoning_details)
      assert.are.same({ call }, own.tool_calls)
      assert.are.same({ role = "assistant", content = moonpad.null, tool_calls = { call } }, others)
    end)

    it("reasoning details without a word that can be read", function()
      local entry = { type = "reasoning.encrypted", data = "blob", index = 0, id = "rs_1" }
      local last, own, others = answerAndEcho(stream(message { content = "Yes", reasoning_details = { entry } },
        message({ content = "" }, "stop")), { role = "user", parts = { { text = "And?" } } })
      assert.are.same({ "", "Yes" }, { last.content.parts[1].text, last.content.parts[2].text })
      assert.are.same({ role = "assistant", content = "Yes", reasoning_details = { entry } }, own)
      assert.are.same({ role = "assistant", content = "Yes" }, others)
    end)

    it("its reasoning, in turns with calls (DeepSeek's)", function()
      local _, own, others = answerAndEcho(stream(message { reasoning_content = "Hm" },
        message({ tool_calls = { FRAGMENT } }, "tool_calls")))
      assert.are.equal("Hm", own.reasoning_content)
      assert.is_nil(others.reasoning_content)
    end)

    it("its thoughts as parts of the content (Mistral's)", function()
      local thinking = {
        { type = "thinking", thinking = { { type = "text", text = "Hm" } } }, { type = "text", text = "I ask" },
      }
      local last, own, others = answerAndEcho(stream(message { content = { thinking[1] } },
        message { content = "I ask" }, message({ tool_calls = { FRAGMENT } }, "tool_calls")))
      assert.are.same({ "Hm", true, "I ask" },
        { last.content.parts[1].text, last.content.parts[1].thought, last.content.parts[2].text })
      assert.are.same(thinking, own.content)
      assert.are.equal("I ask", others.content)
    end)

    it("also where a part does not say whose it is, as those of older versions do not", function()
      local body = model.bodyOf("openai", { contents = {
        { role = "user", parts = { { text = "Hi" } } },
        { role = "model", parts = {
          { text = "Hm", thought = true, openai = { field = "reasoning_content" } },
          { functionCall = { id = "c1", name = "f", args = {} } },
        } },
        { role = "user", parts = { { functionResponse = { id = "c1", name = "f", response = {} } } } },
      } })
      assert.are.equal("Hm", body.messages[2].reasoning_content)
    end)
  end)

  it("gets it back in a later turn of a session that is read anew, and another server does not", function()
    local url = "sqlite:" .. support.tmpdir() .. "/a.db"
    local signed = {
      index = 0, id = "c1", type = "function", ["function"] = { name = "f", arguments = "{}" },
      extra_content = { google = { thought_signature = "sig=" } },
    }
    local other = server.start()
    finally(function()
      other:stop()
      support.cleanup()
    end)
    local function turn(instance, asked, ...)
      asked:script { ["/chat/completions"] = { ... } }
      local tool = moonpad.tool { name = "f", description = "F", run = function() return "done" end }
      local agent = moonpad.agent { name = "A", model = instance, tools = { tool } }
      local runner <close> = moonpad.runner { appName = "shop", agent = agent, url = url }
      runner:ask { userId = "ann", sessionId = "s", newMessage = "Hi" }
      local last = #asked:requests()
      return asked:sent(last).messages[2].tool_calls[1].extra_content
    end
    local ok = stream(message({ content = "ok" }, "stop"))
    local first = stream(message({ tool_calls = { signed } }, "tool_calls"))
    assert.are.same(signed.extra_content, turn(make(), web, first, ok))
    assert.are.same(signed.extra_content, turn(make(), web, ok))
    assert.is_nil(turn(make { baseUrl = other.url }, other, ok))
    assert.are.same(signed.extra_content, turn(make(), web, ok))
  end)

  it("reads thoughts that Google's server marks beside the text", function()
    local marked = { google = { thought = true } }
    web:script { ["/chat/completions"] = { stream(message { content = "Hm", extra_content = marked },
      message({ content = "Yes" }, "stop")) } }
    local partials, last = model.ask(make())
    assert.are.same({ "(Hm)", "Yes" }, model.texts(partials))
    assert.are.same({ { text = "Hm", thought = true }, { text = "Yes" } }, model.parts(last))
  end)

  it("refuses details and extras of another form, and names them", function()
    for delta, said in pairs {
      [{ reasoning_details = "x" }] = "reasoning_details: expected a list",
      [{ reasoning_details = { { text = 5 } } }] = "reasoning_details[1].text: expected a string",
      [{ extra_content = 5 }] = "extra_content: expected an object",
      [{ extra_content = { google = "x" } }] = "extra_content.google: expected an object",
      [{ tool_calls = { { extra_content = "x" } } }] = "tool_calls[1].extra_content: expected an object",
    } do
      web:script { ["/chat/completions"] = { stream(message(delta, "stop")) } }
      local err = model.failure(make())
      assert.are.equal("model", err.code)
      assert.is_truthy(err.message:find(said, 1, true), err.message)
    end
  end)

  describe("is asked as it wants it:", function()
    it("Mistral gets no stream_options, its own name of the seed, and short ids of calls", function()
      local request = {
        config = { seed = 1, maxOutputTokens = 5 },
        contents = {
          { role = "user", parts = { { text = "Hi" } } },
          { role = "model", parts = {
            { functionCall = { id = "moonpad-long-id", name = "f", args = {} } },
            { functionCall = { id = "abcDEF123", name = "g", args = {} } },
          } },
          { role = "user", parts = {
            { functionResponse = { id = "moonpad-long-id", name = "f", response = {} } },
            { functionResponse = { id = "abcDEF123", name = "g", response = {} } },
          } },
        },
      }
      local body = bodyFor("mistral", request)
      assert.are.same({ 1, nil, 5 }, { body.random_seed, body.seed, body.max_tokens })
      assert.are.same({ "call00001", "abcDEF123", "call00001", "abcDEF123" }, {
        body.messages[2].tool_calls[1].id, body.messages[2].tool_calls[2].id, body.messages[3].tool_call_id,
        body.messages[4].tool_call_id,
      })
      local settings = { quirks = providers.named("mistral").quirks }
      local call = { settings = settings, model = "m", stream = true, leftOut = {} }
      local sent = require("moonpad.models.openai_request").body({ model = "m", contents = {} }, call)
      assert.are.same({ true, nil }, { sent.stream, sent.stream_options })
    end)

    it("text files are texts", function()
      local file = { inlineData = { mimeType = "text/plain", data = moonpad.base64.encode "Hello ä" } }
      local body = bodyFor("groq", { contents = { { role = "user", parts = { { text = "Read" }, file } } } })
      assert.are.same({ { type = "text", text = "Read" }, { type = "text", text = "Hello ä" } },
        body.messages[1].content)
    end)

    it("config.reasoning is spelt in its words", function()
      local function fields(name, modelName, reasoning)
        local body, leftOut = bodyFor(name, { model = modelName, config = { reasoning = reasoning } })
        body.model, body.messages = nil, nil
        if leftOut[1] then body.leftOut = leftOut end
        return body
      end
      for _, case in ipairs {
        { "openai", "gpt-5", "low", { reasoning_effort = "low" } },
        { "openai", "gpt-5", "none", { reasoning_effort = "minimal" } },
        { "openai", "gpt-5.1", "none", { reasoning_effort = "none" } },
        { "openai", "o3", "none", { reasoning_effort = "low" } },
        { "openai", "gpt-4o", "low", { leftOut = { "reasoning" } } },
        { "azure", "gpt-4o", "low", { leftOut = { "reasoning" } } },
        { "azure", "my-deployment", "low", { reasoning_effort = "low" } },
        { "groq", "openai/gpt-oss-120b", "none", { reasoning_effort = "low" } },
        { "groq", "qwen/qwen3-32b", "high", { reasoning_effort = "default" } },
        { "groq", "qwen/qwen3-32b", "none", { reasoning_effort = "none" } },
        { "groq", "llama-3.3-70b", "high", { leftOut = { "reasoning" } } },
        { "xai", "grok-3-mini", "medium", { reasoning_effort = "low" } },
        { "xai", "grok-4", "high", { leftOut = { "reasoning" } } },
        { "mistral", "magistral-medium-latest", "high", { leftOut = { "reasoning" } } },
        { "mistral", "mistral-small-latest", "low", { reasoning_effort = "high" } },
        { "openrouter", "google/gemini-3-pro", "high", { reasoning = { effort = "high" } } },
        { "deepseek", "deepseek-chat", "medium", { thinking = { type = "enabled" } } },
        { "zai", "glm-5", "none", { thinking = { type = "disabled" } } },
        { "alibaba", "qwen3-max", "none", { enable_thinking = false } },
        { "ollama", "qwen3", "none", { reasoning_effort = "none" } },
      } do
        local name, modelName, reasoning, expected = table.unpack(case)
        assert.are.same({ name, modelName, expected }, { name, modelName, fields(name, modelName, reasoning) })
      end
    end)

    it("settings that a model refuses are left out, and the answer says so", function()
      local config = {
        temperature = 0.5, topP = 0.9, presencePenalty = 1, frequencyPenalty = 1, stopSequences = { "x" },
      }
      local all = { "frequencyPenalty", "presencePenalty", "stopSequences", "temperature", "topP" }
      for name, expected in pairs {
        ["gpt-5"] = all, ["o3"] = all, ["openai/gpt-5-mini"] = all, ["gpt-5-chat-latest"] = {}, ["gpt-4o"] = {},
        ["grok-4"] = { "frequencyPenalty", "presencePenalty", "stopSequences" },
      } do
        local body, leftOut = bodyFor("openrouter", { model = name, config = config })
        assert.are.same({ name, expected }, { name, leftOut })
        assert.are.equal(expected == all, body.temperature == nil)
      end
      web:script { ["/chat/completions"] = { stream(message({ content = "ok" }, "stop")) } }
      local _, last = model.ask(make { model = "o3" }, model.say("Hi", { config = { temperature = 1, topP = 1 } }))
      assert.are.same({ leftOut = { "temperature", "topP" } }, last.customMetadata)
      assert.are.same({ nil, nil }, { web:sent().temperature, web:sent().top_p })
      _, last = model.ask(make(), model.say("Hi", { config = { temperature = 1 } }))
      assert.is_nil(last.customMetadata)
    end)

    it("schemas strictly, or as a hint, or not at all", function()
      local properties = { b = { type = "string" }, a = { type = "integer" } }
      local schema = { type = "object", properties = properties, required = { "b", "a" } }
      local function format(name) return bodyFor(name, { config = { responseSchema = schema } }).response_format end
      assert.are.same({
        name = "answer", strict = true,
        schema = { type = "object", properties = properties, required = { "b", "a" }, additionalProperties = false },
      }, format("openai").json_schema)
      assert.are.same({ name = "answer", schema = schema }, format("together").json_schema)
      assert.are.same({ type = "json_object" }, format "deepseek")
    end)
  end)

  it("keeps the order of a schema's properties on the wire", function()
    web:script { ["/chat/completions"] = { stream(message({ content = "ok" }, "stop")) } }
    local properties = { reasoning = { type = "string" }, answer = { type = "string" }, extra = { type = "string" } }
    local schema = { type = "object", properties = properties, required = { "reasoning", "answer" } }
    model.ask(make(), model.say("Hi", {
      config = { responseSchema = schema },
      tools = { { name = "t", parameters = {
        type = "object", properties = properties, propertyOrdering = { "extra", "answer" },
      } } },
    }))
    local body = web:requests()[1].body:gsub('{"type":"string"}', "{}")
    assert.is_truthy(body:find('"properties":{"reasoning":{},"answer":{},"extra":{}}', 1, true), body)
    assert.is_truthy(body:find('"properties":{"extra":{},"answer":{},"reasoning":{}}', 1, true), body)
    assert.is_nil(body:find("propertyOrdering", 1, true))
  end)

  it("may have a query in its address, as Azure's older kind has", function()
    web:script { ["/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21"] = {
      stream(message({ content = "ok" }, "stop")),
    } }
    local instance = make { baseUrl = web.url .. "/openai/deployments/my-gpt/?api-version=2024-10-21" }
    local _, last = model.ask(instance)
    assert.are.equal("ok", last.content.parts[1].text)
    assert.are.equal(web.url .. "/openai/deployments/my-gpt", instance.baseUrl)
  end)

  it("shows no key that stands in its address", function()
    web:script { ["/v1/chat/completions?code=s3cret-in-address"] = {
      server.json('{"error":{"message":"bad key s3cret-in-address"}}', { status = 401 }),
    } }
    local err = model.failure(make { baseUrl = web.url .. "/v1?code=s3cret-in-address" })
    assert.are.equal(401, err.status)
    assert.is_nil(tostring(err.message .. err.body):find("s3cret", 1, true))
  end)
end)

describe("a key that is a function", function()
  local web
  setup(function() web = server.start() end)
  teardown(function() web:stop() end)

  local WHOLE = { choices = { { message = { role = "assistant", content = "ok" }, finish_reason = "stop" } } }

  it("is asked before each request, and may wait", function()
    web:script { ["/chat/completions"] = server.json(WHOLE), ["/token"] = { body = "token-number-1" } }
    local asked = 0
    local instance = openai.new {
      model = "m", baseUrl = web.url, stream = false,
      apiKey = function()
        asked = asked + 1
        local job <close> = moonpad.http.request { url = web.url .. "/token" }
        return job:collect() .. asked
      end,
    }
    local agent = moonpad.agent { name = "A", model = instance }
    local runner = moonpad.runner { appName = "shop", agent = agent, sessionService = moonpad.open "memory:" }
    assert.are.equal("ok", (runner:ask { userId = "ann", newMessage = "Hi" }))
    assert.are.equal("ok", (runner:ask { userId = "ann", newMessage = "Hi" }))
    local keys = {}
    for _, request in ipairs(web:requests()) do keys[#keys + 1] = request.headers.authorization end
    assert.are.same({ "Bearer token-number-11", "Bearer token-number-12" }, keys)
  end)

  it("is shown nowhere, whichever it was", function()
    local tokens = { "first-token-0001", "other-token-0002" }
    local count = 0
    local instance = openai.new {
      model = "m", baseUrl = web.url, maxRetries = 0,
      apiKey = function()
        count = count + 1
        return tokens[count]
      end,
    }
    for _, token in ipairs(tokens) do
      web:script { ["/chat/completions"] = server.json(('{"error":"%s is wrong"}'):format(token), { status = 401 }) }
      local err = model.failure(instance)
      assert.is_nil((err.message .. err.body):find(token, 1, true))
      assert.is_truthy(err.message:find("[redacted] is wrong", 1, true), err.message)
    end
  end)

  it("says why it has none, as an error of the model's", function()
    local function failure(apiKey)
      local err = model.failure(openai.new { model = "m", baseUrl = web.url, apiKey = apiKey })
      assert.are.same({ "model", "openai", "m" }, { err.code, err.provider, err.model })
      return err.message
    end
    assert.are.equal("models.openai.apiKey: the vault is closed",
      failure(function() return nil, "the vault is closed" end))
    assert.matches("^models.openai.apiKey: .*the vault is closed", failure(function() error "the vault is closed" end))
  end)

  it("counts into the time of the request", function()
    local clock <close> = support.stopClock()
    web:script { ["/chat/completions"] = { hang = true } }
    local instance = openai.new {
      model = "m", baseUrl = web.url, timeoutMs = 100000, maxRetries = 0,
      apiKey = function()
        clock:advance(99.5)
        return "some-key"
      end,
    }
    local err = model.failure(instance)
    assert.are.equal("timeout", err.kind)
    -- What is left is the request's.
    local left = tonumber(err.message:match "not complete after (%d+) ms")
    assert.is_true(left ~= nil and left >= 490 and left < 50000, err.message)
  end)

  it("that gives none is an error that names it, and does not show what it gave", function()
    for given, said in pairs {
      [false] = "models.openai.apiKey: the function returned boolean, not a key",
      ["two words"] = "models.openai.apiKey: must not be empty, and contains neither blanks nor line ends",
    } do
      local err = model.failure(openai.new { model = "m", baseUrl = web.url, apiKey = function() return given end })
      assert.are.equal(said, err.message)
    end
    local failing = openai.new { model = "m", baseUrl = web.url, apiKey = function() error("no token today", 0) end }
    local err = model.failure(failing)
    assert.matches("no token today", tostring(err))
  end)
end)
