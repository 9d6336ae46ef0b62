local model = require "spec.support.model"
local moonpad = require "moonpad"
local resolve = require "moonpad.models.resolve"
local server = require "spec.support.http"

describe("a model by its name", function()
  -- What is sent where, without sending it.
  local CODE = [[
    local http = require "moonpad.http"
    http.request = function(options)
      local headers = options.headers
      error(options.url .. " " .. (headers.authorization or headers["x-api-key"] or headers["x-goog-api-key"]
        or "no key"), 0)
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
      "https://api.openai.com/v1/chat/completions Bearer key-o",
      "https://api.openai.com/v1/chat/completions Bearer key-o",
      "https://api.openai.com/v1/chat/completions Bearer key-o",
      "https://api.anthropic.com/v1/messages key-a",
    }, resolved(keys, "gemini-2.0-flash", "deepseek-chat", "gpt-4o", "o1", "o3-mini", "chatgpt-4o-latest",
      "claude-sonnet-4"))
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
    for _, name in ipairs { "llama3", "openai", "o2", "gpt", "" } do
      local ok, err = pcall(resolve.model, name)
      assert.are.same({ false, "invalid_argument" }, { ok, err.code })
      for _, known in ipairs { "gemini-*", "deepseek-*", "gpt-*", "claude-*", "moonpad.models.openai{" } do
        assert.is_truthy(err.message:find(known, 1, true))
      end
    end
    assert.has_error(function() resolve.model(nil) end)
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

  it("speaks to the server of the environment", function()
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
