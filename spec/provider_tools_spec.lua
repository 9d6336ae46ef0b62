-- What goes to providers besides calls and texts: tools of their own, and the files that tools
-- return.
local models = require "spec.support.model"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

local PICTURE = { inlineData = { mimeType = "image/png", data = "AAAA" } }
local SOUND = { inlineData = { mimeType = "audio/ogg", data = "BBBB" } }
local LINK = { fileData = { fileUri = "https://example.com/a.pdf", mimeType = "application/pdf" } }
local OWN = { fileData = { fileUri = "gs://bucket/a.png", mimeType = "image/png" } }

-- What an adapter sends.
local function bodyOf(adapter, request)
  request.model = request.model or "any"
  request.contents = request.contents or { { role = "user", parts = { { text = "Hi" } } } }
  return (models.bodyOf(adapter, request))
end

describe("providerTools", function()
  local function requestOf(fields)
    local seen
    fields.name = "A"
    fields.model = function(request)
      seen = request
      return "{}"
    end
    testing.run { agent = moonpad.agent(fields), messages = "go" }
    return seen
  end

  it("are in the request, as a copy", function()
    local given = { { google_search = {} }, { type = "web_search", max_uses = 3 } }
    local request = requestOf { providerTools = given }
    assert.same({ given, {} }, { request.providerTools, request.tools })
    assert.are_not.equal(given[1], request.providerTools[1])
  end)

  it("are not there where there are none", function()
    assert.is_nil(requestOf({}).providerTools)
    assert.is_nil(requestOf({ providerTools = {} }).providerTools)
  end)

  it("count as tools where the answer has a schema", function()
    local request = requestOf { providerTools = { { google_search = {} } }, outputSchema = { type = "object" } }
    assert.is_nil(request.config.responseSchema)
    assert.matches("must be JSON", request.systemInstruction)
  end)

  it("are sent as they are, beside the agent's own", function()
    local tools = { { name = "look", parameters = { type = "object" } } }
    local function sent(adapter, withOwn)
      return bodyOf(adapter, { tools = withOwn and tools or {}, providerTools = { { google_search = {} } } }).tools
    end
    for _, adapter in ipairs { "gemini", "openai", "anthropic" } do
      local list = sent(adapter, true)
      assert.equal(2, #list)
      assert.equal("look", (list[1].functionDeclarations and list[1].functionDeclarations[1] or list[1]["function"]
        or list[1]).name)
      assert.same({ google_search = {} }, list[2])
      assert.equal('[{"google_search":{}}]', moonpad.json.encode(sent(adapter, false)))
    end
  end)

  it("are checked when the agent is made", function()
    local cases = {
      { true, ".providerTools: expected a list of tables, got boolean" },
      { { google_search = {} }, ".providerTools: expected a list of tables" },
      { { "google_search" }, ".providerTools[1]: expected a table, got string" },
      { { { google_search = {} }, { { x = 1 } } }, ".providerTools[2]: expected a table of named fields, got a list" },
      { { moonpad.tool { name = "look", run = print } }, ".providerTools[1]: a moonpad.tool belongs into tools" },
      { { { name = "look", run = print } }, ".providerTools[1]: " },
    }
    for index, case in ipairs(cases) do
      local ok, err = pcall(moonpad.agent, { name = "A", model = print, providerTools = case[1] })
      assert.is_false(ok)
      assert.equal("invalid_argument", err.code)
      assert.is_truthy(err.message:find('agent "A"' .. case[2], 1, true), index .. err.message)
    end
  end)

  it("are checked again when they are sent: a callback may have changed them", function()
    for _, wrong in ipairs { "x", { "x" }, { google_search = {} } } do
      local ok, err = pcall(bodyOf, "gemini", { providerTools = wrong })
      assert.is_false(ok)
      assert.matches("providerTools", err.message)
    end
  end)
end)

describe("files of a tool", function()
  local function contents(...)
    return {
      { role = "user", parts = { { text = "go" } } },
      { role = "model", parts = { { functionCall = { id = "c1", name = "look", args = {} } },
        { functionCall = { id = "c2", name = "hear", args = {} } } } },
      { role = "user", parts = {
        { functionResponse = { id = "c1", name = "look", response = { result = "x" }, parts = { ... } } },
        { functionResponse = { id = "c2", name = "hear", response = { result = "y" } } },
      } },
    }
  end

  local function last(adapter, model, ...)
    local body = bodyOf(adapter, { model = model, contents = contents(...) })
    local list = body.contents or body.messages
    return list[#list], list
  end

  it("go to Gemini in the response; sounds and references beside it", function()
    local parts = last("gemini", "gemini-3-pro", PICTURE, SOUND, OWN).parts
    assert.same({ PICTURE }, parts[1].functionResponse.parts)
    assert.is_nil(parts[2].functionResponse.parts)
    assert.same({ SOUND, OWN }, { table.unpack(parts, 3) })
  end)

  it("go to a Gemini before version 3 beside it", function()
    local parts = last("gemini", "gemini-2.5-flash", PICTURE).parts
    assert.is_nil(parts[1].functionResponse.parts)
    assert.same({ PICTURE }, { table.unpack(parts, 3) })
  end)

  it("go to Anthropic in the result; what it cannot take is told", function()
    local blocks = last("anthropic", "claude", PICTURE, LINK, SOUND, OWN).content
    assert.same({
      { type = "text", text = '{"result":"x"}' },
      { type = "image", source = { type = "base64", media_type = "image/png", data = "AAAA" } },
      { type = "document", source = { type = "url", url = "https://example.com/a.pdf" } },
      { type = "text", text = "(a file of type audio/ogg that cannot be shown here)" },
      { type = "text", text = "(a file of type image/png that cannot be shown here)" },
    }, blocks[1].content)
    assert.equal('{"result":"y"}', blocks[2].content)
  end)

  it("go to a chat completion in a message behind all results; what it cannot take is told", function()
    local message, list = last("openai", "gpt", PICTURE, SOUND)
    assert.same({ role = "user", content = {
      { type = "text", text = "Files from the tool look:" },
      { type = "image_url", image_url = { url = "data:image/png;base64,AAAA" } },
      { type = "text", text = "(a file of type audio/ogg that cannot be shown here)" },
    } }, message)
    assert.same({ "tool", "tool" }, { list[#list - 2].role, list[#list - 1].role })
    assert.equal('{"result":"x"}', list[#list - 2].content)
  end)

  it("are nothing where a list is empty", function()
    for _, adapter in ipairs { "gemini", "openai", "anthropic" } do
      local with, without = contents(), contents()
      without[3].parts[1].functionResponse.parts = nil
      assert.same(bodyOf(adapter, { contents = without }), bodyOf(adapter, { contents = with }))
    end
  end)

  it("that are none are refused before they are sent", function()
    local ok, err = pcall(last, "anthropic", "claude", { inlineData = { data = "x" } })
    assert.is_false(ok)
    assert.matches("functionResponse%.parts%[1%]%.inlineData%.mimeType: is missing", err.message)
  end)

  it("that users send as such are still refused where a provider cannot take them", function()
    for _, adapter in ipairs { "openai", "anthropic" } do
      local ok, err = pcall(bodyOf, adapter, { contents = { { role = "user", parts = { SOUND } } } })
      assert.is_false(ok)
      assert.matches("cannot take data of type audio/ogg", err.message)
    end
  end)
end)

describe("an agent's inputSchema", function()
  local SCHEMA = {
    type = "object", required = { "city" },
    properties = { city = { type = "string" }, days = { type = "integer", minimum = 1 } },
  }

  -- What the caller is answered, what the inner agent was asked, and what the caller was offered.
  local function call(args, schema)
    local asked
    local inner = moonpad.agent { name = "Guide", inputSchema = schema, model = function(request)
      asked = request.contents[1].parts[1].text
      return "it is nice there"
    end }
    local model = moonpad.models.scripted { support.calls { "Guide", args }, "done" }
    local outer = moonpad.agent { name = "A", model = model, tools = { moonpad.agentTool { agent = inner } } }
    local events = testing.run({ agent = outer, messages = "go" }).events
    return events[2]:functionResponses()[1].response, asked, model.requests[1].tools[1].parameters
  end

  it("is what the tool declares; the agent is asked with the arguments as JSON", function()
    local response, asked, declared = call({ city = "Rome", days = 2 }, SCHEMA)
    assert.same({ result = "it is nice there" }, response)
    assert.same({ city = "Rome", days = 2 }, moonpad.json.decode(asked))
    assert.same(SCHEMA, declared)
  end)

  it("checks the arguments", function()
    local response, asked = call({ city = "Rome", days = 0 }, SCHEMA)
    assert.matches("bad arguments: days: 0 is below the minimum", response.error)
    assert.is_nil(asked)
    assert.matches("request: is not known here", call({ request = "x" },
      { type = "object", additionalProperties = false }).error)
  end)

  it("may describe nothing at all", function()
    local _, asked = call({}, { type = "object" })
    assert.equal("{}", asked)
  end)

  it("is checked when the agent is made", function()
    for _, wrong in ipairs { "object", { type = "objec" }, { type = "string" }, { properties = { a = 1 } } } do
      local ok, err = pcall(moonpad.agent, { name = "A", model = print, inputSchema = wrong })
      assert.is_false(ok)
      assert.equal("invalid_argument", err.code)
      assert.matches('^agent "A"%.inputSchema', err.message)
    end
  end)

  it("changes nothing for an agent that is no tool", function()
    local agent = moonpad.agent { name = "A", inputSchema = SCHEMA, model = function() return "hello" end }
    assert.equal("hello", testing.run({ agent = agent, messages = "no JSON" }).text)
  end)
end)
