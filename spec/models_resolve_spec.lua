local model = require "spec.support.model"
local moonpad = require "moonpad"
local providers = require "moonpad.models.providers"
local resolve = require "moonpad.models.resolve"
local server = require "spec.support.http"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

describe("a model by its name", function()
  -- What is sent where, without sending it.
  local CODE = [[
    local http = require "moonpad.http"
    http.request = function(options)
      local headers = options.headers
      error(options.url .. " " .. (headers.authorization or headers["x-api-key"] or headers["x-goog-api-key"]
        or headers["api-key"] and "api-key " .. headers["api-key"] or "no key"), 0)
    end
    for name in ("%s"):gmatch "%%S+" do
      local ok, instance = pcall(require("moonpad.models.resolve").model, name)
      print(ok and select(2, pcall(instance.generate, instance, { contents = {} })) or instance)
    end]]

  local function resolved(environment, ...)
    local lines = {}
    for line in model.lua(environment, CODE:format(table.concat({ ... }, " "))):gmatch "[^\n]+" do
      lines[#lines + 1] = line
    end
    return lines
  end

  it("picks adapter, address and key", function()
    local keys = {
      GEMINI_API_KEY = "key-g", DEEPSEEK_API_KEY = "key-d", OPENAI_API_KEY = "key-o", ANTHROPIC_API_KEY = "key-a",
    }
    assert.are.same({
      "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse key-g",
      "https://api.deepseek.com/chat/completions Bearer key-d",
      "https://api.openai.com/v1/chat/completions Bearer key-o",
      "https://api.openai.com/v1/responses Bearer key-o",
      "https://api.openai.com/v1/responses Bearer key-o",
      "https://api.openai.com/v1/chat/completions Bearer key-o",
      "https://api.anthropic.com/v1/messages key-a",
    }, resolved(keys, "gemini-2.0-flash", "deepseek-chat", "gpt-4o", "o1", "o3-mini", "chatgpt-4o-latest",
      "claude-sonnet-4"))
  end)

  it("takes the provider in front of a slash, with its address and its key", function()
    local environment = {}
    for _, row in ipairs(providers.ROWS) do
      for _, variable in ipairs(row.keyVariables) do environment[variable] = "key-" .. row.name end
    end
    environment.GEMINI_API_KEY, environment.AZURE_API_KEY = nil, nil
    environment.GOOGLE_API_KEY = "AIza-google"
    environment.AZURE_OPENAI_ENDPOINT = "https://mine.openai.azure.com/"
    local chat = "/chat/completions"
    local expected = {
      ["openai/gpt-4o"] = "https://api.openai.com/v1" .. chat .. " Bearer key-openai",
      ["azure/my-gpt"] = "https://mine.openai.azure.com/openai/v1" .. chat .. " api-key key-azure",
      ["anthropic/claude-x"] = "https://api.anthropic.com/v1/messages key-anthropic",
      ["google/gemini-x"] = "https://generativelanguage.googleapis.com/v1beta/models/gemini-x:streamGenerateContent"
        .. "?alt=sse AIza-google",
      ["vertex/gemini-x"] = "https://aiplatform.googleapis.com/v1/publishers/google/models/gemini-x:"
        .. "streamGenerateContent?alt=sse Bearer key-vertex",
      ["deepseek/deepseek-x"] = "https://api.deepseek.com" .. chat .. " Bearer key-deepseek",
      ["mistral/mistral-x"] = "https://api.mistral.ai/v1" .. chat .. " Bearer key-mistral",
      ["xai/grok-x"] = "https://api.x.ai/v1" .. chat .. " Bearer key-xai",
      ["groq/openai/gpt-oss-120b"] = "https://api.groq.com/openai/v1" .. chat .. " Bearer key-groq",
      ["together/x/y"] = "https://api.together.xyz/v1" .. chat .. " Bearer key-together",
      ["openrouter/google/gemini-x"] = "https://openrouter.ai/api/v1" .. chat .. " Bearer key-openrouter",
      ["fireworks/x"] = "https://api.fireworks.ai/inference/v1" .. chat .. " Bearer key-fireworks",
      ["cerebras/x"] = "https://api.cerebras.ai/v1" .. chat .. " Bearer key-cerebras",
      ["moonshot/kimi-x"] = "https://api.moonshot.ai/v1" .. chat .. " Bearer key-moonshot",
      ["zai/glm-x"] = "https://api.z.ai/api/paas/v4" .. chat .. " Bearer key-zai",
      ["alibaba/qwen-x"] = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1" .. chat .. " Bearer key-alibaba",
      ["perplexity/sonar"] = "https://api.perplexity.ai" .. chat .. " Bearer key-perplexity",
      ["huggingface/x/y"] = "https://router.huggingface.co/v1" .. chat .. " Bearer key-huggingface",
      ["ollama/llama3.2:latest"] = "http://localhost:11434/v1" .. chat .. " no key",
      ["llama.cpp/any"] = "http://localhost:8080/v1" .. chat .. " no key",
      ["lmstudio/x"] = "http://localhost:1234/v1" .. chat .. " no key",
      ["vllm/x/y"] = "http://localhost:8000/v1" .. chat .. " Bearer key-vllm",
    }
    local names, count = {}, 0
    for name in pairs(expected) do names[#names + 1] = name end
    local lines = resolved(environment, table.unpack(names))
    for index, name in ipairs(names) do
      count = count + 1
      assert.are.same({ name, expected[name] }, { name, lines[index] })
    end
    assert.are.equal(#providers.ROWS, count)
  end)

  it("sends the name that the provider has for the model #http", function()
    local web = server.start()
    finally(function() web:stop() end)
    web:script { ["/v1/chat/completions"] = server.json {
      choices = { { message = { role = "assistant", content = "ok" }, finish_reason = "stop" } },
    } }
    local text = model.lua({ OLLAMA_HOST = web.url }, [[
      local moonpad = require "moonpad"
      local seen
      local agent = moonpad.agent {
        name = "A", model = "ollama/x/llama3:latest",
        beforeModelCallback = function(_, request) seen = request.model end,
      }
      local runner = moonpad.runner { appName = "a", agent = agent, sessionService = moonpad.open "memory:" }
      print(runner:ask { userId = "u", newMessage = "Hi" }, seen)]])
    assert.matches("^ok\t", text)
    assert.are.equal("x/llama3:latest", web:sent().model)
  end)

  turns.rarely("takes addresses from the variables of their makers", function()
    local keys = { OPENAI_API_KEY = "k", ANTHROPIC_API_KEY = "k", GOOGLE_API_KEY = "k", AZURE_OPENAI_API_KEY = "k",
      GROQ_API_KEY = "k", TOGETHER_API_KEY = "k" }
    for _, case in ipairs {
      { "OPENAI_BASE_URL", "http://h/v1/", "gpt-4o", "http://h/v1/chat/completions" },
      { "ANTHROPIC_BASE_URL", "http://h", "claude-x", "http://h/v1/messages" },
      { "ANTHROPIC_BASE_URL", "http://h/gate/v1/", "claude-x", "http://h/gate/v1/messages" },
      { "GOOGLE_GEMINI_BASE_URL", "http://h/", "gemini-x", "http://h/v1beta/models/gemini-x:" },
      { "GOOGLE_GEMINI_BASE_URL", "http://h/v1alpha", "gemini-x", "http://h/v1alpha/models/gemini-x:" },
      { "GOOGLE_VERTEX_BASE_URL", "http://h", "vertex/gemini-x", "http://h/v1/publishers/google/models/gemini-x:" },
      { "GROQ_BASE_URL", "http://h", "groq/x", "http://h/openai/v1/chat/completions" },
      { "TOGETHER_BASE_URL", "http://h/v1", "together/x", "http://h/v1/chat/completions" },
      { "OLLAMA_HOST", "0.0.0.0", "ollama/x", "http://127.0.0.1:11434/v1/chat/completions" },
      { "OLLAMA_HOST", "box:9999", "ollama/x", "http://box:9999/v1/chat/completions" },
      { "OLLAMA_HOST", ":9999", "ollama/x", "http://127.0.0.1:9999/v1/chat/completions" },
      { "OLLAMA_HOST", "https://box.example/o/", "ollama/x", "https://box.example/o/v1/chat/completions" },
      { "AZURE_OPENAI_ENDPOINT", "http://h", "azure/x", "http://h/openai/v1/chat/completions" },
      { "AZURE_OPENAI_ENDPOINT", "http://h/openai/v1", "azure/x", "http://h/openai/v1/chat/completions" },
    } do
      local variable, value, name, url = table.unpack(case)
      local environment = { [variable] = value }
      for key, text in pairs(keys) do environment[key] = text end
      local line = resolved(environment, name)[1]
      assert.are.equal(url, line:sub(1, #url), variable .. "=" .. value .. ": " .. line)
    end
  end)

  it("knows Azure's older kind of address, and Vertex's of a project", function()
    assert.are.same({
      "https://mine.openai.azure.com/openai/deployments/my-gpt/chat/completions?api-version=2024-10-21 api-key key-a",
    }, resolved({
      AZURE_OPENAI_ENDPOINT = "https://mine.openai.azure.com", AZURE_OPENAI_API_KEY = "key-a",
      OPENAI_API_VERSION = "2024-10-21",
    }, "azure/my-gpt"))
    assert.are.same({
      "https://europe-west4-aiplatform.googleapis.com/v1/projects/p1/locations/europe-west4/publishers/google/models/"
        .. "gemini-x:streamGenerateContent?alt=sse Bearer ya29.token",
    }, resolved({
      GOOGLE_CLOUD_PROJECT = "p1", GOOGLE_CLOUD_LOCATION = "europe-west4", CLOUDSDK_AUTH_ACCESS_TOKEN = "ya29.token",
    }, "vertex/gemini-x"))
    local lines = resolved({ AZURE_OPENAI_API_KEY = "key-a" }, "azure/my-gpt")
    assert.matches('model "azure/my%-gpt": no address: set the environment variable AZURE_OPENAI_ENDPOINT', lines[1])
  end)

  it("gives no provider's key to another", function()
    local lines = resolved({ OPENAI_API_KEY = "key-o", GOOGLE_API_KEY = "key-g" }, "groq/x", "mistral/x",
      "openrouter/openai/x", "ollama/x", "anthropic/x")
    for index, line in ipairs(lines) do assert.is_nil(line:find("key-", 1, true), index .. line) end
    assert.matches("GROQ_API_KEY", lines[1])
  end)

  it("says which variable is missing", function()
    local lines = resolved({}, "gemini-2.0-flash", "deepseek-chat", "gpt-4o", "claude-sonnet-4")
    local names = { "GOOGLE_API_KEY or GEMINI_API_KEY", "DEEPSEEK_API_KEY", "OPENAI_API_KEY", "ANTHROPIC_API_KEY" }
    for index, name in ipairs(names) do
      assert.is_truthy(lines[index]:find(name, 1, true), lines[index])
      assert.is_truthy(lines[index]:find("invalid_argument", 1, true), lines[index])
    end
  end)

  it("does not give OpenAI's key to DeepSeek, nor its address", function()
    local lines = resolved({ OPENAI_API_KEY = "key-o", OPENAI_BASE_URL = "http://local/v1" }, "deepseek-chat", "gpt-4o")
    assert.is_truthy(lines[1]:find("DEEPSEEK_API_KEY", 1, true))
    assert.are.equal("http://local/v1/chat/completions Bearer key-o", lines[2])
  end)

  it("needs no key for the server of the environment, and gives it the one that is set", function()
    local address = { OPENAI_BASE_URL = "http://local/v1" }
    local url = "http://local/v1/chat/completions "
    assert.are.same({ url .. "no key", url .. "no key" }, resolved(address, "llama3.2", "gpt-oss:20b"))
    address.OPENAI_API_KEY = "key-o"
    assert.are.same({ url .. "Bearer key-o", url .. "Bearer key-o" }, resolved(address, "llama3.2", "gpt-oss:20b"))
  end)

  it("says which names are known", function()
    for _, name in ipairs { "llama3", "o2", "gpt", "", "gpt-oss:20b", "/x" } do
      local ok, err = pcall(resolve.model, name)
      assert.are.same({ false, "invalid_argument" }, { ok, err.code })
      for _, known in ipairs { "gemini-*", "gpt-*", "claude-*", "ollama/", "moonpad.models.openai{" } do
        assert.is_truthy(err.message:find(known, 1, true))
      end
    end
    assert.has_error(function() resolve.model(nil) end)
  end)

  it("says what may have been meant", function()
    for name, said in pairs {
      ["opnai/gpt-5"] = 'did you mean "openai/gpt-5"?', ["anthropic:claude-x"] = 'did you mean "anthropic/claude-x"?',
      ["OpenRouter/x/y"] = 'did you mean "openrouter/x/y"?', ["openai/"] = 'missing behind "openai/"',
      ollama = 'missing: "ollama/..."', ["nobody/x"] = 'no provider is called "nobody"; there are openai, azure',
    } do
      local ok, err = pcall(resolve.model, name)
      assert.are.same({ false, "invalid_argument" }, { ok, err.code })
      assert.is_truthy(err.message:find(('model "%s": no model of that name is known: '):format(name), 1, true))
      assert.is_truthy(err.message:find(said, 1, true), err.message)
    end
  end)

  it("is of the provider that it names, whatever the address", function()
    local chat = "/openai/v1/chat/completions"
    assert.are.same({ "http://gate" .. chat .. " api-key key-a" },
      resolved({ AZURE_OPENAI_ENDPOINT = "http://gate", AZURE_OPENAI_API_KEY = "key-a" }, "azure/my-gpt"))
    assert.are.same({
      "http://gate/v1/publishers/google/models/gemini-x:streamGenerateContent?alt=sse Bearer tok",
    }, resolved({ GOOGLE_VERTEX_BASE_URL = "http://gate", CLOUDSDK_AUTH_ACCESS_TOKEN = "tok" }, "vertex/gemini-x"))
    local lines = resolved({}, "groq/x", "vertex/x")
    assert.matches('model "groq/x": no API key: set the environment variable GROQ_API_KEY, or give '
      .. 'moonpad.models.openai an apiKey and the baseUrl "https://api.groq.com/openai/v1"', lines[1], 1, true)
    lines = resolved({ OLLAMA_HOST = "nonsense:x" }, "ollama/x")
    assert.matches("models.openai: OLLAMA_HOST: expected a host", lines[1], 1, true)
  end)

  turns.rarely("is called by its provider in errors #http", function()
    local said = model.lua({ OLLAMA_HOST = "127.0.0.1:1" }, [[
      local instance = require("moonpad.models.resolve").model "ollama/llama3"
      local ok, err = pcall(function() for _ in instance:generate { contents = {} } do end end)
      print(err.provider, err.model, err.message)]])
    assert.matches("^ollama\tllama3\tollama \"llama3\": ", said)
  end)

  it("names the variable when the environment's address is none", function()
    for _, address in ipairs { "localhost:8080/v1", "ftp://localhost" } do
      local lines = resolved({ OPENAI_API_KEY = "key-o", OPENAI_BASE_URL = address }, "gpt-4o")
      assert.matches("models.openai: OPENAI_BASE_URL: expected an address like https://api.openai.com/v1", lines[1])
    end
    local ok, err = pcall(moonpad.models.openai, { model = "m", baseUrl = "localhost:8080/v1" })
    assert.are.same({ false, "models.openai.baseUrl: expected an address like https://api.openai.com/v1" },
      { ok, err.message })
  end)

  it("speaks to the server of the environment #http", function()
    local web = server.start()
    finally(function() web:stop() end)
    web:script { ["/v1/chat/completions"] = server.json {
      choices = { { message = { role = "assistant", content = "from there" }, finish_reason = "stop" } },
    } }
    local text = model.lua({ OPENAI_API_KEY = "key-o", OPENAI_BASE_URL = web.url .. "/v1" }, [[
      local instance = require("moonpad.models.resolve").model "gpt-4o"
      for response in instance:generate { contents = {} } do print(response.content.parts[1].text) end]])
    assert.are.equal("from there\n", text)
    assert.are.equal("gpt-4o", moonpad.json.decode(web:requests()[1].body).model)
  end)
end)
