-- JSON Schemas in the subset to which Claude holds an answer.
local anthropicSchema = require "moonpad.schema.anthropic"
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local schemaText = require "moonpad.schema.text"

local function textOf(schema)
  local converted = anthropicSchema.of(schema)
  return converted and schemaText.of(converted)
end

local STRING = { type = "string" }

-- An object with one property that must be there.
local function with(property, more)
  local schema = { type = "object", properties = { a = property }, required = { "a" } }
  for key, value in pairs(more or {}) do schema[key] = value end
  return schema
end

-- What becomes of that property.
local function property(schema)
  local converted = anthropicSchema.of(with(schema))
  return converted and schemaText.of(converted.properties.a)
end

describe("a schema for Claude", function()
  it("has objects with no other properties, however deep", function()
    assert.are.equal('{"additionalProperties":false,"properties":{"a":{"items":{"anyOf":[{"additionalProperties":false,'
      .. '"properties":{"b":{"type":"string"}},"required":["b"],"type":"object"},{"type":"null"}]},"type":"array"}},'
      .. '"required":["a"],"type":"object"}',
      textOf(with { type = "array", items = {
        anyOf = { { type = "object", properties = { b = STRING }, required = { "b" } }, { type = "null" } },
      } }))
    assert.are.equal('{"additionalProperties":false,"properties":{},"type":"object"}',
      textOf { type = "object", properties = {} })
    assert.are.equal('{"additionalProperties":false,"properties":{"b":{"type":"string"}},"type":["object","null"]}',
      property { type = { "object", "null" }, properties = { b = STRING } })
    assert.are.equal('{"additionalProperties":false,"properties":{"b":{"type":"string"}},"type":"object"}',
      property { properties = { b = STRING } })
  end)

  it("says in words what cannot be held", function()
    assert.are.equal('{"description":"{maximum: 9, minimum: 1}","type":"integer"}',
      property { type = "integer", minimum = 1, maximum = 9 })
    assert.are.equal('{"description":"A name\\n\\n{maxLength: 5, pattern: \\"^a\\"}","type":"string"}',
      property { type = "string", description = "A name", maxLength = 5, pattern = "^a" })
    assert.are.equal('{"description":"{minItems: 2, uniqueItems: true}","items":{"type":"string"},"type":"array"}',
      property { type = "array", items = STRING, minItems = 2, uniqueItems = true })
    assert.are.equal('{"description":"{format: \\"regex\\"}","type":"string"}',
      property { type = "string", format = "regex" })
    assert.are.equal('{"description":"{default: {\\"x\\":1}, not: {\\"type\\":\\"null\\"}}","type":"string"}',
      property { type = "string", default = { x = 1 }, ["not"] = { type = "null" } })
  end)

  it("keeps what can", function()
    assert.are.equal('{"description":"d","format":"date-time","title":"t","type":"string"}',
      property { type = "string", format = "date-time", title = "t", description = "d" })
    assert.are.equal('{"items":{"type":"string"},"minItems":1,"type":"array"}',
      property { type = "array", items = STRING, minItems = 1 })
    assert.are.equal('{"enum":["x",1,null]}', property { type = "string", enum = { "x", 1, moonpad.null } })
    assert.are.equal('{"const":"x"}', property { const = "x" })
    assert.are.equal('{"anyOf":[{"type":"string"},{"type":"null"}]}',
      property { oneOf = { STRING, { type = "null" } } })
    assert.are.equal('{"anyOf":[{"type":"string"},{"type":"null"}]}', property { type = "STRING", nullable = true })
    assert.are.equal('{"type":["string","null"]}', property { type = { "string", "null" }, nullable = true })
    assert.are.equal('{"description":"{enum: [{\\"x\\":1}]}","type":"string"}',
      property { type = "string", enum = { { x = 1 } } })
  end)

  it("has definitions, which are converted as well", function()
    assert.are.equal('{"$defs":{"B":{"additionalProperties":false,"properties":{"n":{"description":"{minimum: 0}",'
      .. '"type":"number"}},"type":"object"}},"additionalProperties":false,"properties":{"a":{"$ref":"#/$defs/B"}},'
      .. '"required":["a"],"type":"object"}',
      textOf(with({ ["$ref"] = "#/$defs/B", description = "dropped" }, {
        ["$schema"] = "https://json-schema.org/draft/2020-12/schema",
        ["$defs"] = { B = { type = "object", properties = { n = { type = "number", minimum = 0 } } } },
      })))
    assert.are.equal('{"$ref":"#/definitions/B"}',
      schemaText.of(anthropicSchema.of(with({ allOf = { { ["$ref"] = "#/definitions/B" } } }, {
        definitions = { B = STRING },
      })).properties.a))
    assert.are.equal('{"$defs":{"B":{"additionalProperties":false,"properties":{},"type":"object"}},'
      .. '"$ref":"#/$defs/B"}',
      textOf { ["$ref"] = "#/$defs/B", ["$defs"] = { B = { type = "object", properties = {} } } })
  end)

  it("has its properties in their order", function()
    local properties = { a = STRING, b = STRING, z = STRING }
    local schema = { type = "object", properties = properties, required = { "z", "a", "b" } }
    assert.matches('"properties":{"z":.*"a":.*"b":.*}', textOf(schema))
    schema.propertyOrdering = { "b", "z", "a" }
    assert.matches('"properties":{"b":.*"z":.*"a":.*},"required":%["z","a","b"%]', textOf(schema))
    assert.is_nil(textOf(schema):find("propertyOrdering", 1, true))
  end)

  it("is not changed itself", function()
    local given = with { type = "integer", minimum = 1, nullable = true }
    local before = moonpad.json.encode(given)
    anthropicSchema.of(given)
    assert.are.equal(before, moonpad.json.encode(given))
  end)

  it("cannot be had where names or values may be anything", function()
    for name, schema in pairs {
      open = { type = "object" }, map = { type = "object", additionalProperties = STRING },
      more = with(STRING, { additionalProperties = true }),
      patterns = with(STRING, { patternProperties = { ["^x"] = STRING } }),
      anything = with {}, always = with(true), untyped = with { description = "whatever" },
      items = with { type = "array", items = {} }, tuple = with { type = "array", items = { STRING, STRING } },
      choice = with { anyOf = { STRING, {} } }, nested = with { type = "object" },
      meets = with { allOf = { STRING, { minLength = 1 } } }, missing = with(STRING, { required = { "a", "b" } }),
      either = with(STRING, { anyOf = { { required = { "a" } }, { required = { "b" } } } }),
      elsewhere = with { ["$ref"] = "https://example.com/s.json" }, nowhere = with { ["$ref"] = "#/$defs/B" },
      itself = with { ["$ref"] = "#" }, definition = with(STRING, { ["$defs"] = { B = { type = "object" } } }),
    } do
      assert.is_nil(textOf(schema), name)
    end
  end)

  it("cannot be had where it contains itself", function()
    local tree = { type = "object", properties = { children = { type = "array", items = { ["$ref"] = "#/$defs/T" } } } }
    assert.is_nil(textOf { ["$ref"] = "#/$defs/T", ["$defs"] = { T = tree } })
    assert.is_nil(textOf(with({ ["$ref"] = "#/$defs/A" }, { ["$defs"] = {
      A = with { ["$ref"] = "#/$defs/B" }, B = with { anyOf = { { ["$ref"] = "#/$defs/A" }, STRING } },
    } })))
    -- The same twice, side by side, is fine.
    assert.is_string(textOf {
      type = "object", properties = { a = { ["$ref"] = "#/$defs/S" }, b = { ["$ref"] = "#/$defs/S" } },
      ["$defs"] = { S = with(STRING) },
    })
  end)

  it("cannot be had beyond the API's limits", function()
    local function optional(count)
      local properties = {}
      for index = 1, count do properties["p" .. index] = STRING end
      return { type = "object", properties = properties }
    end
    assert.is_string(textOf(optional(10)))
    assert.is_nil(textOf(optional(11)))
    -- References count wherever they stand.
    local function twice(count)
      return {
        type = "object", required = { "a", "b" }, ["$defs"] = { S = optional(count) },
        properties = { a = { ["$ref"] = "#/$defs/S" }, b = { ["$ref"] = "#/$defs/S" } },
      }
    end
    assert.is_string(textOf(twice(5)))
    assert.is_nil(textOf(twice(6)))
    local function unions(count)
      local properties, required = {}, {}
      for index = 1, count do
        properties["p" .. index], required[index] = { type = { "string", "null" } }, "p" .. index
      end
      return { type = "object", properties = properties, required = required }
    end
    assert.is_string(textOf(unions(16)))
    assert.is_nil(textOf(unions(17)))
  end)

  it("takes no time without end where definitions double", function()
    local function doubled(levels)
      local definitions = { D0 = with(STRING) }
      for level = 1, levels do
        local below = { ["$ref"] = "#/$defs/D" .. level - 1 }
        definitions["D" .. level] = { type = "object", properties = { l = below, r = below }, required = { "l", "r" } }
      end
      return function() assert.is_nil(textOf { ["$ref"] = "#/$defs/D" .. levels, ["$defs"] = definitions }) end
    end
    -- To follow each of them would take 256 times as long.
    assert.is_true(checks.timesAsLong(doubled(16), doubled(24)) < 20)
    doubled(40)()
  end)
end)
