-- Which settings a Claude model gets, by its name: those that it refuses are left out, and named.
local anthropic = require "moonpad.models.anthropic"
local model = require "spec.support.model"
local moonpad = require "moonpad"
local server = require "spec.support.http"

local SCHEMA = { type = "object", properties = { a = { type = "integer", minimum = 1 } }, required = { "a" } }

local ANSWER = server.json {
  id = "msg_1", type = "message", role = "assistant", stop_reason = "end_turn",
  content = { { type = "text", text = "Yes" } }, usage = { input_tokens = 1, output_tokens = 1 },
}

describe("settings of models.anthropic", function()
  local web
  setup(function() web = server.start() end)
  teardown(function() web:stop() end)

  local function make(name)
    return anthropic.new { model = name, apiKey = "k", baseUrl = web.url }
  end

  -- What is sent, and what is left out.
  local function sent(name, config, streaming)
    web:script { ["/messages"] = ANSWER }
    local _, last = model.ask(make(name), model.say("Hi", {
      config = config, streaming = streaming, tools = { { name = "f" } },
    }))
    local left = last.customMetadata and last.customMetadata.leftOut or {}
    return web:sent(1), table.concat(left, " ")
  end

  it("have a limit that the model can take", function()
    for name, limit in pairs {
      ["claude-3-haiku-20240307"] = 4096, ["claude-3-5-haiku-latest"] = 8192, ["claude-3-7-sonnet-latest"] = 16384,
      ["claude-opus-4-20250514"] = 16384, ["claude-opus-4-5"] = 64000, ["claude-sonnet-4-6"] = 128000,
      ["claude-opus-5-5"] = 128000, ["claude-something"] = 128000, ["deepseek-chat"] = 8192,
    } do
      assert.are.equal(limit, sent(name, {}).max_tokens, name)
    end
    assert.are.equal(100, sent("claude-opus-4-1", { maxOutputTokens = 100 }).max_tokens)
    assert.are.equal(32000, sent("claude-opus-4-1", { maxOutputTokens = 50000 }).max_tokens)
    assert.are.equal(50000, sent("claude-opus-4-1", { extra = { max_tokens = 50000 } }).max_tokens)
    assert.are.equal(50000, sent("deepseek-chat", { maxOutputTokens = 50000 }).max_tokens)
    -- Ten minutes for an answer in one piece.
    assert.are.equal(21333, sent("claude-opus-5-5", {}, false).max_tokens)
    assert.are.equal(90000, sent("claude-opus-5-5", { maxOutputTokens = 90000 }, false).max_tokens)
  end)

  it("about chance go only to models that take them", function()
    local config = { temperature = 0.5, topP = 0.9, topK = 3 }
    local function chance(name, more)
      local all = { reasoning = more }
      for key, value in pairs(config) do all[key] = value end
      local body, left = sent(name, all)
      return { body.temperature, body.top_p, body.top_k, left }
    end
    assert.are.same({ 0.5, 0.9, 3, "" }, chance "claude-3-5-sonnet-20241022")
    assert.are.same({ 0.5, 0.9, 3, "" }, chance "claude-sonnet-4-20250514")
    assert.are.same({ [1] = 0.5, [3] = 3, [4] = "topP" }, chance "claude-opus-4-1-20250805")
    assert.are.same({ [1] = 0.5, [3] = 3, [4] = "topP" }, chance "claude-opus-4-6")
    assert.are.same({ 0.5, 0.9, 3, "" }, chance "deepseek-chat")
    assert.are.same({ 0.5, 0.9, 3, "" }, chance("deepseek-chat", "low"))
    for _, name in ipairs {
      "claude-opus-4-7", "claude-opus-4-8", "claude-sonnet-5", "claude-haiku-5-5", "claude-fable-5-1",
      "anthropic.claude-opus-5-5-v1:0", "claude-tomorrow",
    } do
      assert.are.same({ [4] = "temperature topK topP" }, chance(name), name)
    end
    -- One of the two is fine, and so is thinking that is off.
    assert.are.equal(0.9, sent("claude-opus-4-6", { topP = 0.9 }).top_p)
    assert.are.same({ [1] = 0.5, [3] = 3, [4] = "topP" }, chance("claude-opus-4-6", "none"))
    for _, name in ipairs { "claude-sonnet-4-5", "claude-sonnet-4-6", "claude-3-7-sonnet-latest" } do
      assert.are.same({ [4] = "temperature topK topP" }, chance(name, "low"), name)
    end
    local _, left = sent("claude-sonnet-4-5",
      { temperature = 1, extra = { thinking = { type = "enabled", budget_tokens = 2000 } } })
    assert.are.equal("temperature", left)
  end)

  it("about tools force none where that is refused", function()
    local function choice(name, wanted, reasoning)
      local body, left = sent(name, { toolChoice = wanted, reasoning = reasoning })
      return body.tool_choice and (body.tool_choice.name or body.tool_choice.type), left
    end
    for _, name in ipairs { "claude-sonnet-5-5", "claude-opus-5-5", "claude-fable-5-1" } do
      assert.are.same({ n = 2, [2] = "toolChoice" }, table.pack(choice(name, "any")), name)
      assert.are.same({ n = 2, [2] = "toolChoice" }, table.pack(choice(name, "f")), name)
      assert.are.same({ "auto", "" }, { choice(name, "auto") })
      assert.are.same({ "none", "" }, { choice(name, "none") })
    end
    assert.are.same({ "any", "" }, { choice("claude-haiku-5-5", "any") })
    assert.are.same({ "f", "" }, { choice("claude-opus-5", "f") })
    assert.are.same({ "f", "" }, { choice("claude-sonnet-4-6", "f", "high") })
    assert.are.same({ n = 2, [2] = "toolChoice" }, table.pack(choice("claude-sonnet-4-5", "f", "high")))
  end)

  describe("about reasoning", function()
    local function reasoning(name, wanted, more)
      local config = { reasoning = wanted }
      for key, value in pairs(more or {}) do config[key] = value end
      local body, left = sent(name, config)
      return body.thinking, body.output_config, left, body.max_tokens
    end

    it("give newer models an effort", function()
      for _, name in ipairs { "claude-opus-4-6", "claude-sonnet-5", "claude-haiku-5-5", "claude-opus-5-5" } do
        for _, wanted in ipairs { "low", "medium", "high" } do
          local thinking, output, left = reasoning(name, wanted)
          assert.are.same({ { type = "adaptive", display = "summarized" }, { effort = wanted }, "" },
            { thinking, output, left })
        end
      end
      local _, output = reasoning("claude-opus-4-6", "low", { responseSchema = SCHEMA })
      assert.are.equal("low", output.effort)
      assert.are.equal("json_schema", output.format.type)
    end)

    it("give older models a budget, below their limit", function()
      for wanted, budget in pairs { low = 2048, medium = 8192, high = 16384 } do
        for _, name in ipairs { "claude-opus-4-5", "claude-haiku-4-5", "claude-sonnet-4-5" } do
          local thinking, output, left = reasoning(name, wanted)
          assert.are.same({ type = "enabled", budget_tokens = budget }, thinking)
          assert.is_nil(output)
          assert.are.equal("", left)
        end
      end
      assert.are.equal(8192, reasoning("claude-3-7-sonnet-latest", "high").budget_tokens)
      assert.are.equal(1500, reasoning("claude-opus-4-5", "high", { maxOutputTokens = 3001 }).budget_tokens)
      assert.are.equal(2048, reasoning("deepseek-chat", "low").budget_tokens)
      local thinking, _, left = reasoning("claude-opus-4-5", "high", { maxOutputTokens = 2000 })
      assert.are.same({ n = 2, [2] = "reasoning" }, table.pack(thinking, left))
    end)

    it("turn it off, or as low as can be", function()
      for _, name in ipairs { "claude-3-7-sonnet-latest", "claude-opus-4-8", "claude-sonnet-5", "claude-haiku-5-5" } do
        local thinking, _, left = reasoning(name, "none")
        assert.are.same({ { type = "disabled" }, "" }, { thinking, left })
      end
      assert.are.same({ type = "between_tools" }, (reasoning("claude-sonnet-5-5", "none")))
      for _, name in ipairs { "claude-opus-5-5", "claude-fable-5", "claude-mythos-5-1" } do
        local thinking, output, left = reasoning(name, "none")
        assert.are.same({ n = 3, [2] = { effort = "low" }, [3] = "" }, table.pack(thinking, output, left), name)
      end
    end)

    it("are left out for models that do not think", function()
      local thinking, _, left = reasoning("claude-3-5-sonnet-20241022", "high")
      assert.are.same({ n = 2, [2] = "reasoning" }, table.pack(thinking, left))
      thinking, _, left = reasoning("claude-3-5-sonnet-20241022", "none")
      assert.are.same({ n = 2, [2] = "" }, table.pack(thinking, left))
    end)

    it("yield to the API's own words", function()
      local thinking, output = reasoning("claude-opus-4-6", "low", {
        extra = { thinking = { display = "omitted" }, output_config = { effort = "max" } },
      })
      assert.are.same({ { type = "adaptive", display = "omitted" }, { effort = "max" } }, { thinking, output })
      assert.are.equal(moonpad.null, (reasoning("claude-opus-4-6", "low", { extra = { thinking = moonpad.null } })))
    end)
  end)

  describe("about a schema", function()
    it("are said where the model and the API can hold an answer to it", function()
      local tools = { true, false }
      for _, hasTools in ipairs(tools) do
        assert.is_true(make("claude-opus-4-1"):takesSchema(SCHEMA, hasTools))
        assert.is_true(make("claude-haiku-4-5"):takesSchema(SCHEMA, hasTools))
        assert.is_true(make("claude-opus-5-5"):takesSchema(SCHEMA, hasTools))
        for _, name in ipairs { "claude-3-haiku-20240307", "claude-sonnet-4-20250514", "deepseek-chat" } do
          assert.is_false(make(name):takesSchema(SCHEMA, hasTools))
        end
        assert.is_false(make("claude-haiku-4-5"):takesSchema({ type = "object" }, hasTools))
      end
    end)

    it("put it into the API's subset", function()
      assert.are.same({ format = { type = "json_schema", schema = {
        type = "object", additionalProperties = false, required = { "a" },
        properties = { a = { type = "integer", description = "{minimum: 1}" } },
      } } }, sent("claude-haiku-4-5", { responseSchema = SCHEMA }).output_config)
    end)

    it("keep the order of its properties", function()
      sent("claude-haiku-4-5", { responseSchema = {
        type = "object", properties = { z = { type = "string" }, a = { type = "string" } }, required = { "z", "a" },
      } })
      local text = web:requests()[1].body
      assert.is_truthy(text:find('"properties":{"z":{"type":"string"},"a":{"type":"string"}}', 1, true), text)
    end)

    it("are left out otherwise", function()
      for name, schema in pairs { ["claude-3-haiku-20240307"] = SCHEMA, ["claude-haiku-4-5"] = { type = "object" } } do
        local body, left = sent(name, { responseSchema = schema })
        assert.are.same({ n = 2, [2] = "responseSchema" }, table.pack(body.output_config, left))
      end
    end)
  end)

  it("of the API's own are added: a cache of the prompt", function()
    local body = sent("claude-haiku-4-5", { extra = { cache_control = { type = "ephemeral" } } })
    assert.are.same({ type = "ephemeral" }, body.cache_control)
  end)

  it("that the API does not have are refused", function()
    local err = model.failure(make "claude-haiku-4-5", model.say("Hi", { config = { seed = 1 } }))
    assert.are.equal("invalid_argument", err.code)
    err = model.failure(make "claude-haiku-4-5", model.say("Hi", { config = { reasoning = "much" } }))
    assert.matches("config.reasoning", err.message, 1, true)
  end)

  it("that are left out stand beside what the provider counts", function()
    web:script { ["/messages"] = server.json {
      id = "m", type = "message", role = "assistant", stop_reason = "end_turn",
      content = { { type = "text", text = "Yes" } },
      usage = { input_tokens = 1, output_tokens = 9, cache_creation_input_tokens = 7, cache_read_input_tokens = 3,
        output_tokens_details = { thinking_tokens = 5 },
        server_tool_use = { web_search_requests = 2, web_fetch_requests = 0 } },
    } }
    local _, last = model.ask(make "claude-opus-5", model.say("Hi", { config = { temperature = 0 } }))
    assert.are.same({
      promptTokenCount = 11, candidatesTokenCount = 9, totalTokenCount = 20, cachedContentTokenCount = 3,
      thoughtsTokenCount = 5,
    }, last.usageMetadata)
    assert.are.same({
      leftOut = moonpad.array { "temperature" }, cacheCreationTokenCount = 7, webSearchRequests = 2,
    }, last.customMetadata)
  end)
end)
