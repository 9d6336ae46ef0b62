-- A schema to which OpenAI or Anthropic holds an answer goes out in the form in which the makers'
-- own SDKs would send it: those have nothing left to change.
local checks = require "spec.support.checks"
local files = require "spec.support.files"
local memory = require "spec.support.memory_http"
local moonpad = require "moonpad"

local HERE <const> = "spec/peers"
local KEY <const> = "a-key-that-nobody-has"
local COUNT <const>, DEPTH <const> = 400, 3

---- Schemas by chance

local random = math.random

local function oneOf(list)
  return list[random(#list)]
end

local function copy(given, more)
  local copied = {}
  for name, value in pairs(given) do copied[name] = value end
  for name, value in pairs(more or {}) do copied[name] = value end
  return copied
end

local PLAIN <const> = {
  { type = "string" }, { type = "string", format = "date-time" }, { type = "string", format = "own", pattern = "^a" },
  { type = "string", minLength = 1, maxLength = 9 }, { type = "string", enum = { "a", "b" } }, { const = "k" },
  { type = "integer" }, { type = "integer", minimum = 1, maximum = 9 }, { type = "integer", enum = { 1, 2 } },
  { type = "number", exclusiveMinimum = 0 }, { type = "boolean" }, { type = "null" }, { type = { "string", "null" } },
}
local WORDS <const> = {
  {}, {}, {}, { description = "words" }, { title = "Title" }, { default = "a" }, { nullable = true },
}

local schemaOf

local function object(depth)
  local properties, required = {}, moonpad.array {}
  for index = 1, random(0, 3) do
    local name = "p" .. index
    properties[name] = schemaOf(depth - 1)
    if random() < 0.6 then table.insert(required, name) end
  end
  return {
    type = "object", properties = properties, required = required,
    additionalProperties = oneOf { false, false, true, { type = "string" } } or nil,
    propertyOrdering = random() < 0.2 and #required > 1 and { required[2], required[1] } or nil,
  }
end

local makers = {
  object,
  function(depth) return { type = "array", items = schemaOf(depth - 1), minItems = random(0, 2) } end,
  function(depth) return { type = "array", items = schemaOf(depth - 1), maxItems = 4 } end,
  function(depth) return { anyOf = { schemaOf(depth - 1), schemaOf(depth - 1) } } end,
  function(depth) return { oneOf = { schemaOf(depth - 1), { type = "null" } } } end,
  function(depth) return { allOf = { object(depth - 1) } } end,
  function() return { ["$ref"] = "#/$defs/one" } end,
  function() return { type = "array" } end,
}

function schemaOf(depth)
  if depth <= 0 or random() < 0.4 then return copy(oneOf(PLAIN), oneOf(WORDS)) end
  return oneOf(makers)(depth)
end

local function whole()
  return copy(object(DEPTH), { ["$defs"] = { one = copy(oneOf(PLAIN)) } })
end

---- What goes out

local MODELS <const> = {
  chat = moonpad.models.openai {
    model = "gpt-4o", baseUrl = "https://api.openai.com/v1", apiKey = KEY, stream = false, api = "chat",
  },
  anthropic = moonpad.models.anthropic {
    model = "claude-opus-4-6", baseUrl = "https://api.anthropic.com/v1", apiKey = KEY, stream = false,
  },
}

local sentIn = {}

function sentIn.chat(body)
  local format = body.response_format and body.response_format.json_schema
  return format and format.strict and format.schema
end

function sentIn.anthropic(body)
  local format = body.output_config and body.output_config.format
  return format and format.schema
end

-- nil where the model is not held to it.
local function sent(api, schema)
  local requests = memory.serve({ { mime = "application/json", pieces = { "{}" } } }, function()
    pcall(function()
      MODELS[api]:generate {
        contents = { { role = "user", parts = { { text = "x" } } } }, config = { responseSchema = schema },
      }
    end)
  end)
  return sentIn[api](moonpad.json.decode(requests[1].body))
end

---- Comparing

-- Which properties are required does not depend on their order.
local function sorted(schema)
  for name, value in pairs(type(schema) == "table" and schema or {}) do
    if name == "required" and type(value) == "table" and type(value[1]) == "string" then
      table.sort(value)
    else
      sorted(value)
    end
  end
  return schema
end

local function transformed(list)
  local path = os.tmpname()
  files.write(path, moonpad.json.encode(moonpad.array(list)))
  local pipe <close> = assert(io.popen(("cd %s && node sdk_schemas.mjs '%s'"):format(HERE, path)))
  local text = pipe:read "a"
  os.remove(path)
  return moonpad.json.decode(text)
end

describe("schemas in the form of the makers' SDKs", function()
  local list, counts = {}, { chat = 0, anthropic = 0 }
  local results

  setup(function()
    math.randomseed(1)
    for _ = 1, COUNT do
      local schema = whole()
      for api in pairs(MODELS) do
        local out = sent(api, schema)
        if out then list[#list + 1], counts[api] = { api, out }, counts[api] + 1 end
      end
    end
    results = transformed(list)
  end)

  it("are as the SDK would send them", function()
    assert.are.equal(#list, #results)
    for index, result in ipairs(results) do
      local text = moonpad.json.encode(list[index])
      assert(result.schema, ("%s\n%s"):format(result.error, text))
      local ok, problem = pcall(checks.identical, sorted(list[index][2]), sorted(result.schema))
      assert(ok, ("%s\n%s\n%s"):format(problem, text, moonpad.json.encode(result.schema)))
    end
  end)

  it("are many of each", function()
    for api, count in pairs(counts) do assert(count > COUNT // 10, ("%s: %d"):format(api, count)) end
  end)
end)
