-- Every ```lua block of docs/models.md runs, and prints what it says after `-->`. Requests go to a
-- server on loopback.
local http = require "moonpad.http"
local providers = require "moonpad.models.providers"
local server = require "spec.support.http"

local function read(path)
  local file <close> = assert(io.open(path, "r"))
  return file:read "a"
end

-- The blocks with the line that each begins in.
local function blocks(text)
  local found, number, current = {}, 0, nil
  for line in text:gmatch "(.-)\n" do
    number = number + 1
    if current and line == "```" then
      found[#found + 1], current = current, nil
    elseif current then
      current.lines[#current.lines + 1] = line
      current.expected[#current.expected + 1] = line:match "%-%->%s?(.*)$"
    elseif line == "```lua" then
      current = { line = number + 1, lines = {}, expected = {} }
    end
  end
  return found
end

local OPENAI = {
  '{"model":"gpt-4o","choices":[{"delta":{"content":"Hello "}}]}',
  '{"choices":[{"delta":{"content":"from OpenAI"},"finish_reason":"stop"}]}', "[DONE]",
}

local ANTHROPIC_CALL = {
  '{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"t","name":"weather","input":{}}}',
  '{"type":"content_block_delta","index":0,'
    .. '"delta":{"type":"input_json_delta","partial_json":"{\\"city\\":\\"Rome\\"}"}}',
  '{"type":"message_delta","delta":{"stop_reason":"tool_use"}}', '{"type":"message_stop"}',
}

local ANTHROPIC_TEXT = {
  '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"The sky is clear"}}',
  '{"type":"message_delta","delta":{"stop_reason":"end_turn"}}', '{"type":"message_stop"}',
}

local GEMINI = '{"candidates":[{"content":{"parts":[{"text":"Hello from Gemini"}]},"finishReason":"STOP"}]}'

local WHOLE = '{"choices":[{"message":{"content":"Hello from OpenAI"},"finish_reason":"stop"}]}'
local MISSING = '{"error":{"message":"The model `no-such-model` does not exist"}}'

describe("docs/models.md", function()
  local web
  local request, getenv = http.request, os.getenv

  setup(function()
    web = server.start()
    -- luacheck: push ignore 122
    os.getenv = function(name) return name:find "_API_KEY$" and "key-for-the-examples" or nil end
    -- luacheck: pop
    http.request = function(options)
      options.url = options.url:gsub("^https?://[^/]+", web.url)
      return request(options)
    end
  end)

  teardown(function()
    os.getenv, http.request = getenv, request -- luacheck: ignore 122
    web:stop()
  end)

  local VERTEX = "/v1/projects/my-project/locations/global/publishers/google/models/gemini-2.0-flash:"
    .. "streamGenerateContent?alt=sse"
  local TOKEN = "/computeMetadata/v1/instance/service-accounts/default/token"

  local function reply(code)
    local first = code:find("no-such-model", 1, true) and server.json(MISSING, { status = 404 })
      or code:find("stream = false", 1, true) and server.json(WHOLE)
      or server.stream(OPENAI, { split = 60, pause = 0.01 })
    web:script {
      ["/v1/chat/completions"] = first,
      ["/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse"] = server.stream { GEMINI },
      ["/v1/messages"] = { server.stream(ANTHROPIC_CALL), server.stream(ANTHROPIC_TEXT) },
      ["/news"] = { body = "nothing new" },
      [TOKEN] = server.json { access_token = "ya29.token", expires_in = 3600 },
      [VERTEX] = server.stream { (GEMINI:gsub("Gemini", "Vertex")) },
    }
  end

  local function run(block)
    local printed = {}
    local function print(...)
      local parts = table.pack(...)
      for index = 1, parts.n do parts[index] = tostring(parts[index]) end
      printed[#printed + 1] = table.concat(parts, "\t")
    end
    local code = 'local moonpad = require "moonpad"; ' .. table.concat(block.lines, "\n")
    reply(code)
    assert(load(code, "=example", "t", setmetatable({ print = print }, { __index = _G })))()
    return printed
  end

  it("has a row for each provider, with what the program has", function()
    local page, count = read "docs/models.md", 0
    for name, others in page:gmatch "\n| `([%w.]+)` | ([^\n]+) |" do
      local row = providers.named(name)
      if row then
        count = count + 1
        local wanted = table.move(row.keyVariables, 1, #row.keyVariables, 1, {})
        if row.addressVariable then wanted[#wanted + 1] = row.addressVariable end
        -- Vertex's is made of project and region.
        if row.baseUrl and name ~= "vertex" then wanted[#wanted + 1] = row.baseUrl end
        for _, word in ipairs(wanted) do assert.is_truthy(others:find("`" .. word .. "`", 1, true), name .. word) end
        for _, pattern in ipairs(row.patterns or {}) do
          local start = pattern:match "^%^([%a]+)"
          if start ~= "ft" then assert.is_truthy(others:find("`" .. start, 1, true), name .. " " .. start) end
        end
      end
    end
    assert.are.equal(#providers.ROWS, count)
  end)

  for _, block in ipairs(blocks(read "docs/models.md")) do
    it("is right at line " .. block.line, function() assert.are.same(block.expected, run(block)) end)
  end
end)
