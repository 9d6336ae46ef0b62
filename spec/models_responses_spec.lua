-- Against the wire format of https://platform.openai.com/docs/api-reference/responses.
local merged = require "moonpad.util.merged"
local model = require "spec.support.model"
local moonpad = require "moonpad"
local openai = require "moonpad.models.openai"
local openaiModels = require "moonpad.models.openai_models"
local providers = require "moonpad.models.providers"
local server = require "spec.support.http"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

local encode = moonpad.json.encode

---- Streams

-- The events of a stream, each with what its type says in the text of `type`.
local function stream(list)
  local events = {}
  for index, event in ipairs(list) do
    local fields = merged(event)
    fields.type, fields.sequence_number = "response." .. event.type, index - 1
    events[index] = ("event: %s\ndata: %s\n\n"):format(fields.type, encode(fields))
  end
  return table.concat(events)
end

local function response(output, more)
  return merged({
    id = "resp_1", object = "response", created_at = 1700000000, model = "m-1", status = "completed",
    error = moonpad.null, incomplete_details = moonpad.null, output = moonpad.array(output),
    usage = {
      input_tokens = 19, output_tokens = 10, total_tokens = 29, input_tokens_details = { cached_tokens = 5 },
      output_tokens_details = { reasoning_tokens = 3 },
    },
  }, more)
end

local function message(text, more)
  return merged({
    id = "msg_1", type = "message", status = "completed", role = "assistant",
    content = { { type = "output_text", text = text, annotations = moonpad.array {}, logprobs = moonpad.array {} } },
  }, more)
end

local function call(id, arguments, more)
  return merged({
    id = "fc_" .. id, type = "function_call", status = "completed", call_id = "call_" .. id, name = "f",
    arguments = arguments,
  }, more)
end

local function reasoningItem(id, texts)
  local summary = {}
  for index, text in ipairs(texts or {}) do summary[index] = { type = "summary_text", text = text } end
  return {
    id = "rs_" .. id, type = "reasoning", summary = moonpad.array(summary), encrypted_content = "secret-" .. id,
  }
end

-- The events by which items come: for texts as the pieces given, which are the item's own text.
local CREATED = { type = "created", response = response({}, { status = "in_progress", usage = moonpad.null }) }

local function added(index, item)
  local begun = merged(item, { status = "in_progress" })
  if begun.content then begun.content = moonpad.array {} end
  if begun.summary then begun.summary = moonpad.array {} end
  if begun.arguments then begun.arguments = "" end
  begun.encrypted_content = nil
  return { type = "output_item.added", output_index = index, item = begun }
end

local function done(index, item)
  return { type = "output_item.done", output_index = index, item = item }
end

local function textDelta(index, text, more)
  return merged({ type = "output_text.delta", output_index = index, content_index = 0, delta = text }, more)
end

local function completed(output, more)
  return { type = "completed", response = response(output, more) }
end

local HELLO = message "Hello ä€😀"
local STREAM = stream {
  CREATED, added(0, HELLO),
  { type = "content_part.added", output_index = 0, content_index = 0, part = { type = "output_text", text = "" } },
  textDelta(0, "Hel"), textDelta(0, "lo ä€😀"),
  { type = "output_text.done", output_index = 0, content_index = 0, text = "Hello ä€😀" },
  done(0, HELLO), completed { HELLO },
}

describe("models.openai, responses", function()
  model.behavesWell {
    name = "openai", path = "/responses", wholePath = "/responses", stream = STREAM, whole = response { HELLO },
    text = "Hello ä€😀", failure = '{"error":{"message":"it is broken","type":"server_error","code":null}}',
    new = function(options)
      return openai.new(type(options) == "table" and merged({ api = "responses" }, options) or options)
    end,
  }

  local web
  setup(function() web = server.start() end)
  teardown(function() web:stop() end)

  local function script(...)
    web:script { ["/responses"] = { ... } }
  end

  local function make(options)
    local defaults = { model = "gpt-test", apiKey = "test-key", baseUrl = web.url, api = "responses" }
    return openai.new(merged(defaults, options))
  end

  -- A body as OpenAI's own server gets it.
  local function bodyOf(request, settings)
    local row = providers.named "openai"
    return model.bodyOf("openai_responses", request, merged({ provider = row, quirks = row.quirks }, settings))
  end

  local function inputOf(contents, name)
    return bodyOf({ contents = contents, model = name or "gpt-5.4" }).input
  end

  -- The parts of an answer, streamed and whole.
  local function partsOf(list, output)
    script(server.stream(stream(list)))
    local partials, streamed = model.ask(make())
    script(server.json(response(output)))
    local _, whole = model.ask(make { stream = false })
    assert.are.same(whole.content, streamed.content)
    assert.are.same(whole.usageMetadata, streamed.usageMetadata)
    return model.parts(streamed), model.texts(partials), streamed
  end

  describe("is chosen", function()
    local function pathOf(options)
      script(server.stream(STREAM))
      web:script { ["/responses"] = server.json(response { HELLO }), ["/chat/completions"] = server.json {
        choices = { { message = { content = "Hello" }, finish_reason = "stop" } } } }
      model.ask(make(merged({ stream = false }, options)))
      return web:requests()[1].path
    end

    it("by the option", function()
      assert.are.equal("/responses", pathOf { api = "responses", model = "anything" })
      assert.are.equal("/chat/completions", pathOf { api = "chat", model = "gpt-5" })
    end)

    it("by itself on OpenAI's own server, for models that need it", function()
      -- What is asked where, without asking.
      local function addressOf(options)
        local code = [[
          local http = require "moonpad.http"
          http.request = function(given) error(given.url, 0) end
          local model = require("moonpad.models.openai").new(%s)
          print((select(2, pcall(model.generate, model, { contents = {} }))))]]
        local keys = {}
        for name, value in pairs(options) do keys[#keys + 1] = ("%s = %q"):format(name, value) end
        local environment = { OPENAI_API_KEY = "k", OPENAI_BASE_URL = options.environment }
        return (model.lua(environment, code:format("{" .. table.concat(keys, ",") .. "}")):gsub("%s+$", ""))
      end
      for name, path in pairs {
        ["gpt-5"] = "responses", ["o3"] = "responses", ["gpt-5-codex"] = "responses", ["gpt-5.6-sol"] = "responses",
        ["codex-mini-latest"] = "responses", ["ft:o4-mini-2025-04-16:org::x"] = "responses",
        ["o4-mini-deep-research"] = "responses", ["computer-use-preview"] = "responses",
        ["gpt-4o"] = "chat/completions", ["gpt-5-chat-latest"] = "chat/completions",
      } do
        assert.are.equal("https://api.openai.com/v1/" .. path, addressOf { model = name })
      end
      assert.are.equal("https://eu.api.openai.com/v1/responses",
        addressOf { model = "gpt-5", baseUrl = "https://eu.api.openai.com/v1" })
      assert.are.equal("https://x.openai.azure.com/openai/v1/chat/completions",
        addressOf { model = "gpt-5", baseUrl = "https://x.openai.azure.com/openai/v1" })
      assert.are.equal("https://x.openai.azure.com/openai/v1/responses?api-version=preview",
        addressOf { model = "d", api = "responses",
          baseUrl = "https://x.openai.azure.com/openai/v1?api-version=preview" })
      assert.are.equal("https://api.openai.com/v1/chat/completions", addressOf { model = "gpt-5", api = "chat" })
    end)

    it("not for a server that the environment names", function()
      local code = [[
        require("moonpad.http").request = function(given) error(given.url, 0) end
        local model = require("moonpad.models.resolve").model "gpt-5"
        print((select(2, pcall(model.generate, model, { contents = {} }))))]]
      assert.are.equal("http://localhost:1/v1/chat/completions\n",
        model.lua({ OPENAI_BASE_URL = "http://localhost:1/v1" }, code))
    end)

    it("by a word that is known", function()
      local ok, err = pcall(make, { api = "completions" })
      assert.are.same({ false, "invalid_argument" }, { ok, err.code })
      assert.matches("models.openai.api", err.message, 1, true)
    end)

    it("without another name", function()
      assert.are.equal('moonpad.models.openai "gpt-test"', tostring(make()))
    end)
  end)

  describe("a request", function()
    it("has these bytes", function()
      script(server.stream(STREAM))
      model.ask(make { model = "gpt-5" }, model.say("Hi", {
        systemInstruction = "Be brief.", config = { maxOutputTokens = 9 },
        tools = { { name = "now", description = "", parameters = {} } },
      }))
      local sent = web:requests()[1]
      assert.are.equal("Bearer test-key", sent.headers.authorization)
      assert.are.equal('{"include":["reasoning.encrypted_content"],'
        .. '"input":[{"content":[{"text":"Hi","type":"input_text"}],"role":"user","type":"message"}],'
        .. '"instructions":"Be brief.","max_output_tokens":9,"model":"gpt-5","store":false,"stream":true,'
        .. '"tools":[{"name":"now","parameters":{"properties":{},"type":"object"},"strict":false,"type":"function"}]}',
        sent.body)
    end)

    it("of a model that does not think asks for no reasoning", function()
      local body = bodyOf { model = "gpt-4o", contents = {}, config = { temperature = 0.5, topP = 0.9 } }
      assert.are.same({ nil, nil, 0.5, 0.9 }, { body.include, body.reasoning, body.temperature, body.top_p })
    end)

    it("spells how much a model is to think", function()
      local function fields(name, reasoning, row)
        local body, leftOut = bodyOf({ model = name, contents = {}, config = { reasoning = reasoning } },
          row and { provider = providers.named(row), quirks = {} })
        return body.reasoning or leftOut
      end
      for _, case in ipairs {
        { "gpt-5", "high", { effort = "high", summary = "auto" } },
        { "gpt-5", "none", { effort = "minimal", summary = "auto" } },
        { "gpt-5.4", "none", { effort = "none" } }, { "o3", "none", { effort = "low", summary = "auto" } },
        { "gpt-4o", "low", { "reasoning" } }, { "ours", "low", { "reasoning" } },
        { "my-deployment", "low", { effort = "low", summary = "auto" }, "azure" },
      } do
        local name, reasoning, expected, row = table.unpack(case)
        assert.are.same({ name, reasoning, expected }, { name, reasoning, fields(name, reasoning, row) })
      end
    end)

    it("leaves out what the API or the model would refuse, and the answer says so", function()
      script(server.json(response { HELLO }))
      local config = {
        temperature = 1, topP = 1, seed = 7, presencePenalty = 1, frequencyPenalty = 1, stopSequences = { "x" },
        toolChoice = "any",
      }
      local _, last = model.ask(make { model = "o3", stream = false }, model.say("Hi", { config = config }))
      assert.are.same({ leftOut = {
        "frequencyPenalty", "presencePenalty", "seed", "stopSequences", "temperature", "topP",
      } }, last.customMetadata)
      local sent = web:sent()
      sent.input, sent.include = nil, nil
      assert.are.same({ model = "o3", store = false, tool_choice = "required" }, sent)
      local err = model.failure(make(), model.say("Hi", { config = { topK = 3 } }))
      assert.are.equal("invalid_argument", err.code)
      assert.is_truthy(err.message:find("config.extra", 1, true))
    end)

    it("holds answers to a schema: strictly where that can be said", function()
      local function format(config, quirks)
        return bodyOf({ contents = {}, config = config }, quirks and { quirks = quirks }).text
      end
      local schema = { type = "object", properties = { a = { type = "string" } }, required = { "a" } }
      local strict = merged(schema, { additionalProperties = false })
      assert.are.same({ format = { type = "json_schema", name = "answer", schema = strict, strict = true } },
        format { responseSchema = schema })
      local free = { type = "object", additionalProperties = { type = "string" } }
      assert.are.same({ format = { type = "json_schema", name = "answer", schema = free, strict = false } },
        format { responseSchema = free })
      assert.are.same({ format = { type = "json_object" } }, format { responseMimeType = "application/json" })
      assert.are.same({ format = { type = "json_object" } }, format({ responseSchema = schema }, { schema = "none" }))
      assert.is_nil(format {})
    end)

    it("offers the provider's own tools beside others, and takes further fields", function()
      local body = bodyOf {
        contents = {}, tools = { { name = "f", description = "Does", parameters = { type = "object" } } },
        providerTools = { { type = "web_search" } },
        config = { toolChoice = "f", extra = { store = true, text = { verbosity = "low" } } },
      }
      assert.are.same({ "function", "web_search" }, { body.tools[1].type, body.tools[2].type })
      assert.are.same({ true, { verbosity = "low" }, { type = "function", name = "f" } },
        { body.store, body.text, body.tool_choice })
    end)

    it("shows files, and refuses what cannot be shown", function()
      local function content(part)
        return inputOf({ { role = "user", parts = { { text = "See" }, part } } })[1].content[2]
      end
      assert.are.same({ type = "input_image", image_url = "data:image/png;base64,AAAA", detail = "auto" },
        content { inlineData = { mimeType = "image/png", data = "AAAA" } })
      assert.are.same({ type = "input_image", image_url = "https://x/y", detail = "auto" },
        content { fileData = { mimeType = "image/png", fileUri = "https://x/y" } })
      assert.are.same({ type = "input_file", filename = "a.pdf", file_data = "data:application/pdf;base64,AAAA" },
        content { inlineData = { mimeType = "application/pdf", data = "AAAA", displayName = "a.pdf" } })
      assert.are.same({ type = "input_file", filename = "file.txt", file_data = "data:text/plain;base64,AAAA" },
        content { inlineData = { mimeType = "text/plain", data = "AAAA" } })
      assert.are.same({ type = "input_file", file_url = "https://x/y" },
        content { fileData = { mimeType = "application/pdf", fileUri = "https://x/y" } })
      for _, part in ipairs {
        { inlineData = { mimeType = "audio/wav", data = "AAAA" } },
        { fileData = { mimeType = "application/pdf", fileUri = "gs://x/y" } }, { fileData = { fileUri = "https://x" } },
      } do
        local ok, err = pcall(content, part)
        assert.are.same({ false, "invalid_argument" }, { ok, err.code })
        assert.matches("^openai: a response cannot take ", err.message)
      end
    end)

    it("tells calls and their responses, with exact numbers and files", function()
      local list = inputOf {
        { role = "user", parts = { { text = "a" }, { text = "b" }, { text = "" } } },
        { role = "model", parts = {
          { text = "thinking", thought = true }, { text = "Let me" }, { text = " see." },
          { functionCall = { id = "call_1", name = "f", args = { n = 9007199254740993, x = 1.0 } } },
          { functionCall = { id = "call_2", name = "g", args = "{broken" } },
        } },
        { role = "user", parts = {
          { functionResponse = { id = "call_1", name = "f", response = { result = 3 } } },
          { functionResponse = { id = "call_2", name = "g", response = {}, parts = {
            { inlineData = { mimeType = "image/png", data = "AAAA" } }, { text = "so" },
            { inlineData = { mimeType = "audio/wav", data = "AAAA" } },
          } } },
          { text = "Go on" },
        } },
      }
      assert.are.same({
        { type = "message", role = "user", content = {
          { type = "input_text", text = "a" }, { type = "input_text", text = "b" },
        } },
        { type = "message", role = "assistant", content = "Let me see." },
        { type = "function_call", call_id = "call_1", name = "f", arguments = '{"n":9007199254740993,"x":1.0}' },
        { type = "function_call", call_id = "call_2", name = "g", arguments = "{broken" },
        { type = "function_call_output", call_id = "call_1", output = '{"result":3}' },
        { type = "function_call_output", call_id = "call_2", output = {
          { type = "input_text", text = "{}" },
          { type = "input_image", image_url = "data:image/png;base64,AAAA", detail = "auto" },
          { type = "input_text", text = "so" },
          { type = "input_text", text = "(a file of type audio/wav that cannot be shown here)" },
        } },
        { type = "message", role = "user", content = { { type = "input_text", text = "Go on" } } },
      }, list)
    end)

    it("gives ids of its own to calls whose ids the API would not take", function()
      local long = ("x"):rep(65)
      local function asked(id) return { functionCall = { id = id, name = "f", args = {} } } end
      local function answered(id) return { functionResponse = { id = id, name = "f", response = {} } } end
      local ids = { asked = {}, answered = {} }
      for _, item in ipairs(inputOf {
        { role = "model", parts = { asked(long), asked "same", asked(nil), asked(("y"):rep(64)) } },
        { role = "user", parts = { answered(long), answered "same", answered(nil), answered(("y"):rep(64)) } },
        { role = "model", parts = { asked "same" } },
        { role = "user", parts = { answered "same" } },
      }) do
        local list = ids[item.type == "function_call" and "asked" or "answered"]
        list[#list + 1] = item.call_id
      end
      assert.are.same(ids.asked, ids.answered)
      local seen = {}
      for _, id in ipairs(ids.asked) do
        assert.is_true(#id <= 64 and not seen[id])
        seen[id] = true
      end
      assert.are.equal(5, #ids.asked)
      assert.are.equal(("y"):rep(64), ids.asked[4])
    end)
  end)

  describe("an answer", function()
    it("has thoughts, texts and calls, in their order", function()
      local output = {
        reasoningItem("1", { "Hm", "So" }), message("See:", { phase = "commentary" }), call("1", '{"a":1}'),
        reasoningItem "2", call("2", "{}"),
      }
      local parts, texts, last = partsOf({
        CREATED, added(0, output[1]),
        { type = "reasoning_summary_part.added", output_index = 0, summary_index = 0, part = {} },
        { type = "reasoning_summary_text.delta", output_index = 0, summary_index = 0, delta = "H" },
        { type = "reasoning_summary_text.delta", output_index = 0, summary_index = 0, delta = "m" },
        { type = "reasoning_summary_text.delta", output_index = 0, summary_index = 1, delta = "So" },
        done(0, output[1]), added(1, output[2]), textDelta(1, "Se"), textDelta(1, "e:"), done(1, output[2]),
        added(2, output[3]), { type = "function_call_arguments.delta", output_index = 2, delta = '{"a"' },
        { type = "function_call_arguments.done", output_index = 2, arguments = '{"a":1}' }, done(2, output[3]),
        added(3, output[4]), done(3, output[4]), added(4, output[5]), done(4, output[5]), completed(output),
      }, output)
      assert.are.same({ "(H)", "(m)", "(\n\nSo)", "Se", "e:" }, texts)
      assert.are.same({
        { text = "Hm\n\nSo", thought = true, openai = { item = output[1] } },
        { text = "See:", openai = { phase = "commentary" } },
        { functionCall = { id = "call_1", name = "f", args = { a = 1 } } },
        { text = "", thought = true, openai = { item = output[4] } },
        { functionCall = { id = "call_2", name = "f", args = {} } },
      }, parts)
      assert.are.equal("STOP", last.finishReason)
      assert.are.equal("m-1", last.modelVersion)
      assert.are.same({
        promptTokenCount = 19, candidatesTokenCount = 10, totalTokenCount = 29, cachedContentTokenCount = 5,
        thoughtsTokenCount = 3,
      }, last.usageMetadata)
    end)

    it("has thoughts that are not encrypted, of open models", function()
      local open = { type = "reasoning", id = "rs_1", summary = moonpad.array {},
        content = { { type = "reasoning_text", text = "Hm" } } }
      -- OpenRouter tells that the thoughts are done when the text is.
      local parts, texts = partsOf({
        CREATED, added(0, open), { type = "reasoning_text.delta", output_index = 0, content_index = 0, delta = "Hm" },
        added(1, HELLO), textDelta(1, "Hello ä€😀"), done(1, HELLO), done(0, open), completed { open, HELLO },
      }, { open, HELLO })
      assert.are.same({ "(Hm)", "Hello ä€😀" }, texts)
      assert.are.same({ { text = "Hm", thought = true, openai = { item = open } }, { text = "Hello ä€😀" } }, parts)
    end)

    it("is told by the last event where no item came before", function()
      script(server.stream(stream { CREATED, completed { reasoningItem("1", { "Hm" }), HELLO, call("1", "{}") } }))
      local partials, last = model.ask(make())
      assert.are.same({ "(Hm)", "Hello ä€😀" }, model.texts(partials))
      assert.are.equal("f", last.content.parts[3].functionCall.name)
    end)

    it("is what its items have said, whatever the last event repeats", function()
      local asked = call("1", "{}")
      script(server.stream(stream {
        CREATED, added(0, asked), done(0, asked), added(1, HELLO), textDelta(1, "Hello"), done(1, HELLO),
        completed { HELLO, asked, call("2", "{}") },
      }))
      local _, last = model.ask(make())
      assert.are.same({
        { functionCall = { id = "call_1", name = "f", args = {} } }, { text = "Hello" },
      }, model.parts(last))
    end)

    it("may be a refusal", function()
      local refusal = message("", { content = { { type = "refusal", refusal = "I cannot." } } })
      local parts, texts, last = partsOf({
        CREATED, added(0, refusal),
        { type = "refusal.delta", output_index = 0, content_index = 0, delta = "I cannot." },
        done(0, refusal), completed { refusal },
      }, { refusal })
      assert.are.same({ { "I cannot." }, { { text = "I cannot." } }, "SAFETY" }, { texts, parts, last.finishReason })
    end)

    it("may end before its time", function()
      for reason, expected in pairs { max_output_tokens = "MAX_TOKENS", content_filter = "SAFETY", other = "OTHER" } do
        local more = { status = "incomplete", incomplete_details = { reason = reason } }
        local cut = message("Hel", { status = "incomplete" })
        script(server.stream(stream {
          CREATED, added(0, cut), textDelta(0, "Hel"), done(0, cut),
          { type = "incomplete", response = response({ cut }, more) },
        }))
        local _, last = model.ask(make())
        assert.are.same({ "Hel", expected }, { last.content.parts[1].text, last.finishReason })
        script(server.json(response({}, more)))
        _, last = model.ask(make { stream = false })
        assert.are.same({ expected, expected }, { last.finishReason, last.errorCode })
      end
    end)

    it("never has half a call", function()
      local half, more = call("1", '{"a":', { status = "incomplete" }), { status = "incomplete" }
      more.incomplete_details = { reason = "max_output_tokens" }
      for _, list in ipairs {
        { done(0, half), { type = "incomplete", response = response({ half }, more) } },
        { done(0, call("1", "", { status = moonpad.null })), { type = "incomplete", response = response({}, more) } },
        { { type = "incomplete", response = response({}, more) } },
      } do
        script(server.stream(stream { CREATED, added(0, half), table.unpack(list) }))
        local err = model.failure(make())
        assert.are.equal('openai "gpt-test": the call of f was cut off (MAX_TOKENS); raise config.maxOutputTokens',
          err.message)
      end
      script(server.json(response({ half }, more)))
      assert.matches("was cut off", model.failure(make { stream = false }).message)
      for _, last in ipairs { {}, { half } } do
        script(server.stream(stream { CREATED, added(0, half), completed(last) }))
        assert.matches("was cut off", model.failure(make()).message)
      end
      -- A call of a program is complete, and goes on nevertheless.
      script(server.json(response { call("1", "{}", { status = "in_progress" }) }))
      local _, last = model.ask(make { stream = false })
      assert.are.same({}, last.content.parts[1].functionCall.args)
    end)

    it("is an error wherever the stream is cut", function()
      local text = stream {
        CREATED, added(0, call("1", '{"a":1}')),
        { type = "function_call_arguments.delta", output_index = 0, delta = "{}" },
        { type = "function_call_arguments.done", output_index = 0, arguments = '{"a":1}' },
        done(0, call("1", '{"a":1}')), completed { call("1", '{"a":1}') },
      }
      local _, lastEvent = text:find ".*\n\nevent: "
      for stop = 1, lastEvent, 40 do
        script(server.stream(text:sub(1, stop)))
        assert.matches("ended before the answer was complete", model.failure(make()).message)
      end
      script(server.stream(text:sub(1, lastEvent - #"event: ") .. "data: [DONE]\n\n"))
      assert.matches("ended before the answer was complete", model.failure(make()).message)
    end)

    it("may be an error of the server's, in each of its forms", function()
      local said = { code = "rate_limit_exceeded", message = "too much" }
      for expected, event in pairs {
        ["too much"] = { type = "failed", response = response({}, { status = "failed", error = said }) },
        ["the response has failed"] = { type = "failed", response = response({}, { status = "failed" }) },
      } do
        script(server.stream(stream { CREATED, event }))
        assert.are.equal('openai "gpt-test": ' .. expected, model.failure(make()).message)
        script(server.json(event.response))
        assert.are.equal('openai "gpt-test": ' .. expected, model.failure(make { stream = false }).message)
      end
      for _, event in ipairs {
        merged({ type = "error", sequence_number = 1, param = moonpad.null }, said), { type = "error", error = said },
      } do
        script(server.stream(stream { CREATED } .. "event: error\ndata: " .. encode(event) .. "\n\n"))
        assert.are.equal('openai "gpt-test": too much', model.failure(make()).message)
      end
    end)

    it("in the background is none", function()
      script(server.json(response({}, { status = "queued" })))
      assert.matches("neither content nor a reason to end", model.failure(make { stream = false }).message)
    end)

    it("passes over events that are not known, and keeps items that are not", function()
      local strange = { type = "new_thing", id = "nt_1", field = { 1 } }
      local parts = partsOf({
        CREATED, { type = "new_event", output_index = 7 }, added(0, strange), done(0, strange),
        added(1, HELLO), textDelta(1, "Hello ä€😀"), done(1, HELLO), completed { strange, HELLO },
      }, { strange, HELLO })
      assert.are.same({ { openai = { item = strange } }, { text = "Hello ä€😀" } }, parts)
      assert.are.same(strange, inputOf({ { role = "model", parts = parts } })[1])
    end)

    it("has citations, and keeps what is cited", function()
      local annotations = {
        { type = "url_citation", url = "https://x", title = "X", start_index = 0, end_index = 3 },
        { type = "file_citation", file_id = "file-1", filename = "a.pdf", index = 2 },
      }
      local cited = message("Hello", {
        content = { { type = "output_text", text = "Hello", annotations = annotations } },
      })
      local parts, _, last = partsOf({
        CREATED, added(0, cited), textDelta(0, "Hello"), done(0, cited), completed { cited },
      }, { cited })
      assert.are.same({ { text = "Hello", openai = { annotations = annotations } } }, parts)
      assert.are.same({ citations = { { startIndex = 0, endIndex = 3, uri = "https://x", title = "X" } } },
        last.citationMetadata)
    end)

    it("has pictures", function()
      local picture = { type = "image_generation_call", id = "ig_1", status = "completed", result = "AAAA" }
      local given = merged(picture, { output_format = "webp", quality = "low", background = "opaque" })
      local parts = partsOf({
        CREATED, added(0, { type = "image_generation_call", id = "ig_1" }),
        { type = "image_generation_call.partial_image", output_index = 0, partial_image_b64 = "BBBB" },
        done(0, given), completed { given },
      }, { given })
      assert.are.same({ mimeType = "image/webp", data = "AAAA" }, parts[1].inlineData)
      script(server.json(response { picture }))
      local _, last = model.ask(make { stream = false })
      assert.are.equal("image/png", last.content.parts[1].inlineData.mimeType)
      assert.are.same(picture, inputOf({ { role = "model", parts = parts } })[1])
    end)
  end)

  describe("what the server gave", function()
    local function thought(id)
      return { text = "Hm", thought = true, openai = { item = reasoningItem(id) } }
    end

    local function named(list)
      local names = {}
      for index, item in ipairs(list) do
        names[index] = item.encrypted_content or item.call_id or item.role or item.type
      end
      return names
    end

    local CALL = { functionCall = { id = "call_1", name = "f", args = {} } }
    local RESULT = { functionResponse = { id = "call_1", name = "f", response = {} } }

    it("goes back where it stood, in a run, to that server only, without ids that it would look up", function()
      local found = {
        reasoningItem("1", { "Hm" }), { type = "web_search_call", id = "ws_1", status = "completed",
          action = { type = "search", query = "x" } },
        { type = "code_interpreter_call", id = "ci_1", status = "completed", code = "1", container_id = "c",
          outputs = moonpad.null },
        message("See:", { phase = "commentary" }), call("1", '{"a":1}'),
      }
      web:script { ["/responses"] = { server.json(response(found)), server.json(response { HELLO }) } }
      local first = make { model = "gpt-5.4", stream = false }
      local service <close> = moonpad.open "memory:"
      local function run(instance, text)
        local agent = moonpad.agent { name = "a", model = instance, tools = { { name = "f", run = function()
          return 1
        end } } }
        local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
        return support.run(runner, text)
      end
      local events = run(first, "Hi")
      assert.are.equal("Hello ä€😀", events[#events]:text())
      local sent = web:sent(2).input
      assert.are.same({
        { type = "reasoning", summary = { { type = "summary_text", text = "Hm" } }, encrypted_content = "secret-1" },
        { type = "web_search_call", status = "completed", action = { type = "search", query = "x" } },
        found[3],
        { type = "message", role = "assistant", content = "See:", phase = "commentary" },
        { type = "function_call", call_id = "call_1", name = "f", arguments = '{"a":1}' },
        { type = "function_call_output", call_id = "call_1", output = '{"result":1}' },
      }, table.move(sent, 2, 7, 1, {}))
      -- The first request is how the second begins.
      assert.are.same(web:sent(1).input[1], sent[1])
      local other = server.start()
      finally(function() other:stop() end)
      other:script { ["/responses"] = server.json(response { HELLO }) }
      run(make { model = "gpt-5.4", stream = false, baseUrl = other.url }, "Again")
      local names = named(other:sent().input)
      assert.are.same({ "user", "assistant", "call_1", "call_1", "assistant", "user" }, names)
      assert.is_nil(other:requests()[1].body:find("secret-1", 1, true))
    end)

    it("in front of nothing is not sent: what has lost what it led to", function()
      for _, case in ipairs {
        { { thought "1", CALL }, { "secret-1", "call_1", "user" } },
        { { thought "1" }, { "user" } },
        { { thought "1", thought "2", CALL }, { "secret-2", "call_1", "user" } },
        { { thought "1", { text = "" } }, { "user" } },
        { { CALL, thought "1" }, { "call_1", "user" } },
        { { thought "1", { text = "Yes" }, CALL, thought "2" }, { "secret-1", "assistant", "call_1", "user" } },
      } do
        local parts, expected = table.unpack(case)
        assert.are.same(expected, named(inputOf { { role = "model", parts = parts } }))
      end
      -- Nor is it joined with what another answer says.
      assert.are.same({ "assistant", "user" }, named(inputOf {
        { role = "model", parts = { thought "1" } }, { role = "model", parts = { { text = "Yes" } } },
      }))
    end)

    it("keeps texts of different phases apart", function()
      local function text(value, phase) return { text = value, openai = { phase = phase } } end
      local parts = { text("a", "commentary"), text("b", "commentary"), text("c", "final_answer"), text "d" }
      local said = {}
      for index, item in ipairs(inputOf { { role = "model", parts = parts } }) do
        said[index] = item.role == "assistant" and { item.content, item.phase } or nil
      end
      assert.are.same({ { "ab", "commentary" }, { "c", "final_answer" }, { "d" } }, said)
    end)

    it("is not sent to a model that does not think", function()
      local contents = { { role = "model", parts = { thought "1", { text = "Yes" } } } }
      assert.are.same({ "assistant", "user" }, named(inputOf(contents, "gpt-4o")))
      assert.are.same({ "secret-1", "assistant", "user" }, named(inputOf(contents, "gpt-5.4")))
      local body = model.bodyOf("openai_responses", { model = "gpt-oss:20b", contents = contents })
      assert.are.same({ "secret-1", "assistant", "user" }, named(body.input))
    end)

    it("is not sent where the server itself could not read it", function()
      local bare = { text = "Hm", thought = true, openai = { field = "reasoning_content" } }
      local contents = { { role = "model", parts = { bare, { text = "Yes" } } } }
      assert.are.same({ "assistant", "user" }, named(inputOf(contents)))
      script(server.json(response { { type = "reasoning", id = "rs_1", summary = {
        { type = "summary_text", text = "Hm" } }, encrypted_content = moonpad.null }, HELLO }))
      local _, last = model.ask(make { stream = false })
      assert.are.same({ { text = "Hm", thought = true }, { text = "Hello ä€😀" } }, model.parts(last))
    end)

    it("is not sent if it asks for what nobody has done", function()
      local function item(fields) return { openai = { item = fields } } end
      assert.are.same({ "user" }, named(inputOf { { role = "model", parts = {
        thought "1", item { type = "custom_tool_call", call_id = "c", name = "x", input = "" },
        item { type = "mcp_approval_request", id = "mcpr_1", name = "x" },
        item { type = "tool_search_call", call_id = "d", execution = "client" },
      } } }))
      local parts = {
        thought "1", item { type = "shell_call", id = "sh_1", call_id = "c", created_by = "x" },
        item { type = "shell_call_output", id = "sho_1", call_id = "c", output = {} },
        item { type = "tool_search_call", id = "ts_1", call_id = moonpad.null, execution = "server" },
        -- xAI's servers give ids to what they run themselves.
        item { type = "web_search_call", id = "ws_1", call_id = "e", action = { type = "search" } },
      }
      local list = inputOf { { role = "model", parts = parts } }
      assert.are.same({ "secret-1", "c", "c", moonpad.null, "e", "user" }, named(list))
      for _, sent in ipairs(list) do assert.are.same({}, { sent.id, sent.created_by }) end
    end)

    it("ties a call to the program that makes it", function()
      local caller = { type = "program", caller_id = "call_p" }
      local program = { type = "program", id = "cm_1", call_id = "call_p", code = "f()", fingerprint = "x" }
      script(server.json(response { program, call("1", "{}", { caller = caller, namespace = "n" }) }))
      local _, last = model.ask(make { stream = false })
      local list = inputOf { { role = "model", parts = last.content.parts }, { role = "user", parts = { RESULT } } }
      -- From another address than the one of this body.
      assert.are.same({ program, caller, "n", caller }, { list[1], list[2].caller, list[2].namespace, list[3].caller })
    end)
  end)

  it("runs an agent with tools, streamed", function()
    local asked = call("1", '{"a":2}')
    web:script { ["/responses"] = {
      server.stream(stream { CREATED, added(0, asked), done(0, asked), completed { asked } }), server.stream(STREAM),
    } }
    local seen
    local service <close> = moonpad.open "memory:"
    local agent = moonpad.agent { name = "a", model = make(), tools = { { name = "f", run = function(args)
      seen = args.a
      return { sum = 3 }
    end } } }
    local events = support.run(moonpad.runner { appName = "app", agent = agent, sessionService = service }, "Hi")
    assert.are.same({ 2, "Hello ä€😀" }, { seen, events[#events]:text() })
    assert.are.same({ type = "function_call_output", call_id = "call_1", output = '{"sum":3}' }, web:sent(2).input[3])
  end)
end)

describe("the names of OpenAI's models say", function()
  it("how much they can be told to think", function()
    for _, case in ipairs {
      { "gpt-5", "minimal", "low" }, { "gpt-5-codex", "low", "low" }, { "gpt-5-pro", "high", "high" },
      { "gpt-5.1", "none", "low" }, { "gpt-5.1-codex-max", "low", "low" }, { "gpt-5.2-pro", "medium", "medium" },
      { "gpt-5.3-codex", "none", "low" }, { "gpt-5.3-chat-latest", "medium", "medium" },
      { "openai/gpt-5.6-sol", "none", "low" }, { "o3", "low", "low" }, { "o3-deep-research", "medium", "medium" },
      { "ft:o4-mini-2025-04-16:org::x", "low", "low" }, { "gpt-6", "low", "low" },
      { "gpt-5-chat-latest" }, { "gpt-4o" }, { "gpt-oss:20b" },
    } do
      local name, none, low = table.unpack(case)
      assert.are.same({ none, low }, { openaiModels.effort(name, "none"), openaiModels.effort(name, "low") }, name)
    end
  end)

  it("whether they take a temperature", function()
    local function takes(name, reasoning)
      for _, setting in ipairs(openaiModels.refused(name, reasoning)) do
        if setting == "temperature" then return false end
      end
      return true
    end
    for _, case in ipairs {
      -- without a word, with "none", with "low"
      { "gpt-4o", true, true, true }, { "gpt-5-chat-latest", true, true, true }, { "gpt-5", false, false, false },
      { "gpt-5.2", true, true, false }, { "gpt-5.4", true, true, false }, { "gpt-5.6-sol", false, true, false },
      { "gpt-5.4-pro", false, false, false }, { "gpt-5.2-chat-latest", false, false, false },
      { "gpt-5.1-codex", false, false, false }, { "o3", false, false, false },
    } do
      local name = case[1]
      assert.are.same(case, { name, takes(name), takes(name, "none"), takes(name, "low") })
    end
  end)
end)
