-- JSON Schemas that are none, refused when the tool or the agent is made.
local moonpad = require "moonpad"

local function failure(run, ...)
  local ok, err = pcall(run, ...)
  assert.is_false(ok)
  assert.equal("invalid_argument", err.code)
  return err.message
end

local function toolWith(parameters)
  return moonpad.tool { name = "look", parameters = parameters, run = function() end }
end

local function agentWith(outputSchema)
  return moonpad.agent { name = "A", outputSchema = outputSchema, model = function() end }
end

local containing = { type = "object" }
containing.properties = { again = containing }

-- What is behind the place of the schema in the message.
local broken = {
  { { type = "objec" }, '.type: "objec" is no type; there are array, boolean, integer, null, number, object, string' },
  { { type = 3 }, ".type: expected a list of types, got number" },
  { { type = {} }, ".type: names no type" },
  { { type = { "object", "nul" } }, '.type[2]: "nul" is no type; ' },
  { { properties = { z = "string" } }, ".properties.z: expected a schema (a table), got string" },
  { { properties = { z = { type = "strin" } } }, '.properties.z.type: "strin" is no type' },
  { { properties = { ["a b"] = { type = "x" } } }, '.properties["a b"].type: "x" is no type' },
  { { properties = { { type = "string" } } }, ".properties: expected a table of schemas by name, got a list" },
  { { properties = "z" }, ".properties: expected a table of schemas by name, got string" },
  { { required = "q" }, ".required: expected a list of names, got string" },
  { { required = { q = true } }, '.required: expected a list of names, got a table with the key "q"' },
  { { required = { true } }, ".required[1]: expected a name, got boolean" },
  { { properties = { z = { enum = "x" } } }, ".properties.z.enum: expected a list of values, got string" },
  { { properties = { z = { enum = {} } } }, ".properties.z.enum: has no value" },
  { { properties = { z = { enum = { print } } } }, ".properties.z.enum: " },
  { { properties = { z = { items = { type = "int" } } } }, '.properties.z.items.type: "int" is no type' },
  { { properties = { z = { items = { { type = "int" } } } } }, '.properties.z.items[1].type: "int" is no type' },
  { { properties = { z = { minimum = "1" } } }, ".properties.z.minimum: expected a number, got string" },
  { { properties = { z = { nullable = 1 } } }, ".properties.z.nullable: expected a boolean, got number" },
  { { additionalProperties = "no" }, ".additionalProperties: expected a schema (a table), got string" },
  { { additionalProperties = { type = "no" } }, '.additionalProperties.type: "no" is no type' },
  { { anyOf = { { type = "no" } } }, '.anyOf[1].type: "no" is no type' },
  { { anyOf = {} }, ".anyOf: has no schema" },
  { { oneOf = { type = "object" } }, '.oneOf: expected a list of schemas, got a table with the key "type"' },
  { { "object" }, ": expected a schema, got a list" },
  { containing, "is nested too deeply, or contains itself" },
}

describe("a JSON Schema", function()
  for _, case in ipairs(broken) do
    it("is refused: " .. case[2], function()
      local place, text = 'tool "look".parameters', failure(toolWith, case[1])
      assert.equal(place, text:sub(1, #place))
      assert.is_truthy(text:find(case[2], 1, true), text)
      place, text = 'agent "A".outputSchema', failure(agentWith, case[1])
      assert.equal(place, text:sub(1, #place))
      assert.is_truthy(text:find(case[2], 1, true), text)
    end)
  end

  it("of arguments is one of an object", function()
    for _, name in ipairs { "string", "array" } do
      assert.equal('tool "look".parameters.type: must be "object": arguments are one',
        failure(toolWith, { type = name }))
      assert.is_table(agentWith { type = name })
    end
    assert.is_table(toolWith { type = { "object", "null" } })
  end)

  it("may use all that JSON Schema has, and the capitals of Gemini", function()
    local whole = {
      type = "OBJECT", title = "t", description = "d", default = moonpad.null, ["$schema"] = "x", examples = { {} },
      properties = moonpad.json.decode [[{
        "a": { "type": ["string", "null"], "pattern": "^x", "format": "date" }, "b": true,
        "c": { "type": "array", "items": [{ "type": "string" }, { "type": "integer" }], "minItems": 1 },
        "d": { "anyOf": [{ "type": "STRING" }, { "const": 3 }], "nullable": true }, "e": { "enum": [1, null, {}] }
      }]],
      required = moonpad.json.decode "[]", additionalProperties = false,
      ["$defs"] = { x = { type = "string" } }, patternProperties = { ["^y"] = { type = "string" } },
    }
    assert.is_table(toolWith(whole))
    assert.is_table(agentWith(whole))
    assert.is_table(toolWith {})
  end)
end)
