-- moonpad.base64, and what else has to do with bytes as text.
local base64 = require "moonpad.util.base64"
local checks = require "spec.support.checks"
local moonpad = require "moonpad"

describe("base64", function()
  it("is that of RFC 4648", function()
    local texts = { "", "f", "fo", "foo", "foob", "fooba", "foobar", "\0\xFF\xFE\x3E\x3F" }
    local encoded = { "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy", "AP/+Pj8=" }
    for index, text in ipairs(texts) do
      assert.equal(encoded[index], moonpad.base64.encode(text))
      assert.equal(text, moonpad.base64.decode(encoded[index]))
    end
  end)

  it("joins what it encodes in pieces", function()
    for _, length in ipairs { 12287, 12288, 12289, 24576, 24577 } do
      local text = base64.encode(("abc"):rep(length // 3) .. ("a"):rep(length % 3))
      assert.equal(("YWJj"):rep(length // 3) .. ({ [0] = "", "YQ==", "YWE=" })[length % 3], text)
    end
  end)

  it("reads both alphabets, with and without padding, with blanks in between", function()
    for _, text in ipairs { "AP/+Pj8=", "AP/+Pj8", "AP_-Pj8=", " AP/+\r\nPj8\t= \n" } do
      assert.equal("\0\xFF\xFE\x3E\x3F", moonpad.base64.decode(text))
    end
  end)

  it("says of what it cannot read where that is", function()
    for text, problem in pairs {
      ["AA*A"] = "byte 3 is no character of base64",
      ["AAAA\0"] = "byte 5 is no character of base64",
      ["\xFF"] = "byte 1 is no character of base64",
      ["AA==AA"] = "there is more behind the padding at byte 3",
      ["A==="] = "there are more than two characters of padding",
      ["AAAAA"] = "it is cut off: its last group has a single character",
      ["A"] = "it is cut off: its last group has a single character",
    } do
      local err = checks.raises("invalid_argument", problem, moonpad.base64.decode, text)
      assert.equal("moonpad.base64.decode: " .. problem, err.message)
      assert.is_nil(base64.tryDecode(text))
    end
  end)

  it("finds a problem in exactly what cannot be decoded", function()
    local alphabet = "AZaz09+/-_= \n*"
    for _ = 1, checks.scaled(2000) do
      local characters = {}
      for index = 1, math.random(0, 9) do
        local at = math.random(#alphabet)
        characters[index] = alphabet:sub(at, at)
      end
      local text = table.concat(characters)
      assert.equal(base64.tryDecode(text) == nil, base64.problem(text) ~= nil, ("%q"):format(text))
    end
  end)

  it("finds a problem in a time that grows with the text only", function()
    for _, of in ipairs { { "=", "" }, { "= ", "" }, { " ", "a" }, { "A", "" } } do
      local function problemOf(bytes)
        local text = of[1]:rep((bytes - 1) // 4 * 4 // #of[1]) .. (of[1] == "A" and "A" or "") .. of[2]
        return function() assert.is_string(base64.problem(text)) end
      end
      local short, long = problemOf(4000), problemOf(200000)
      -- Fifty short texts, or a long one: in a time that grows with the square of the length, that
      -- takes fifty times as long.
      local times = checks.timesAsLong(function() for _ = 1, 50 do short() end end, long)
      assert.is_true(times < 12, ("%q: %f"):format(of[1], times))
    end
  end)

  it("takes strings alone", function()
    for _, name in ipairs { "encode", "decode" } do
      for _, value in ipairs { 5, true, {}, print, moonpad.null } do
        checks.raises("invalid_argument", { "moonpad.base64." .. name .. ": expected a string, got " },
          moonpad.base64[name], value)
      end
      checks.raises("invalid_argument", "got nil", moonpad.base64[name])
    end
  end)
end)
