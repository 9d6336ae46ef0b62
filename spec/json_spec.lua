-- The exact codec for users: moonpad.json (contract 5) on the values of contract 1.2.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local random = require "spec.support.random_values"

local encode, decode, raises = moonpad.json.encode, moonpad.json.decode, checks.raises
local hasCjson, cjson = pcall(require, "cjson")

describe("moonpad.json.encode", function()
  it("writes compact JSON", function()
    local cases = {
      { moonpad.null, "null" }, { true, "true" }, { false, "false" }, { 0, "0" }, { -1, "-1" },
      { math.maxinteger, "9223372036854775807" }, { math.mininteger, "-9223372036854775808" },
        { 9007199254740993, "9007199254740993" },
      { 0.1, "0.1" }, { "", '""' }, { "é🌙", '"é🌙"' }, { '"\\', [["\"\\"]] }, { "\n", [["\n"]] },
        { "a/b", '"a/b"' },
      { {}, "{}" }, { moonpad.array {}, "[]" }, { { 1, { 2 } }, "[1,[2]]" },
        { { a = { b = true } }, '{"a":{"b":true}}' }, { { moonpad.null }, "[null]" },
    }
    for _, case in ipairs(cases) do assert.are.equal(case[2], encode(case[1])) end
  end)

  it("keeps a float a float", function()
    for _, value in ipairs { 1.0, -0.0, 1e15, 1e22, 2.0 ^ 63, 1e300, 5e-324 } do checks.identical(value,
      decode(encode(value))) end
    assert.is_nil(encode(1.0):find "^1$")
  end)

  it("writes NUL and other control characters as escapes", function()
    assert.are.equal([["\u0000\u0001\u001f"]], encode "\0\1\31")
  end)

  it("gives the same text for the same value", function()
    local one, two = {}, {}
    for index = 1, 50 do one["k" .. index] = index end
    for index = 50, 1, -1 do two["k" .. index] = index end
    assert.are.equal(encode(one), encode(two))
  end)

  it("takes what stands in a state", function()
    local state = moonpad.state { cart = { { id = 1 }, "two" }, ["user:n"] = 1 }
    assert.are.equal('[{"id":1},"two"]', encode(state.cart))
    assert.are.equal('{"first":{"id":1}}', encode { first = state.cart[1] })
  end)

  it("refuses what is no JSON and names the path", function()
    raises("invalid_argument", { "a[2].run", "function" }, encode, { a = { 1, { run = print } } })
    raises("invalid_argument", "NaN", encode, 0 / 0)
    raises("invalid_argument", nil, encode, { math.huge })
    raises("invalid_argument", nil, encode, { 1, nil, 3 })
    raises("invalid_argument", nil, encode, { 1, x = 2 })
    raises("invalid_argument", nil, encode, { [true] = 1 })
    raises("invalid_argument", "UTF-8", encode, { "\xff" })
    raises("invalid_argument", nil, encode, print)
    local cycle = {}
    cycle[1] = cycle
    raises("invalid_argument", nil, encode, cycle)
    raises("invalid_argument", "128", encode, checks.nested(129))
    assert.are.equal(("["):rep(128) .. ("]"):rep(128), encode(checks.nested(128)))
  end)
end)

describe("moonpad.json.decode", function()
  it("reads every JSON value", function()
    assert.are.equal(moonpad.null, decode "null")
    checks.identical({ 1, 1.0, -0.0, 100.0, "é🌙\0/", true, false, moonpad.null, {}, moonpad.array {} },
      decode [==[ [1, 1.0, -0.0, 1e2, "\u00e9\ud83c\udf19\u0000\/", true, false, null, {}, []] ]==])
    checks.identical({ a = { b = { 1 } }, [""] = 2 }, decode '\t{"a":\r\n{"b":[1]},"":2}')
    checks.identical(9223372036854775807, decode "9223372036854775807")
    checks.identical(-9223372036854775807 - 1, decode "-9223372036854775808")
    checks.identical(0.30000000000000004, decode "0.30000000000000004")
    checks.identical(5e-324, decode "4.9406564584124654e-324")
  end)

  it("keeps an empty array an empty array", function()
    assert.are.equal('{"a":[],"b":{}}', encode(decode '{"b":{},"a":[]}'))
  end)

  it("refuses what is no JSON and names the byte", function()
    local refused = { "", " ", "nul", "tru", "[1,]", "[1 2]", "{\"a\"}", "{\"a\":}", "{a:1}", "{'a':1}", "{\"a\":1,}",
      "[", "{", "\"", "\"\\x\"", "\"\\u12\"",
      "\"\n\"", "\"\t\"", "01", "-", "+1", ".5", "1.", "1e", "0x10", "NaN", "Infinity", "-Infinity", "[1]x", "1 2",
        "// comment\n1", "\"\xff\"", "\"\\ud800\"",
      "\"\\udc00\"", "\xef\xbb\xbf1", "]", "1e999", "'a'", "\0", "[1]\0" }
    for _, text in ipairs(refused) do raises("invalid_argument", "byte", decode, text) end
    local err = raises("invalid_argument", "byte", decode, "[1, 2, oops]")
    assert.is_truthy(err.message:find "byte 8" or err.message:find "byte 7")
    raises("invalid_argument", nil, decode)
    raises("invalid_argument", nil, decode, {})
  end)

  it("refuses what is too deep, however deep it is", function()
    assert.is_table(decode(("["):rep(128) .. ("]"):rep(128)))
    raises("invalid_argument", "deep", decode, ("["):rep(129) .. ("]"):rep(129))
    raises("invalid_argument", "deep", decode, ("["):rep(1000000))
    raises("invalid_argument", "deep", decode, ('{"a":'):rep(1000000))
  end)

  -- What is not spelt as moonpad spells it, such as the same behind a blank, is made so first.
  it("reads its own spelling as it reads any other", function()
    local seed = checks.seed()
    local values = random.new(seed)
    for number = 1, checks.scaled(300) do
      local value = values:value(5)
      local text = encode(value)
      for _, spelling in ipairs { text, " " .. text } do
        local ok, message = pcall(checks.identical, value, decode(spelling))
        assert(ok, ("MOONPAD_SEED=%d, text %d: %s"):format(seed, number, tostring(message)))
      end
    end
    for _, text in ipairs { "7", "-0.5", '""', '"x"', "[]", "{}", '"\\n"', "null", "-12345678901234567" } do
      checks.identical(decode(" " .. text), decode(text))
    end
  end)

  it("refuses a key that comes twice", function()
    for _, text in ipairs { '{"a":1,"a":1}', '{"b":{"a":[],"c":0,"a":[]}}', '{"a":1,"\\u0061":1}' } do
      raises("invalid_argument", 'duplicate key "a"', decode, text)
    end
    local many = {}
    for i = 1, 200 do many[i] = ('"k%d":%d'):format(i, i) end
    assert.are.equal(200, decode("{" .. table.concat(many, ",") .. "}").k200)
    raises("invalid_argument", 'duplicate key "k7"', decode, "{" .. table.concat(many, ",") .. ',"k7":0}')
  end)

  it("names the key that comes twice, and the byte where it comes again", function()
    for text, message in pairs {
      ['{"a":1,"a":2}'] = 'json: duplicate key "a" at byte 8',
      ['{"":1, "":1}'] = 'json: duplicate key "" at byte 8',
      ['[{"ab":{"x":1,"y":[],"x":null}}]'] = 'json: duplicate key "x" at byte 22',
      ['{"\\u0061b":1,"ab":2}'] = 'json: duplicate key "ab" at byte 14',
    } do
      local ok, err = pcall(decode, text)
      assert.is_false(ok)
      assert.are.equal(message, err.message)
    end
  end)

  it("agrees with lua-cjson where that is exact", function()
    if not hasCjson then return pending "lua-cjson is not installed" end
    local texts = { '{"a":[1.5,true,null,"x\\n\\u00e9"],"b":{"c":[{"d":"e"}]}}', "[0.5,-2.25,1e10]", '"text"',
      "[[[]]]" }
    for _, text in ipairs(texts) do
      assert.are.same(cjson.decode(text), decode(text))
      assert.are.same(cjson.decode(text), cjson.decode(encode(decode(text))))
    end
  end)
end)
