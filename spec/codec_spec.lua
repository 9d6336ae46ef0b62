-- moonpad.json: the exact codec (contract 1.2, 5).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local cjson = require "cjson"

local encode, decode, null = moonpad.json.encode, moonpad.json.decode, moonpad.null

---The message of the error that the call raises.
local function refusal(call, ...)
  local ok, err = pcall(call, ...)
  assert.is_false(ok)
  assert.is_table(err)
  assert.equal("invalid_argument", err.code)
  return err.message
end

---Equal in value and subtype, NaN aside; arrays and objects told apart by the array mark.
local function identical(a, b)
  if type(a) ~= type(b) then return false end
  if type(a) == "number" then
    return math.type(a) == math.type(b) and string.pack("n", a) == string.pack("n", b) and a == b
  end
  if type(a) ~= "table" then return a == b end
  for key, value in pairs(a) do
    if not identical(value, b[key]) then return false end
  end
  for key in pairs(b) do
    if a[key] == nil then return false end
  end
  return true
end

describe("moonpad.json writes", function()
  local cases = {
    { 1, "1" }, { 1.0, "1.0" }, { -0.0, "-0.0" }, { 0, "0" },
    { math.maxinteger, "9223372036854775807" }, { math.mininteger, "-9223372036854775808" },
    { 9007199254740993, "9007199254740993" }, { 0.1, "0.1" }, { 0.1 + 0.2, "0.30000000000000004" },
    { true, "true" }, { false, "false" }, { null, "null" },
    { "", '""' }, { 'a"b\\c', '"a\\"b\\\\c"' }, { "a/b", '"a/b"' }, { "\127", '"\127"' },
    { "\u{1F600}", '"\u{1F600}"' }, { "\u{2028}", '"\u{2028}"' },
    { {}, "{}" }, { moonpad.array {}, "[]" }, { { 1, 2 }, "[1,2]" }, { { {}, {} }, "[{},{}]" },
    { { a = 1 }, '{"a":1}' }, { { [""] = 1 }, '{"":1}' }, { { ["1"] = 1 }, '{"1":1}' },
    { moonpad.array { 3, 2, 1 }, "[3,2,1]" },
    { { b = { 2, { d = 4, c = 3 } }, a = moonpad.array {} }, '{"a":[],"b":[2,{"c":3,"d":4}]}' },
  }
  for _, case in ipairs(cases) do
    it(case[2], function() assert.equal(case[2], encode(case[1])) end)
  end

  it("control characters so that any parser reads them", function()
    for byte = 0, 31 do
      local text = encode(string.char(byte))
      assert.is_nil(text:find "%c")
      assert.equal(string.char(byte), decode(text))
    end
  end)

  it("object keys sorted by bytes, at every size", function()
    for _, count in ipairs { 2, 3, 16, 17, 100, 1000 } do
      local object, keys = {}, {}
      for index = 1, count do
        local key = ("%x"):format(index * 7919 % 104729) .. ("\u{e9}"):rep(index % 3)
        object[key], keys[#keys + 1] = index, key
      end
      table.sort(keys)
      local members = {}
      for index, key in ipairs(keys) do members[index] = ('"%s":%d'):format(key, object[key]) end
      assert.equal("{" .. table.concat(members, ",") .. "}", encode(object))
    end
  end)

  it("keys with a NUL in byte order too", function()
    assert.equal('{"":0,"\\u0000":1,"a":2,"a\\u0000":3,"a\\u0000b":4,"aa":5}',
      encode { aa = 5, ["a\0b"] = 4, ["a\0"] = 3, a = 2, ["\0"] = 1, [""] = 0 })
  end)

  it("sequences that Lua does not keep in an array part", function()
    local scattered = {}
    for index = 10, 1, -1 do scattered[index] = index end
    assert.equal("[1,2,3,4,5,6,7,8,9,10]", encode(scattered))
    assert.equal("[1,2]", encode { [2.0] = 2, [1.0] = 1 })
  end)

  it("one table in two places, which is no cycle", function()
    local shared = { 1 }
    assert.equal('{"a":[1],"b":[[1],[1]]}', encode { a = shared, b = { shared, shared } })
  end)

  it("what tables hold, whatever their metatables pretend", function()
    local function pretend() error "a metamethod was called" end
    local proxy = setmetatable({ a = 1 }, { __index = pretend, __pairs = pretend, __len = pretend, __tostring = pretend,
      __eq = pretend, __name = "thing" })
    assert.equal('{"a":1}', encode(proxy))
  end)

  it("counts bytes from 1, as string.sub does", function()
    assert.equal("json: a value was expected at byte 1", refusal(decode, "x"))
    assert.equal("json: invalid UTF-8 at byte 3", refusal(decode, '["\xff"]'))
    assert.equal("json: text after the end of the value at byte 4", refusal(decode, "[1]x"))
    assert.equal('state key "a\\xFF": invalid UTF-8 at byte 2', refusal(moonpad.state, { ["a\xff"] = 1 }))
    assert.equal('state["k"]: the string is not valid UTF-8 (byte 2)', refusal(moonpad.state, { k = "a\xff" }))
  end)

  it("128 levels, and not one more", function()
    local value = 0
    for _ = 1, 128 do value = { value } end
    assert.equal(("["):rep(128) .. "0" .. ("]"):rep(128), encode(value))
    assert.matches("^value%[1%].*: nested deeper than 128 levels$", refusal(encode, { value }))
  end)

  it("proxies of a state", function()
    local state = moonpad.state { cart = { { run = 1 }, moonpad.array {} }, n = 1.0 }
    assert.equal('[{"run":1},[]]', encode(state.cart))
    assert.equal('{"cart":[{"run":1},[]],"n":1.0}', encode(state))
    assert.equal('{"x":[{"run":1}]}', encode { x = { state.cart[1] } })
  end)
end)

describe("moonpad.json refuses to write", function()
  local keys = " as a key cannot be encoded: keys are strings, or 1 to n for an array"
  local cyclic = { a = {} }
  cyclic.a.b = { cyclic }
  local deep = {}
  local refusals = {
    { "a function", print, "value: a function cannot be encoded" },
    { "a function inside", { cart = { 1, { run = print } } }, "value.cart[2].run: a function cannot be encoded" },
    { "a coroutine", { coroutine.create(print) }, "value[1]: a coroutine cannot be encoded" },
    { "a userdata", { f = io.stdout }, "value.f: a userdata cannot be encoded" },
    { "NaN", { x = { 0 / 0 } }, "value.x[1]: NaN cannot be encoded" },
    { "infinity", { x = -1 / 0 }, "value.x: an infinite number cannot be encoded" },
    { "a cycle", cyclic, "value.a.b[1]: a table that contains itself cannot be encoded" },
    { "mixed keys", { x = { 1, 2, y = 3 } },
      "value.x: a table that mixes array items and string keys cannot be encoded" },
    { "an array with string keys", { x = moonpad.array { y = 3 } },
      "value.x: an array with string keys cannot be encoded" },
    { "a hole", { x = { 1, nil, 3 } }, "value.x: an array with holes (there is no item 2) cannot be encoded" },
    { "a hole at 1", { [2] = 1 }, "value: an array with holes (there is no item 1) cannot be encoded" },
    { "index 0", { [0] = 1, [1] = 1 }, "value: an array with holes (there is no item 2) cannot be encoded" },
    { "a boolean key", { x = { [true] = 1 } }, "value.x: a boolean" .. keys },
    { "a float key", { [1.5] = 1 }, "value: a float" .. keys },
    { "a table as a key", { [deep] = 1 }, "value: a table" .. keys },
    { "invalid UTF-8", { ["two words"] = "ab\xff" }, 'value["two words"]: the string is not valid UTF-8 (byte 3)' },
    { "a surrogate in UTF-8", "\xed\xa0\x80", "value: the string is not valid UTF-8 (byte 1)" },
    { "an overlong form", "\xc0\xaf", "value: the string is not valid UTF-8 (byte 1)" },
    { "an invalid key", { a = { ["k\xff"] = 1 } }, "value.a: a key is not valid UTF-8 (byte 2)" },
    { "the mark for removal", { a = moonpad.removed },
      "value.a: moonpad.removed is not a value: to delete a state key, assign nil" },
  }
  for _, case in ipairs(refusals) do
    it(case[1], function() assert.equal(case[3], refusal(encode, case[2])) end)
  end

  it("nil and nothing", function()
    assert.equal("value: nil cannot be encoded", refusal(encode, nil))
    assert.equal("value: nil cannot be encoded", refusal(encode))
  end)

  it("and says so readably when the path is endless", function()
    local value = print
    for _ = 1, 100 do value = { ["a rather long name of a member"] = value } end
    local message = refusal(encode, value)
    assert.is_true(#message < 1016)
    assert.matches("^value%[\"a rather", message)
    assert.matches(": a function cannot be encoded$", message)
  end)

  it("and works on as before", function()
    for _, case in ipairs(refusals) do pcall(encode, { z = 1, a = { case[2] }, b = case[2] }) end
    assert.equal('{"a":1,"b":{"c":2,"d":3}}', encode { b = { d = 3, c = 2 }, a = 1 })
  end)
end)

describe("moonpad.json reads", function()
  it("numbers with their subtype", function()
    assert.equal("integer", math.type(decode "9007199254740993"))
    assert.equal(9007199254740993, decode "9007199254740993")
    assert.equal(math.mininteger, decode "-9223372036854775808")
    assert.equal("float", math.type(decode "1.0"))
    assert.equal("float", math.type(decode "1e2"))
    assert.equal("float", math.type(decode "9223372036854775808"))
    assert.equal("-0.0", tostring(decode "-0.0"))
  end)

  it("arrays and objects apart, empty or not", function()
    for _, text in ipairs { "[]", "{}", "[[],{}]", '{"a":[],"b":{}}', "[1,[2]]" } do
      assert.equal(text, encode(decode(text)))
    end
  end)

  it("null as the value that cjson has", function()
    assert.equal(cjson.null, decode "null")
    assert.equal(cjson.null, null)
    assert.same({ a = null }, decode '{"a":null}')
  end)

  it("escapes", function()
    assert.equal('\b\f\n\r\t"\\/\0\u{e9}\u{1F600}', decode [["\b\f\n\r\t\"\\\/\u0000\u00e9\ud83d\ude00"]])
  end)

  it("white space around and between", function()
    assert.same({ 1, { a = 2 } }, decode ' \t\r\n[ 1 , { "a" : 2 } ] ')
  end)

  local bad = {
    "", " ", "nul", "tru", "[1,]", "[1", "{", '{"a"}', '{"a":}', '{"a":1,}', "{a:1}", "01", "1.", ".5", "+1", "-", "1e",
    "NaN", "Infinity", "0x10", '"', '"\\x"', '"\\u12"', '"\\ud800"', '"a\nb"', "[1] 2", "'a'", "\xef\xbb\xbf1",
    '"\xff"', "1e999",
  }
  for _, text in ipairs(bad) do
    it(("not %q"):format(text), function()
      local message = refusal(decode, text)
      assert.matches("^json: ", message)
      assert.matches("byte %d+", message)
    end)
  end

  it("no key twice, and says where", function()
    assert.equal('json: duplicate key "b" at byte 22', refusal(decode, '{"a":{"b":1,"c":null,"b":2}}'))
  end)

  it("128 levels, and not one more", function()
    assert.equal(("["):rep(128) .. ("]"):rep(128), encode(decode(("["):rep(128) .. ("]"):rep(128))))
    refusal(decode, ("["):rep(129) .. ("]"):rep(129))
    refusal(decode, ("["):rep(1000000))
  end)

  it("strings only", function()
    assert.equal("json.decode: expects a string, got a table", refusal(decode, {}))
    assert.equal("json.decode: expects a string, got a number", refusal(decode, 1))
    assert.equal("json.decode: expects a string, got nil", refusal(decode))
  end)
end)

describe("moonpad.json and lua-cjson", function()
  it("share array marks where the module has them", function()
    local array_mt, empty_array_mt, empty_array = {}, {}, assert(io.tmpfile())
    finally(function()
      cjson.array_mt, cjson.empty_array_mt, cjson.empty_array = nil, nil, nil
      empty_array:close()
    end)
    local kept = { cjson.array_mt, cjson.empty_array_mt, cjson.empty_array }
    if #kept > 0 then return end
    assert.equal("{}", encode(setmetatable({}, array_mt)))
    cjson.array_mt, cjson.empty_array_mt = array_mt, empty_array_mt
    assert.equal("[]", encode(setmetatable({}, array_mt)))
    assert.equal("[1]", encode(setmetatable({ 1 }, array_mt)))
    assert.equal("[]", encode(setmetatable({}, empty_array_mt)))
    assert.equal('{"a":1}', encode(setmetatable({ a = 1 }, empty_array_mt)))
  end)
end)

describe("random values", function()
  local texts = { "", "a", "get", "two words", "\0", "a\0b", "\u{1F600}", "\u{e9}t\u{e9}", "\u{ffff}", "\u{10ffff}",
    "\"\\/", "\127\1",
    ("x"):rep(300), "1", "-1", "true", "[1]", "user:x" }
  local integers = { 0, 1, -1, math.maxinteger, math.mininteger, 1 << 53, (1 << 53) + 1, 255, 10 ^ 6 // 1 | 0 }
  local floats = { 0.0, -0.0, 1.0, 0.1, 1 / 3, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308,
    1e15, 1e16, 1e21, 1e-7, 123456.789,
    2.0 ^ 53, 2.0 ^ 63, -2.0 ^ 63 }

  local function number()
    local choice = math.random(4)
    if choice == 1 then return integers[math.random(#integers)] end
    if choice == 2 then return floats[math.random(#floats)] end
    if choice == 3 then return math.random(0) end
    local float
    repeat
      float = string.unpack("d", string.pack("j", math.random(0)))
    until float == float and math.abs(float) ~= math.huge
    return float
  end

  local function text()
    if math.random(3) > 1 then return texts[math.random(#texts)] end
    local points = {}
    for index = 1, math.random(0, 8) do
      local point
      repeat
        point = math.random(0, ({ 0x7f, 0x7ff, 0xffff, 0x10ffff })[math.random(4)])
      until point < 0xd800 or point > 0xdfff
      points[index] = utf8.char(point)
    end
    return table.concat(points)
  end

  local function value(depth)
    local choice = math.random(depth > 0 and 9 or 6)
    if choice <= 2 then return number() end
    if choice <= 4 then return text() end
    if choice == 5 then return math.random(2) == 1 end
    if choice == 6 then return null end
    local made = choice == 7 and moonpad.array {} or {}
    for index = 1, math.random(0, 6) do
      made[choice == 7 and index or text()] = value(depth - 1)
    end
    return made
  end

  it("come back as they were, subtype and bits", function()
    math.randomseed(checks.seed())
    for _ = 1, checks.scaled(3000) do
      local original = value(5)
      local written = encode(original)
      local back = decode(written)
      assert.is_true(identical(original, back), written)
      assert.equal(written, encode(back))
    end
  end)

  it("are what lua-cjson reads, as far as it can", function()
    math.randomseed(checks.seed(), 7)
    -- lua-cjson has no integers: both sides are brought to floats; and it takes NUL in keys
    -- and strings.
    local function floated(v)
      if math.type(v) == "integer" then return v + 0.0 end
      if type(v) ~= "table" then return v end
      local copy = {}
      for key, item in pairs(v) do copy[key] = floated(item) end
      return copy
    end
    for _ = 1, checks.scaled(1000) do
      local original = value(4)
      if type(original) == "table" then
        local ours = encode(original)
        assert.is_true(identical(floated(original), floated(cjson.decode(ours))), ours)
      end
    end
  end)

  it("that lua-cjson wrote are read as it reads them", function()
    math.randomseed(checks.seed(), 11)
    for _ = 1, checks.scaled(1000) do
      local theirs = cjson.encode { value(0), { text(), a = nil }, { [text()] = value(0) } }
      -- a negative zero needs a float: -0 is the integer 0
      theirs = theirs:gsub("%-0([,%]}])", "0%1")
      local a, b = decode(theirs), cjson.decode(theirs)
      assert.equal(cjson.encode(a), cjson.encode(b), theirs)
    end
  end)

  it("as single numbers: the shortest text that is exact", function()
    math.randomseed(checks.seed(), 3)
    for index = 1, checks.scaled(20000) do
      local original = number()
      local written = encode(original)
      assert.equal(original, math.type(original) == "integer" and math.tointeger(written) or tonumber(written))
      assert.equal(math.type(original), math.type(decode(written)))
      if math.type(original) == "float" and index % 10 == 0 then
        local needed = 1
        while tonumber(("%." .. needed .. "g"):format(original)) ~= original do needed = needed + 1 end
        local digits = written:gsub("[eE].*", ""):gsub("[^%d]", ""):gsub("^0+", ""):gsub("0+$", "")
        assert.is_true(#digits <= needed, written)
      end
    end
  end)
end)

describe("moonpad.toTable", function()
  it("copies deep, and leaves scalars alone", function()
    local inner = { 1 }
    local copy = moonpad.toTable { a = inner, b = moonpad.array {} }
    inner[1] = 2
    assert.equal('{"a":[1],"b":[]}', encode(copy))
    for _, scalar in ipairs { 1, 1.5, "x", true, null, moonpad.removed } do
      assert.equal(scalar, moonpad.toTable(scalar))
    end
    assert.is_nil(moonpad.toTable(nil))
  end)

  it("turns proxies, nested too, into tables that cjson sees into", function()
    local state = moonpad.state { cart = { { n = 1 } }, empty = {} }
    local copy = moonpad.toTable { cart = state.cart, all = state }
    assert.equal("table", type(copy.cart))
    assert.equal(1, cjson.decode(cjson.encode(copy)).all.cart[1].n)
    copy.cart[1].n = 2
    assert.equal(1, state.cart[1].n)
  end)

  it("refuses a cycle", function()
    local cyclic = {}
    cyclic.self = cyclic
    assert.matches("contains itself", refusal(moonpad.toTable, cyclic))
  end)
end)

describe("moonpad.array", function()
  it("marks and returns the table that it is given", function()
    local list = {}
    assert.equal(list, moonpad.array(list))
    assert.equal("[]", encode(list))
    assert.equal("[]", encode(moonpad.array()))
    assert.matches("array: expects a table, got a string", refusal(moonpad.array, "x"))
  end)
end)
