-- Against the wire format of https://ai.google.dev/api/generate-content (v1beta).
local gemini = require "moonpad.models.gemini"
local model = require "spec.support.model"
local moonpad = require "moonpad"
local server = require "spec.support.http"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

local function chunk(parts, reason, more)
  local object = {
    candidates = { { content = { role = "model", parts = parts }, finishReason = reason, index = 0 } },
    modelVersion = "gemini-test-001",
  }
  for key, value in pairs(more or {}) do object[key] = value end
  return moonpad.json.encode(object)
end

local USAGE = { usageMetadata = {
  promptTokenCount = 4, candidatesTokenCount = 5, totalTokenCount = 12, thoughtsTokenCount = 3,
  promptTokensDetails = { { modality = "TEXT", tokenCount = 4 } },
} }

local STREAM = { chunk { { text = "Hel" } }, chunk({ { text = "lo ä€😀" } }, "STOP", USAGE) }
local WHOLE = chunk({ { text = "Hello ä€😀" } }, "STOP", USAGE)

local STREAM_PATH = "/models/m:streamGenerateContent?alt=sse"
local WHOLE_PATH = "/models/m:generateContent"

describe("models.gemini", function()
  model.behavesWell {
    name = "gemini", new = gemini.new, path = STREAM_PATH, wholePath = WHOLE_PATH,
    stream = server.stream(STREAM).body, whole = WHOLE, text = "Hello ä€😀",
    failure = '{"error":{"code":500,"message":"it is broken","status":"INTERNAL"}}',
  }

  local web
  setup(function() web = server.start() end)
  teardown(function() web:stop() end)

  local function script(...)
    web:script { [STREAM_PATH] = { ... } }
  end

  local function make(options)
    local all = { model = "m", apiKey = "test-key", baseUrl = web.url }
    for key, value in pairs(options or {}) do all[key] = value end
    return gemini.new(all)
  end

  local function textFor(request)
    script(server.stream(STREAM))
    model.ask(make(), request)
    return web:requests()[1].body
  end

  local function sentFor(request)
    return moonpad.json.decode(textFor(request))
  end

  describe("a request", function()
    it("has these bytes", function()
      assert.are.equal('{"contents":[{"parts":[{"text":"Hi"}],"role":"user"}],"generationConfig":{"temperature":0},'
        .. '"systemInstruction":{"parts":[{"text":"Be brief."}]}}',
        textFor(model.say("Hi", { systemInstruction = "Be brief.", config = { temperature = 0 } })))
      local sent = web:requests()[1]
      assert.are.equal("test-key", sent.headers["x-goog-api-key"])
      assert.is_nil(sent.path:find("key", 1, true))
    end)

    it("goes to the path of its model", function()
      web:script {
        ["/tunedModels/a%20b:generateContent"] = server.json(WHOLE),
        ["/models/gemini-x:generateContent"] = server.json(WHOLE),
      }
      model.ask(make { stream = false, model = "tunedModels/a b" })
      model.ask(make { stream = false, model = "gemini-x" })
      model.ask(make { stream = false, model = "models/gemini-x" })
      assert.are.equal(3, #web:requests())
    end)

    it("maps settings, and adds those of the API", function()
      local schema = { type = "object", properties = {}, required = {} }
      local body = sentFor(model.say("Hi", {
        tools = { { name = "f" } },
        config = {
          temperature = 0.5, topP = 0.9, topK = 3, maxOutputTokens = 100, stopSequences = { "END" }, seed = 7,
          presencePenalty = 0.1, frequencyPenalty = 0.2, responseSchema = schema, toolChoice = "f",
          extra = {
            safetySettings = { { category = "X", threshold = "OFF" } },
            generationConfig = { thinkingConfig = { thinkingBudget = 0 } },
          },
        },
      }))
      assert.are.same({
        temperature = 0.5, topP = 0.9, topK = 3, maxOutputTokens = 100, stopSequences = { "END" }, seed = 7,
        presencePenalty = 0.1, frequencyPenalty = 0.2, responseMimeType = "application/json",
        responseJsonSchema = schema, thinkingConfig = { thinkingBudget = 0 },
      }, body.generationConfig)
      assert.are.same({ { category = "X", threshold = "OFF" } }, body.safetySettings)
      assert.are.same({ functionCallingConfig = { mode = "ANY", allowedFunctionNames = { "f" } } }, body.toolConfig)
      body = sentFor(model.say("Hi", { config = { toolChoice = "none" } }))
      assert.are.same({ functionCallingConfig = { mode = "NONE" } }, body.toolConfig)
    end)

    it("offers tools", function()
      local text = textFor(model.say("Hi", {
        tools = {
          { name = "now", description = "The time", parameters = { type = "object", properties = {}, required = {} } },
        },
      }))
      assert.is_truthy(text:find('"tools":[{"functionDeclarations":[{"description":"The time","name":"now",'
        .. '"parametersJsonSchema":{"properties":{},"required":[],"type":"object"}}]}]', 1, true), text)
    end)

    it("tells calls and their responses, with exact numbers, signatures, and no ids that are not Gemini's", function()
      local text = textFor {
        contents = {
          { role = "user", parts = { { text = "a" } } },
          {
            role = "model",
            parts = {
              { text = "secret thought", thought = true },
              { text = "Let me see.", thoughtSignature = "sig0" },
              {
                functionCall = { id = "moonpad-1", name = "f", args = { n = 9007199254740993 } },
                thoughtSignature = "s",
              },
              { functionCall = { id = "own", name = "g", args = {} } },
            },
          },
          {
            role = "user",
            parts = {
              { functionResponse = { id = "moonpad-1", name = "f", response = { result = 3 } } },
              { functionResponse = { id = "own", name = "g", response = {} } },
            },
          },
        },
      }
      assert.are.equal('{"contents":[{"parts":[{"text":"a"}],"role":"user"},{"parts":['
        .. '{"text":"Let me see.","thoughtSignature":"sig0"},'
        .. '{"functionCall":{"args":{"n":9007199254740993},"name":"f"},"thoughtSignature":"s"},'
        .. '{"functionCall":{"args":{},"id":"own","name":"g"}}],"role":"model"},{"parts":['
        .. '{"functionResponse":{"name":"f","response":{"result":3}}},'
        .. '{"functionResponse":{"id":"own","name":"g","response":{}}}],"role":"user"}]}', text)
    end)

    it("passes data, files and code on, and nothing of other providers", function()
      local body = sentFor {
        contents = {
          { role = "user", parts = {
            { inlineData = { mimeType = "image/png", data = "AAAA" } },
            { inlineData = { mimeType = "text/plain", data = "SGk=" } },
            { fileData = { mimeType = "video/mp4", fileUri = "https://x/y" } }, { text = "" },
          } },
          { role = "model", parts = {
            { executableCode = { language = "PYTHON", code = "1" } },
            { codeExecutionResult = { outcome = "OUTCOME_OK", output = "1" } },
            { anthropic = { block = { type = "x" } } }, { text = "t", openai = { field = "x" } },
          } },
          { role = "user", parts = { { text = "b" } } },
        },
      }
      assert.are.equal(3, #body.contents[1].parts)
      assert.are.same({ inlineData = { mimeType = "text/plain", data = "SGk=" } }, body.contents[1].parts[2])
      assert.are.same({ inlineData = { mimeType = "image/png", data = "AAAA" } }, body.contents[1].parts[1])
      assert.are.equal(3, #body.contents[2].parts)
      assert.are.same({ text = "t" }, body.contents[2].parts[3])
    end)
  end)

  describe("a request to a model of some version", function()
    local vertex = { provider = { name = "vertex" } }

    local function bodyFor(name, request, settings)
      request.model = name
      return model.bodyOf("gemini", request, settings)
    end

    local function called(calls, results)
      return { contents = {
        { role = "user", parts = { { text = "a" } } }, { role = "model", parts = calls },
        { role = "user", parts = results or { { text = "b" } } },
      } }
    end

    it("has a signature for the first call of each answer from version 3 on", function()
      local function signatures(name, calls)
        local list = {}
        for index, part in ipairs(bodyFor(name, called(calls)).contents[2].parts) do
          list[index] = part.thoughtSignature or "-"
        end
        return table.concat(list, " ")
      end
      local f, g = { functionCall = { name = "f", args = {} } }, { functionCall = { name = "g", args = {} } }
      local signed = { functionCall = { name = "h", args = {} }, thoughtSignature = "own" }
      for _, name in ipairs { "gemini-3-pro-preview", "models/gemini-3.1-flash", "gemini-flash-latest", "gemini-4" } do
        assert.are.equal("- skip_thought_signature_validator -", signatures(name, { { text = "x" }, f, g }), name)
        assert.are.equal("own -", signatures(name, { signed, g }), name)
        assert.are.equal("-", signatures(name, { { text = "x" } }), name)
      end
      for _, name in ipairs { "gemini-2.5-pro", "gemini-2.0-flash", "gemini-1.5-pro", "gemini-pro", "gemma-3-27b" } do
        assert.are.equal("- -", signatures(name, { f, g }), name)
      end
    end)

    it("gives back what Google's servers called and answered, but not to Vertex", function()
      local parts = {
        { toolCall = { id = "1", toolType = "FILE_SEARCH", args = { q = "x" } }, thoughtSignature = "s1" },
        { toolResponse = { id = "1", toolType = "FILE_SEARCH" }, thoughtSignature = "s2" },
        { text = "Found", thoughtSignature = "s3" },
      }
      assert.are.same(parts, bodyFor("gemini-3-pro", called(parts)).contents[2].parts)
      assert.are.same({ parts[3] }, bodyFor("gemini-3-pro", called(parts), vertex).contents[2].parts)
    end)

    it("says that Google's own tools stand beside functions, from version 3 on", function()
      local function configFor(name, settings, choice, more)
        local request = model.say("Hi", {
          tools = { { name = "f" } }, providerTools = { { google_search = {} } }, config = { toolChoice = choice },
        })
        for key, value in pairs(more or {}) do request[key] = value end
        return bodyFor(name, request, settings).toolConfig
      end
      local mixed = { functionCallingConfig = { mode = "VALIDATED" }, includeServerSideToolInvocations = true }
      assert.are.same(mixed, configFor "gemini-3-pro")
      assert.are.same(mixed, configFor("gemini-3-pro", nil, "auto"))
      mixed.functionCallingConfig = { mode = "ANY", allowedFunctionNames = { "f" } }
      assert.are.same(mixed, configFor("gemini-3-pro", nil, "f"))
      assert.are.same({ functionCallingConfig = { mode = "VALIDATED" } }, configFor("gemini-3-pro", vertex))
      assert.is_nil(configFor "gemini-2.5-pro")
      assert.is_nil(configFor("gemini-3-pro", nil, nil, { tools = {} }))
      assert.is_nil(configFor("gemini-3-pro", nil, nil, { providerTools = {} }))
    end)

    it("has the files of a tool inside its response, as far as that model takes them there", function()
      local function file(mime) return { inlineData = { mimeType = mime, data = "AAAA" } } end
      local request = function()
        return called({ { functionCall = { id = "i", name = "f", args = {} } } }, { { functionResponse = {
          id = "i", name = "f", response = { result = 1 }, parts = { file "image/png", file "audio/wav" },
        } } })
      end
      local parts = bodyFor("gemini-3-pro", request()).contents[3].parts
      assert.are.same({
        { functionResponse = { id = "i", name = "f", response = { result = 1 }, parts = { file "image/png" } } },
        file "audio/wav",
      }, parts)
      parts = bodyFor("gemini-2.5-pro", request()).contents[3].parts
      assert.are.same({ file "image/png", file "audio/wav" }, { parts[2], parts[3] })
      assert.is_nil(parts[1].functionResponse.parts)
      -- Vertex finds calls by their names.
      local contents = bodyFor("gemini-3-pro", request(), vertex).contents
      assert.is_nil(contents[2].parts[1].functionCall.id)
      assert.is_nil(contents[3].parts[1].functionResponse.id)
    end)

    it("is told how much to think in its own words", function()
      local function thinking(name, reasoning)
        local body, left = bodyFor(name, model.say("Hi", { config = { reasoning = reasoning } }))
        return body.generationConfig and body.generationConfig.thinkingConfig, table.concat(left, " ")
      end
      for name, words in pairs {
        ["gemini-3-flash-preview"] = "MINIMAL LOW MEDIUM HIGH", ["gemini-3-pro-preview"] = "LOW LOW HIGH HIGH",
        ["gemini-3.1-pro-preview"] = "LOW LOW MEDIUM HIGH", ["gemini-3.7-flash"] = "LOW LOW MEDIUM HIGH",
        ["models/gemini-flash-latest"] = "MINIMAL LOW MEDIUM HIGH",
      } do
        local list = {}
        for index, reasoning in ipairs { "none", "low", "medium", "high" } do
          list[index] = thinking(name, reasoning).thinkingLevel
        end
        assert.are.equal(words, table.concat(list, " "), name)
      end
      for name, budgets in pairs {
        ["gemini-2.5-flash"] = { 0, 2048, 8192, 24576 }, ["gemini-2.5-pro"] = { 128, 2048, 8192, 24576 },
      } do
        local list = {}
        for index, reasoning in ipairs { "none", "low", "medium", "high" } do
          list[index] = thinking(name, reasoning).thinkingBudget
        end
        assert.are.same(budgets, list, name)
      end
      -- Thoughts are asked for along with it.
      assert.is_true(thinking("gemini-3-pro", "low").includeThoughts)
      assert.is_true(thinking("gemini-2.5-pro", "low").includeThoughts)
      assert.is_nil(thinking("gemini-2.5-pro", "none").includeThoughts)
      for _, name in ipairs { "gemini-2.0-flash", "gemini-1.5-pro", "gemma-3-27b", "gemini-3-pro-image-preview" } do
        assert.are.same({ n = 2, [2] = "reasoning" }, table.pack(thinking(name, "high")), name)
        assert.are.same({ n = 2, [2] = "" }, table.pack(thinking(name, "none")), name)
      end
      assert.are.same({ n = 2, [2] = "" }, table.pack(thinking("gemini-3-pro", nil)))
    end)

    it("has no penalties where they are refused", function()
      local config = { presencePenalty = 1, frequencyPenalty = 1, temperature = 0 }
      local body, left = bodyFor("gemini-2.5-flash", model.say("Hi", { config = config }))
      assert.are.same({ temperature = 0 }, body.generationConfig)
      assert.are.same({ "frequencyPenalty", "presencePenalty" }, left)
      body = bodyFor("gemini-2.0-flash", model.say("Hi", { config = config }))
      assert.are.equal(1, body.generationConfig.presencePenalty)
      body = bodyFor("gemini-2.5-flash", model.say("Hi", { config = config }), vertex)
      assert.are.equal(1, body.generationConfig.presencePenalty)
    end)

    it("is held to a schema beside tools from version 3 on", function()
      local function takes(name, hasTools) return make({ model = name }):takesSchema({ type = "object" }, hasTools) end
      assert.are.same({ true, true, true, false },
        { takes("gemini-3-pro", true), takes("gemini-3-pro", false), takes("gemini-2.5-pro", false),
          takes("gemini-2.5-pro", true) })
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
        content = { role = "model", parts = { { text = "Hello ä€😀" } } }, finishReason = "STOP",
        modelVersion = "gemini-test-001",
        usageMetadata = {
          promptTokenCount = 4, candidatesTokenCount = 5, totalTokenCount = 12, thoughtsTokenCount = 3,
        },
      }, last)
    end)

    it("has thoughts apart from text, and parts with a signature as they are", function()
      local last, partials = answer(
        chunk { { text = "Hm", thought = true } }, chunk { { text = "m.", thought = true } },
        chunk { { text = "Yes" }, { text = ", " } }, chunk { { text = "sir", thoughtSignature = "s1" } },
        chunk({ { text = "", thoughtSignature = "s2" } }, "STOP"))
      assert.are.same({ "(Hm)", "(m.)", "Yes", ", ", "sir" }, model.texts(partials))
      assert.are.same({
        { text = "Hmm.", thought = true }, { text = "Yes, " }, { text = "sir", thoughtSignature = "s1" },
        { text = "", thoughtSignature = "s2" },
      }, model.parts(last))
    end)

    it("keeps what Google's servers called and answered, bound to the server", function()
      local list = {
        { toolCall = { id = "1", toolType = "GOOGLE_SEARCH", args = { queries = { "q" } } }, thoughtSignature = "s1" },
        { toolResponse = { id = "1", toolType = "GOOGLE_SEARCH", response = { r = 1 } }, thoughtSignature = "s2" },
        { text = "Found" },
      }
      assert.are.same(list, model.parts((answer(chunk { list[1] }, chunk { list[2] }, chunk({ list[3] }, "STOP")))))
      script(server.stream { chunk({ { toolCall = { id = 7 } } }, "STOP") })
      assert.matches("toolCall.id: expected a string", model.failure(make()).message, 1, true)
    end)

    it("has calls, with exact numbers", function()
      local last, partials = answer(
        chunk { {
          functionCall = { name = "f", args = { n = 9007199254740993, x = 3, f = 1.0 } }, thoughtSignature = "s",
        } },
        '{"candidates":[{"content":{"parts":[{"functionCall":{"id":"i","name":"g"}}]},"finishReason":"STOP"}]}')
      assert.are.same({}, partials)
      assert.are.equal('[{"functionCall":{"args":{"f":1.0,"n":9007199254740993,"x":3},"name":"f"},'
        .. '"thoughtSignature":"s"},'
        .. '{"functionCall":{"args":{},"id":"i","name":"g"}}]', moonpad.json.encode(model.parts(last)))
    end)

    it("may be a blocked prompt", function()
      local block = '{"promptFeedback":{"blockReason":"SAFETY","safetyRatings":[]},'
        .. '"usageMetadata":{"promptTokenCount":4}}'
      local last = answer(block)
      assert.are.same({ "SAFETY", "the prompt was blocked: SAFETY" }, { last.errorCode, last.errorMessage })
      assert.are.equal(4, last.usageMetadata.promptTokenCount)
      web:script { [WHOLE_PATH] = server.json(block) }
      local _, whole = model.ask(make { stream = false })
      assert.are.equal("SAFETY", whole.errorCode)
    end)

    it("may be stopped, cut off, malformed, empty", function()
      local last = answer '{"candidates":[{"finishReason":"RECITATION","finishMessage":"from a book"}]}'
      assert.are.same({ "RECITATION", "from a book" }, { last.errorCode, last.errorMessage })
      last = answer '{"candidates":[{"content":{},"finishReason":"MALFORMED_FUNCTION_CALL"}]}'
      assert.are.equal("MALFORMED_FUNCTION_CALL", last.errorCode)
      last = answer(chunk({ { text = "Once" } }, "MAX_TOKENS"))
      assert.are.same({ "Once", "MAX_TOKENS" }, { last.content.parts[1].text, last.finishReason })
      assert.is_nil(last.errorCode)
      last = answer '{"candidates":[{"content":{"role":"model","parts":[]},"finishReason":"STOP"}]}'
      assert.are.equal("MODEL_RETURNED_NO_CONTENT", last.errorCode)
    end)

    it("keeps where it found what it says", function()
      local last = answer('{"candidates":[{"content":{"parts":[{"text":"a"}]},"finishReason":"STOP",'
        .. '"groundingMetadata":{"webSearchQueries":["q"]},"citationMetadata":{"citationSources":[]}}]}')
      assert.are.same({ webSearchQueries = { "q" } }, last.groundingMetadata)
      assert.is_table(last.citationMetadata)
    end)

    it("tells errors that come as a list", function()
      script(server.json('[{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT"}}]',
        { status = 400 }))
      assert.are.equal('gemini "m": HTTP 400: API key not valid.', model.failure(make()).message)
    end)
  end)

  it("goes through a run with tools, and gives signatures back", function()
    script(
      server.stream({ chunk { { functionCall = { name = "add", args = { a = 1 } }, thoughtSignature = "s1" },
        { functionCall = { name = "add", args = { a = 2 } } } }, chunk({ { text = "" } }, "STOP") }, { split = 1 }),
      server.stream { chunk({ { text = "Done" } }, "STOP") })
    local add = moonpad.tool { name = "add", run = function(args) return args.a + 1 end }
    local service = moonpad.open "memory:"
    local runner = moonpad.runner {
      appName = "app", sessionService = service,
      agent = moonpad.agent { name = "a", model = make(), tools = { add } },
    }
    local events = support.run(runner, "Add")
    assert.are.equal("Done", events[#events]:text())
    local contents = web:sent(2).contents
    local called = { functionCall = { name = "add", args = { a = 1 } }, thoughtSignature = "s1" }
    assert.are.same(called, contents[2].parts[1])
    assert.are.same({ functionResponse = { name = "add", response = { result = 2 } } }, contents[3].parts[1])
    assert.are.same({ functionResponse = { name = "add", response = { result = 3 } } }, contents[3].parts[2])
  end)

  it("takes no call whose id is no text, and gives one without an id its own", function()
    local service <close>, ran = moonpad.open "memory:", 0
    local runner = moonpad.runner {
      appName = "app", sessionService = service, agent = moonpad.agent { name = "a", model = make(), tools = {
        { name = "t", run = function() ran = ran + 1 end },
      } },
    }
    local function answerWith(id)
      script(server.stream { chunk({ { functionCall = { id = id, name = "t", args = {} } } }, "STOP") },
        server.stream { chunk({ { text = "Done" } }, "STOP") })
      return pcall(support.run, runner, "go")
    end
    for _, id in ipairs { 7, true, { a = 1 } } do
      local ok, err = answerWith(id)
      assert.are.same({ false, "model" }, { ok, err.code })
      assert.matches("functionCall.id: expected a string, got ", err.message)
    end
    assert.are.equal(0, ran)
    local ok, events = answerWith(moonpad.null)
    assert.is_true(ok)
    assert.matches("^moonpad%-", events[1]:functionCalls()[1].id)
    assert.are.equal(1, ran)
  end)

  it("asks for its key by the names of both variables", function()
    local code = [[print(select(2, pcall(require("moonpad.models.gemini").new, { model = "m" })).message)]]
    local text = model.lua({}, code)
    assert.is_truthy(text:find("GOOGLE_API_KEY or GEMINI_API_KEY", 1, true))
    code = [[
      local http = require "moonpad.http"
      http.request = function(options) error(options.headers["x-goog-api-key"], 0) end
      local gemini = require("moonpad.models.gemini").new { model = "m" }
      print(select(2, pcall(gemini.generate, gemini, { contents = {} })))]]
    assert.are.equal("one\n", model.lua({ GOOGLE_API_KEY = "one", GEMINI_API_KEY = "two" }, code))
    assert.are.equal("two\n", model.lua({ GEMINI_API_KEY = "two" }, code))
  end)
end)
