-- Against the wire format of https://docs.anthropic.com/en/api/messages and its page on streaming.
local anthropic = require "moonpad.models.anthropic"
local model = require "spec.support.model"
local moonpad = require "moonpad"
local server = require "spec.support.http"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

local function encode(...)
  local list = {}
  for index, object in ipairs { ... } do
    local data = type(object) == "string" and object or moonpad.json.encode(object)
    list[index] = ("event: %s\ndata: %s\n\n"):format(data:match '"type":"([%w_]+)"}?$' or "x", data)
  end
  return table.concat(list)
end

local START = { type = "message_start", message = {
  id = "msg_1", type = "message", role = "assistant", content = moonpad.array {}, model = "claude-test-1",
  stop_reason = moonpad.null, usage = { input_tokens = 20, cache_read_input_tokens = 5, output_tokens = 1 },
} }

local function open(index, block)
  return { type = "content_block_start", index = index, content_block = block }
end

local function delta(index, kind, field, value)
  return { type = "content_block_delta", index = index, delta = { type = kind, [field] = value } }
end

local function stop(index)
  return { type = "content_block_stop", index = index }
end

local function finish(reason)
  return {
    type = "message_delta", delta = { stop_reason = reason, stop_sequence = moonpad.null },
    usage = { output_tokens = 15 },
  }
end

local STOP = { type = "message_stop" }

local STREAM = encode(START, open(0, { type = "text", text = "" }), { type = "ping" },
  delta(0, "text_delta", "text", "Hel"), delta(0, "text_delta", "text", "lo ä€😀"), stop(0), finish "end_turn", STOP)

local WHOLE = {
  id = "msg_1", type = "message", role = "assistant", model = "claude-test-1", stop_reason = "end_turn",
  content = { { type = "text", text = "Hello ä€😀" } }, usage = { input_tokens = 20, output_tokens = 15 },
}

describe("models.anthropic", function()
  model.behavesWell {
    name = "anthropic", new = anthropic.new, path = "/messages", wholePath = "/messages", stream = STREAM,
    whole = WHOLE, text = "Hello ä€😀",
    failure = '{"type":"error","error":{"type":"api_error","message":"it is broken"}}',
  }

  local web
  setup(function() web = server.start() end)
  teardown(function() web:stop() end)

  local function make(options)
    local all = { model = "claude-sonnet-4-5", apiKey = "test-key", baseUrl = web.url }
    for key, value in pairs(options or {}) do all[key] = value end
    return anthropic.new(all)
  end

  local function textFor(request, options)
    web:script { ["/messages"] = server.stream(STREAM) }
    model.ask(make(options), request)
    return web:requests()[1].body
  end

  local function sentFor(request, options)
    return moonpad.json.decode(textFor(request, options))
  end

  describe("a request", function()
    it("has these bytes", function()
      assert.are.equal('{"max_tokens":64000,"messages":[{"content":[{"text":"Hi","type":"text"}],"role":"user"}],'
        .. '"model":"claude-sonnet-4-5","stream":true,"system":"Be brief.","temperature":0}',
        textFor(model.say("Hi", { systemInstruction = "Be brief.", config = { temperature = 0 } })))
      local headers = web:requests()[1].headers
      assert.are.same({ "test-key", "2023-06-01" }, { headers["x-api-key"], headers["anthropic-version"] })
    end)

    it("maps settings, and adds those of the API", function()
      local schema = { type = "object", properties = { a = { type = "string" } }, additionalProperties = false }
      local body = sentFor(model.say("Hi", {
        config = {
          temperature = 0.5, topK = 3, maxOutputTokens = 100, stopSequences = { "END" }, toolChoice = "any",
          responseSchema = schema, extra = { metadata = { user_id = "u" } },
        },
      }))
      body.messages = nil
      assert.are.same({
        model = "claude-sonnet-4-5", stream = true, temperature = 0.5, top_k = 3, max_tokens = 100,
        stop_sequences = { "END" }, tool_choice = { type = "any" }, metadata = { user_id = "u" },
        output_config = { format = { type = "json_schema", schema = schema } },
      }, body)
      body = sentFor(model.say("Hi", { config = { toolChoice = "f" }, tools = { { name = "f" } } }))
      assert.are.same({ type = "tool", name = "f" }, body.tool_choice)
      local err = model.failure(make(), model.say("Hi", { config = { seed = 3 } }))
      assert.are.equal("invalid_argument", err.code)
    end)

    it("offers tools", function()
      local text = textFor(model.say("Hi", {
        tools = { { name = "now", description = "The time", parameters = { required = {} } } },
      }))
      assert.is_truthy(text:find('"tools":[{"description":"The time","input_schema":'
        .. '{"properties":{},"required":[],"type":"object"},"name":"now"}]', 1, true), text)
    end)

    it("tells calls and their results, with exact numbers, results first, one message for a role", function()
      local text = textFor {
        contents = {
          { role = "user", parts = { { text = "a" } } },
          { role = "user", parts = { { text = "b" } } },
          {
            role = "model",
            parts = {
              { text = "hm", thought = true }, { text = "mine", thought = true, anthropic = { signature = "sig" } },
              { text = "", thought = true, anthropic = { redacted = "xyz" } }, { text = "" }, { text = "See:" },
              { functionCall = { id = "toolu_1", name = "f", args = { n = 9007199254740993 } } },
              { functionCall = { id = "not ok!", name = "g", args = {} } },
            },
          },
          {
            role = "user",
            parts = {
              { text = "now" },
              { functionResponse = { id = "toolu_1", name = "f", response = { error = "broken" } } },
              { functionResponse = { id = "not ok!", name = "g", response = { result = 3 } } },
            },
          },
        },
      }
      assert.are.equal('{"max_tokens":64000,"messages":['
        .. '{"content":[{"text":"a","type":"text"},{"text":"b","type":"text"}],"role":"user"},'
        .. '{"content":[{"signature":"sig","thinking":"mine","type":"thinking"},'
        .. '{"data":"xyz","type":"redacted_thinking"},{"text":"See:","type":"text"},'
        .. '{"id":"toolu_1","input":{"n":9007199254740993},"name":"f","type":"tool_use"},'
        .. '{"id":"moonpad_call_1","input":{},"name":"g","type":"tool_use"}],"role":"assistant"},'
        .. '{"content":[{"content":"{\\"error\\":\\"broken\\"}","is_error":true,"tool_use_id":"toolu_1",'
        .. '"type":"tool_result"},{"content":"{\\"result\\":3}","tool_use_id":"moonpad_call_1","type":"tool_result"},'
        .. '{"text":"now","type":"text"}],"role":"user"}],"model":"claude-sonnet-4-5","stream":true}', text)
    end)

    it("shows pictures and documents, and refuses what cannot be shown", function()
      local function with(part) return { contents = { { role = "user", parts = { part } } } } end
      local body = sentFor(with { inlineData = { mimeType = "image/png", data = "AAAA" } })
      assert.are.same({ type = "image", source = { type = "base64", media_type = "image/png", data = "AAAA" } },
        body.messages[1].content[1])
      body = sentFor(with { fileData = { mimeType = "application/pdf", fileUri = "https://x/y.pdf" } })
      assert.are.same({ type = "document", source = { type = "url", url = "https://x/y.pdf" } },
        body.messages[1].content[1])
      body = sentFor(with { fileData = { mimeType = "image/png", fileUri = "https://x/y.png" } })
      assert.are.same({ type = "image", source = { type = "url", url = "https://x/y.png" } },
        body.messages[1].content[1])
      local kinds = { ["image/png"] = "image", ["application/pdf"] = "document", ["text/plain"] = "document" }
      for mime, kind in pairs(kinds) do
        body = sentFor(with { fileData = { mimeType = mime, fileUri = "file_011CNha8" } })
        assert.are.same({ type = kind, source = { type = "file", file_id = "file_011CNha8" } },
          body.messages[1].content[1])
      end
      for _, part in ipairs {
        { inlineData = { mimeType = "audio/wav", data = "" } },
        { fileData = { mimeType = "image/png", fileUri = "gs://bucket/a.png" } },
        { fileData = { mimeType = "text/plain", fileUri = "https://x/y.txt" } },
      } do
        assert.are.equal("invalid_argument", model.failure(make(), with(part)).code)
      end
    end)

    it("shows plain text as a document", function()
      local function documentOf(mime, data)
        local part = { inlineData = { mimeType = mime, data = data } }
        local body = sentFor { contents = { { role = "user", parts = { part } } } }
        return body.messages[1].content[1]
      end
      local document = { type = "document", source = { type = "text", media_type = "text/plain", data = "Hä" } }
      assert.are.same(document, documentOf("text/plain", moonpad.base64.encode "Hä"))
      assert.are.same(document, documentOf("Text/CSV; charset=utf-8", moonpad.base64.encode "Hä"))
      for _, data in ipairs { "!", moonpad.base64.encode "\xFF" } do
        local err = model.failure(make(), { contents = { { role = "user", parts = {
          { inlineData = { mimeType = "text/plain", data = data } },
        } } } })
        assert.are.equal("invalid_argument", err.code)
        assert.matches("text that is not UTF-8", err.message, 1, true)
      end
    end)

    describe("says nothing where there are but blanks", function()
      local BLANK = " \t\n\u{A0}\u{3000}"

      local function messagesFor(...)
        local contents = {}
        for index, given in ipairs { ... } do
          contents[index] = { role = given[1], parts = table.move(given, 2, #given, 1, {}) }
        end
        return sentFor({ contents = contents }).messages
      end

      local function text(value) return { type = "text", text = value } end
      local CONTINUE = text "Continue as instructed."

      it("among other blocks", function()
        assert.are.same({ { role = "user", content = { text "a", text " b " } } },
          messagesFor { "user", { text = "a" }, { text = BLANK }, { text = " b " } })
      end)

      it("in a whole message, whose neighbours become one", function()
        assert.are.same({
          { role = "user", content = { text "a", text "b" } },
        }, messagesFor({ "user", { text = "a" } }, { "model", { text = BLANK } }, { "user", { text = "b" } }))
      end)

      it("in the first or the last message", function()
        assert.are.same({
          { role = "user", content = { CONTINUE } }, { role = "assistant", content = { text "b" } },
          { role = "user", content = { CONTINUE } },
        }, messagesFor({ "user", { text = BLANK } }, { "model", { text = "b" } }, { "user", { text = BLANK } }))
        assert.are.same({ { role = "user", content = { CONTINUE } } }, messagesFor { "user", { text = "\n" } })
        assert.are.same({ { role = "user", content = { CONTINUE } } }, messagesFor())
      end)

      it("in the result of a tool", function()
        local response = { id = "t", name = "f", response = {}, parts = { { text = BLANK }, { text = "x" } } }
        local messages = messagesFor({ "user", { text = "a" } },
          { "model", { functionCall = { id = "t", name = "f" } } }, { "user", { functionResponse = response } })
        assert.are.same({ text "{}", text "x" }, messages[3].content[1].content)
      end)

      it("in the instruction", function()
        assert.is_nil(sentFor(model.say("Hi", { systemInstruction = BLANK })).system)
        assert.are.equal(" x ", sentFor(model.say("Hi", { systemInstruction = " x " })).system)
      end)
    end)

    it("ends with a turn of the user", function()
      local body = sentFor { contents = { { role = "model", parts = { { text = "I did it." } } } } }
      assert.are.equal("user", body.messages[#body.messages].role)
    end)
  end)

  describe("an answer", function()
    local function answer(...)
      web:script { ["/messages"] = server.stream(encode(...)) }
      local partials, last = model.ask(make())
      return last, partials
    end

    it("has text, usage and the reason of its end", function()
      web:script { ["/messages"] = server.stream(STREAM) }
      local partials, last = model.ask(make())
      assert.are.same({ "Hel", "lo ä€😀" }, model.texts(partials))
      assert.are.same({
        content = { role = "model", parts = { { text = "Hello ä€😀" } } }, finishReason = "STOP",
        modelVersion = "claude-test-1",
        usageMetadata = {
          promptTokenCount = 25, candidatesTokenCount = 15, totalTokenCount = 40, cachedContentTokenCount = 5,
        },
      }, last)
    end)

    it("has calls, whose input comes in pieces", function()
      local last, partials = answer(START,
        open(0, { type = "text", text = "" }), delta(0, "text_delta", "text", "Both:"), stop(0),
        open(1, { type = "tool_use", id = "toolu_1", name = "f", input = {} }),
        delta(1, "input_json_delta", "partial_json", ""), delta(1, "input_json_delta", "partial_json", '{"n":90071992'),
        delta(1, "input_json_delta", "partial_json", '54740993,"x":3,"f":1.0,"l":[]}'), stop(1),
        open(2, { type = "tool_use", id = "toolu_2", name = "g", input = {} }), stop(2), finish "tool_use", STOP)
      assert.are.same({ "Both:" }, model.texts(partials))
      assert.are.equal('[{"text":"Both:"},{"functionCall":{"args":{"f":1.0,"l":[],"n":9007199254740993,"x":3},'
        .. '"id":"toolu_1","name":"f"}},{"functionCall":{"args":{},"id":"toolu_2","name":"g"}}]',
        moonpad.json.encode(model.parts(last)))
      assert.are.equal("STOP", last.finishReason)
    end)

    it("has thoughts with their signatures", function()
      local last, partials = answer(START,
        open(0, { type = "thinking", thinking = "", signature = "" }), delta(0, "thinking_delta", "thinking", "Hm"),
        delta(0, "thinking_delta", "thinking", "m."), delta(0, "signature_delta", "signature", "sig"), stop(0),
        open(1, { type = "redacted_thinking", data = "xyz" }), stop(1),
        open(2, { type = "text", text = "" }), delta(2, "text_delta", "text", "Yes"), stop(2), finish "end_turn", STOP)
      assert.are.same({ "(Hm)", "(m.)", "Yes" }, model.texts(partials))
      assert.are.same({
        { text = "Hmm.", thought = true, anthropic = { signature = "sig" } },
        { text = "", thought = true, anthropic = { redacted = "xyz" } }, { text = "Yes" },
      }, model.parts(last))
    end)

    it("keeps what Anthropic's servers did, and gives it back", function()
      local result = { type = "web_search_tool_result", tool_use_id = "s", content = moonpad.array {} }
      local last = answer(START, open(0, { type = "server_tool_use", id = "s", name = "web_search", input = {} }),
        delta(0, "input_json_delta", "partial_json", '{"query":"q"}'), stop(0), open(1, result), stop(1),
        open(2, { type = "text", text = "" }), delta(2, "citations_delta", "citation", { url = "u" }),
        delta(2, "text_delta", "text", "Found"), stop(2), { type = "something_new" }, finish "end_turn", STOP)
      assert.are.same({ url = "u" }, last.content.parts[3].anthropic.citations[1])
      local body = sentFor { contents = {
        { role = "user", parts = { { text = "q?" } } }, last.content, { role = "user", parts = { { text = "more" } } },
      } }
      assert.are.same({
        { type = "server_tool_use", id = "s", name = "web_search", input = { query = "q" } }, result,
        { type = "text", text = "Found", citations = { { url = "u" } } },
      }, body.messages[2].content)
    end)

    it("that comes whole keeps sources, and who called, and gives them back", function()
      local content = {
        { type = "text", text = "Found", citations = { { type = "web_search", encrypted_index = "e" } } },
        { type = "text", text = "that", citations = moonpad.null },
        { type = "tool_use", id = "t", name = "f", input = { a = 1 }, caller = { type = "code", tool_id = "s" } },
        { type = "tool_use", id = "u", name = "f", input = { a = 2 }, caller = { type = "direct" } },
      }
      web:script { ["/messages"] = server.json {
        type = "message", id = "m", stop_reason = "tool_use", content = content, usage = {},
      } }
      local _, last = model.ask(make { stream = false })
      local results = {}
      for index, id in ipairs { "t", "u" } do
        results[index] = { functionResponse = { id = id, name = "f", response = {} } }
      end
      content[2].citations, content[4].caller = nil, nil
      assert.are.same(content, sentFor({ contents = {
        { role = "user", parts = { { text = "q?" } } }, last.content, { role = "user", parts = results },
      } }).messages[2].content)
    end)

    it("may be cut off, refused, empty, paused", function()
      local function ending(reason)
        return (answer(START, open(0, { type = "text", text = "Once" }), stop(0), finish(reason), STOP))
      end
      assert.are.equal("MAX_TOKENS", ending("max_tokens").finishReason)
      assert.are.equal("SAFETY", ending("refusal").finishReason)
      assert.are.equal("PAUSE_TURN", ending("pause_turn").finishReason)
      local last = answer(START, finish "end_turn", STOP)
      assert.are.equal("MODEL_RETURNED_NO_CONTENT", last.errorCode)
      last = answer(START, finish "refusal", STOP)
      assert.are.same({ "SAFETY", "SAFETY" }, { last.errorCode, last.finishReason })
    end)

    it("may break off with an error that says so", function()
      web:script { ["/messages"] = server.stream(encode(START, open(0, { type = "text", text = "" }),
        { type = "error", error = { type = "overloaded_error", message = "Overloaded" } })) }
      assert.are.equal('anthropic "claude-sonnet-4-5": Overloaded', model.failure(make()).message)
    end)

    it("tells a call whose input was cut off", function()
      web:script { ["/messages"] = server.stream(encode(START,
        open(0, { type = "tool_use", id = "t", name = "f", input = {} }),
        delta(0, "input_json_delta", "partial_json", '{"a":'), stop(0), finish "max_tokens", STOP)) }
      assert.is_truthy(model.failure(make()).message:find("maxOutputTokens", 1, true))
    end)

    it("is not two at once", function()
      local function refused(...)
        web:script { ["/messages"] = server.stream(encode(...)) }
        return model.failure(make()).message
      end
      local other = { type = "message_start", message = { id = "msg_2", model = "x", usage = { input_tokens = 1 } } }
      local call = open(0, { type = "tool_use", id = "t", name = "f", input = {} })
      assert.matches("another message has begun", refused(START, call, other, finish "tool_use", STOP))
      assert.matches("another message has begun", refused(START, call, START, finish "tool_use", STOP))
      assert.matches("block 0 has begun already", refused(START, call, call, finish "tool_use", STOP))
      -- The same beginning, sent twice.
      local last = answer(START, START, open(0, { type = "text", text = "Hi" }), stop(0), finish "end_turn", STOP)
      assert.are.equal("Hi", last.content.parts[1].text)
    end)

    it("has no call whose input has not come", function()
      local function refused(...)
        web:script { ["/messages"] = server.stream(encode(START,
          open(0, { type = "tool_use", id = "t", name = "f", input = {} }), ...)) }
        return model.failure(make()).message
      end
      assert.matches("the input of f is not complete", refused(finish "tool_use", STOP))
      assert.matches("maxOutputTokens", refused(stop(0), finish "max_tokens", STOP))
      local cut = delta(0, "input_json_delta", "partial_json", '{"a":')
      assert.matches("maxOutputTokens", refused(cut, stop(0), finish "max_tokens", STOP))
      -- What is complete stays, also in front of what is cut off.
      local last = answer(START, open(0, { type = "tool_use", id = "t", name = "f", input = {} }), stop(0),
        open(1, { type = "text", text = "and" }), stop(1), finish "max_tokens", STOP)
      assert.are.same({}, last.content.parts[1].functionCall.args)
    end)

    it("may come whole, with thoughts and calls", function()
      web:script { ["/messages"] = server.json {
        type = "message", role = "assistant", stop_reason = "tool_use", usage = { input_tokens = 1, output_tokens = 2 },
        content = {
          { type = "thinking", thinking = "Hm", signature = "sig" }, { type = "text", text = "See" },
          { type = "tool_use", id = "t", name = "f", input = { a = 1 } },
        },
      } }
      local _, last = model.ask(make { stream = false })
      assert.are.same({
        { text = "Hm", thought = true, anthropic = { signature = "sig" } }, { text = "See" },
        { functionCall = { id = "t", name = "f", args = { a = 1 } } },
      }, model.parts(last))
    end)
  end)

  describe("a pause", function()
    local USE = { type = "server_tool_use", id = "s1", name = "web_search", input = { query = "q" } }
    local RESULT = { type = "web_search_tool_result", tool_use_id = "s1", content = moonpad.array {} }

    local function start(id)
      return { type = "message_start", message = {
        id = id, type = "message", model = "claude-x", usage = { input_tokens = 10, output_tokens = 1 },
      } }
    end

    local function piece(id, reason, ...)
      return server.stream(encode(start(id), ...) .. encode({
        type = "message_delta", delta = { stop_reason = reason },
        usage = { output_tokens = 15, cache_read_input_tokens = 4, output_tokens_details = { thinking_tokens = 3 },
          server_tool_use = { web_search_requests = 1 } },
      }, STOP), { split = 11 })
    end

    local function said(text)
      return open(0, { type = "text", text = "" }), delta(0, "text_delta", "text", text), stop(0)
    end

    local function isOneAnswer(partials, last)
      assert.are.same({ "Let me look.", "Found." }, model.texts(partials))
      assert.are.same({
        { text = "Let me look." }, { anthropic = { block = USE } }, { anthropic = { block = RESULT } },
        { text = "Found." },
      }, model.parts(last))
      assert.are.equal("STOP", last.finishReason)
      assert.are.same({
        promptTokenCount = 28, candidatesTokenCount = 30, totalTokenCount = 58, cachedContentTokenCount = 8,
        thoughtsTokenCount = 6,
      }, last.usageMetadata)
      assert.are.same({ webSearchRequests = 2 }, last.customMetadata)
      local first, second = web:sent(1), web:sent(2)
      assert.are.same({ role = "assistant", content = { { type = "text", text = "Let me look." }, USE } },
        table.remove(second.messages))
      assert.are.same(first, second)
      assert.are.equal(2, #web:requests())
    end

    local function scriptStreams()
      local a, b, c = said "Let me look."
      local d, e, f = said "Found."
      d.index, e.index, f.index = 1, 1, 1
      web:script { ["/messages"] = {
        piece("msg_1", "pause_turn", a, b, c, open(1, USE), stop(1)),
        piece("msg_2", "end_turn", open(0, RESULT), stop(0), d, e, f),
      } }
    end

    it("is gone on from: all is one answer", function()
      scriptStreams()
      isOneAnswer(model.ask(make(), model.say("Hi", { providerTools = { { type = "web_search_20250305" } } })))
    end)

    it("is gone on from where an answer comes whole", function()
      local usage = {
        input_tokens = 10, output_tokens = 15, cache_read_input_tokens = 4,
        output_tokens_details = { thinking_tokens = 3 }, server_tool_use = { web_search_requests = 1 },
      }
      web:script { ["/messages"] = {
        server.json { type = "message", id = "msg_1", stop_reason = "pause_turn", usage = usage,
          content = { { type = "text", text = "Let me look." }, USE } },
        server.json { type = "message", id = "msg_2", stop_reason = "end_turn", usage = usage,
          content = { RESULT, { type = "text", text = "Found." } } },
      } }
      local _, last = model.ask(make { stream = false })
      isOneAnswer({
        { partial = true, content = { role = "model", parts = { { text = "Let me look." } } } },
        { partial = true, content = { role = "model", parts = { { text = "Found." } } } },
      }, last)
    end)

    it("is one event of a run, and one message of the next request", function()
      scriptStreams()
      local service <close> = moonpad.open "memory:"
      local runner = moonpad.runner {
        appName = "app", sessionService = service, agent = moonpad.agent { name = "a", model = make() },
      }
      local events = support.run(runner, "Hi")
      assert.are.equal("Let me look.Found.", events[#events]:text())
      assert.are.equal(2, #support.stored(service).events)
      web:script { ["/messages"] = server.stream(STREAM) }
      support.run(runner, "And?")
      assert.are.same({ { type = "text", text = "Let me look." }, USE, RESULT, { type = "text", text = "Found." } },
        web:sent(1).messages[2].content)
    end)

    it("is not gone on from for ever", function()
      local replies = {}
      for index = 1, 8 do replies[index] = piece("msg_" .. index, "pause_turn", said(index .. " ")) end
      web:script { ["/messages"] = replies }
      local _, last = model.ask(make())
      assert.are.equal(6, #web:requests())
      assert.are.equal("PAUSE_TURN", last.finishReason)
      assert.are.equal(6, #last.content.parts)
      -- Each request has all that came so far, once.
      assert.are.equal(5, #web:sent(6).messages[2].content)
    end)

    it("ends where there is nothing to go on from, or a call that wants an answer", function()
      web:script { ["/messages"] = piece("msg_1", "pause_turn") }
      local _, last = model.ask(make())
      assert.are.equal("PAUSE_TURN", last.errorCode)
      assert.are.equal(1, #web:requests())
      web:script { ["/messages"] = piece("msg_1", "pause_turn",
        open(0, { type = "tool_use", id = "t", name = "f", input = { a = 1 } }), stop(0)) }
      _, last = model.ask(make())
      assert.are.equal("f", last.content.parts[1].functionCall.name)
      assert.are.equal(1, #web:requests())
    end)

    it("may end in an error, and be left", function()
      local paused = piece("msg_1", "pause_turn", said "Let me look.")
      web:script { ["/messages"] = { paused, server.json('{"error":{"message":"no more"}}', { status = 400 }) } }
      local err = model.failure(make())
      assert.are.same({ "model", 400 }, { err.code, err.status })
      web:script { ["/messages"] = { paused, { hang = true } } }
      local service <close> = moonpad.open "memory:"
      local runner = moonpad.runner {
        appName = "app", sessionService = service, agent = moonpad.agent { name = "a", model = make() },
      }
      local invocation = runner:start { userId = "u", sessionId = "s", newMessage = "Hi" }
      support.waitUntil("the second request", function()
        invocation:step()
        return #web:requests() == 2
      end)
      invocation:cancel()
      support.waitUntil("the end of the connection", function() return web:requests()[2].closed end)
      assert.are.equal(1, #support.stored(service).events)
    end)

    turns.rarely("may be left in the middle of what came after it", function()
      local rest = piece("msg_2", "end_turn", said "Found.")
      rest.split, rest.hold = nil, select(2, rest.body:find("\n\n", rest.body:find "Found%.", true))
      rest.body = rest.body .. (": nobody reads this\n"):rep(500000)
      web:script { ["/messages"] = { piece("msg_1", "pause_turn", said "Let me look."), rest } }
      local answer, _, _, closing = make():generate(model.say "Hi")
      do
        local _ <close> = closing
        assert.are.same({ "Let me look.", "Found." }, model.texts { answer(), answer() })
      end
      web:release()
      support.waitUntil("the end of the connection", function() return web:requests()[2].closed end)
      -- It was not the collector who has closed it.
      assert.is_function(answer)
    end)

    it("counts for the length of an answer", function()
      local long = piece("msg_1", "pause_turn", said(("x"):rep(3000)))
      web:script { ["/messages"] = { long, long, long, long } }
      local err = model.failure(make { maxResponseBytes = 8000 })
      assert.are.equal("limit", err.kind)
    end)
  end)

  it("goes through a run with tools, and gives thoughts back", function()
    web:script { ["/messages"] = {
      server.stream(encode(START,
        open(0, { type = "thinking", thinking = "" }), delta(0, "thinking_delta", "thinking", "Both"),
        delta(0, "signature_delta", "signature", "sig"), stop(0),
        open(1, { type = "tool_use", id = "t1", name = "add", input = {} }),
        delta(1, "input_json_delta", "partial_json", '{"a":1}'), stop(1),
        open(2, { type = "tool_use", id = "t2", name = "add", input = {} }),
        delta(2, "input_json_delta", "partial_json", '{"a":2}'), stop(2), finish "tool_use", STOP), { split = 7 }),
      server.stream(STREAM),
    } }
    local add = moonpad.tool {
      name = "add", run = function(args) return args.a == 2 and error("too much", 0) or args.a + 1 end,
    }
    local service = moonpad.open "memory:"
    local runner = moonpad.runner {
      appName = "app", sessionService = service,
      agent = moonpad.agent { name = "a", model = make(), tools = { add } },
    }
    local events = support.run(runner, "Add")
    assert.are.equal("Hello ä€😀", events[#events]:text())
    local messages = web:sent(2).messages
    assert.are.same({ type = "thinking", thinking = "Both", signature = "sig" }, messages[2].content[1])
    assert.are.same({
      { type = "tool_result", tool_use_id = "t1", content = '{"result":2}' },
      { type = "tool_result", tool_use_id = "t2", content = '{"error":"too much"}', is_error = true },
    }, messages[3].content)
  end)

  it("takes no call whose id is no text, and gives one without an id its own", function()
    local service <close>, ran = moonpad.open "memory:", 0
    local runner = moonpad.runner {
      appName = "app", sessionService = service, agent = moonpad.agent { name = "a", model = make(), tools = {
        { name = "t", run = function() ran = ran + 1 end },
      } },
    }
    local function answerWith(id)
      web:script { ["/messages"] = {
        server.stream(encode(START, open(0, { type = "tool_use", id = id, name = "t", input = {} }), stop(0),
          finish "tool_use", STOP)),
        server.stream(STREAM),
      } }
      return pcall(support.run, runner, "go")
    end
    for _, id in ipairs { 7, true, { a = 1 } } do
      local ok, err = answerWith(id)
      assert.are.same({ false, "model" }, { ok, err.code })
      assert.matches("content_block.id: expected a string, got ", err.message)
    end
    assert.are.equal(0, ran)
    local ok, events = answerWith(moonpad.null)
    assert.is_true(ok)
    assert.matches("^moonpad%-", events[1]:functionCalls()[1].id)
    assert.are.equal(1, ran)
  end)

  it("asks for its key by the name of the variable", function()
    local text = model.lua({},
      [[print(select(2, pcall(require("moonpad.models.anthropic").new, { model = "m" })).message)]])
    assert.is_truthy(text:find("ANTHROPIC_API_KEY", 1, true))
  end)
end)
