-- Schemas as they go to providers: the order of their properties, and the strict form.
local moonpad = require "moonpad"
local normalize = require "moonpad.schema.normalize"
local schemaText = require "moonpad.schema.text"
local strictSchema = require "moonpad.schema.strict"

local function text(schema, keepsOrdering)
  return schemaText.of(normalize.normalize(schema), keepsOrdering)
end

local STRING = { type = "string" }

describe("a schema as text", function()
  it("has its properties in the order of propertyOrdering, else of required, then sorted", function()
    local properties = { a = {}, b = {}, c = {}, d = {} }
    assert.are.equal('{"properties":{"a":{},"b":{},"c":{},"d":{}},"type":"object"}',
      text { type = "object", properties = properties })
    assert.are.equal('{"properties":{"d":{},"b":{},"a":{},"c":{}},"required":["d","b"]}',
      text { properties = properties, required = { "d", "b" } })
    assert.are.equal('{"properties":{"c":{},"a":{},"b":{},"d":{}},"required":["d","b"]}',
      text { properties = properties, required = { "d", "b" }, propertyOrdering = { "c" } })
    assert.are.equal('{"properties":{"c":{},"a":{},"b":{},"d":{}},"propertyOrdering":["c"]}',
      text({ properties = properties, propertyOrdering = { "c" } }, true))
  end)

  it("has it at any depth, and passes over names that are not there, or there twice", function()
    local inner = { properties = { y = STRING, x = STRING }, required = { "y", "nobody", "y" } }
    local shown = '{"properties":{"y":{"type":"string"},"x":{"type":"string"}},"required":["y","nobody","y"]}'
    for _, case in ipairs {
      { { items = inner }, '{"items":%s}' }, { { ["$defs"] = { T = inner } }, '{"$defs":{"T":%s}}' },
      { { anyOf = { inner } }, '{"anyOf":[%s]}' }, { { properties = { p = inner } }, '{"properties":{"p":%s}}' },
      { { additionalProperties = inner }, '{"additionalProperties":%s}' },
    } do
      assert.are.equal(case[2]:format(shown), text(case[1]))
    end
  end)

  it("is what the codec writes where there is no order to keep", function()
    for _, schema in ipairs {
      { type = "object", properties = {}, required = {} },
      { type = { "string", "null" }, enum = { "a", moonpad.null, 1, 1.5 }, description = 'say "ä"\n', minLength = 3 },
      { type = "array", items = { { type = "string" }, true }, default = { 1, { a = 2 } } },
    } do
      local plain = normalize.normalize(schema)
      assert.are.equal(moonpad.json.encode(plain), schemaText.of(plain))
    end
  end)

  it("has the names of types that JSON Schema has", function()
    assert.are.equal('{"properties":{"a":{"type":["string","null"]}},"type":"object"}',
      text { type = "OBJECT", properties = { a = { type = { "STRING", "NULL" } } } })
  end)
end)

describe("a strict schema", function()
  local function strict(schema)
    local converted = strictSchema.of(schema)
    return converted and moonpad.json.decode(schemaText.of(converted))
  end

  it("names every property, and no other is allowed", function()
    assert.are.same({
      type = "object", required = { "b", "a" }, additionalProperties = false,
      properties = {
        b = { type = "array", items = {
          type = "object", properties = { x = STRING }, required = { "x" }, additionalProperties = false,
        } },
        a = { anyOf = { { type = "integer", minimum = 1 }, { type = "null" } } },
      },
    }, strict {
      type = "object", required = { "b" }, title = "T",
      properties = {
        a = { type = "integer", minimum = 1, default = 1 },
        b = { type = "array", items = { type = "object", properties = { x = STRING }, required = { "x" } } },
      },
    })
  end)

  it("lets what may be null anyhow be as it is", function()
    local properties = {
      a = { type = { "string", "null" } }, b = { anyOf = { STRING, { type = "null" } } },
      c = { enum = { "x", moonpad.null } },
    }
    local converted = strict { type = "object", properties = properties }
    assert.are.same(properties, converted.properties)
    assert.are.same({ "a", "b", "c" }, converted.required)
    local nullable = { type = "string", nullable = true }
    converted = strict { type = "object", properties = { d = nullable }, required = { "d" } }
    assert.are.same({ anyOf = { STRING, { type = "null" } } }, converted.properties.d)
  end)

  it("may be of an object that is empty for sure", function()
    local empty = { type = "object", properties = {}, additionalProperties = false }
    assert.are.equal('{"additionalProperties":false,"properties":{},"required":[],"type":"object"}',
      schemaText.of(strictSchema.of(empty)))
  end)

  it("converts what is referred to", function()
    local converted = strict {
      type = "object", properties = { p = { ["$ref"] = "#/$defs/P" } }, required = { "p" },
      ["$defs"] = { P = { type = "object", properties = { n = STRING } } },
    }
    assert.are.same({
      type = "object", properties = { n = { anyOf = { STRING, { type = "null" } } } }, required = { "n" },
      additionalProperties = false,
    }, converted["$defs"].P)
  end)

  it("is not there for what cannot be said so, and leaves the schema as it was", function()
    for _, schema in ipairs {
      { type = "array", items = STRING }, { anyOf = { { type = "object" } } }, STRING,
      { type = "object", properties = {}, additionalProperties = STRING },
      { type = "object", additionalProperties = true },
      { type = "object", properties = { a = { type = "object", patternProperties = { x = STRING } } } },
      { type = "object", properties = { a = { allOf = { STRING } } } },
      { type = "object", properties = { a = true } },
      { type = "object", properties = { a = { type = "array", items = { STRING } } } },
      { type = "object", properties = {}, required = { "missing" } }, { type = "object" },
      { type = "object", properties = { a = { type = "object" } } }, { type = "object", properties = { a = {} } },
      { type = "object", properties = { a = { type = "array" } } },
    } do
      local before = moonpad.json.encode(schema)
      assert.is_nil(strict(schema), before)
      assert.are.equal(before, moonpad.json.encode(schema))
    end
    local schema = { type = "object", properties = { a = STRING } }
    strict(schema)
    assert.are.same({ type = "object", properties = { a = STRING } }, schema)
  end)
end)
