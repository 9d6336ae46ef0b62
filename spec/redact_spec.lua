-- Keys are taken out of what providers say, however they are quoted.
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local redact = require "moonpad.models.redact"

local KEY <const> = 'sk/a+b"c&d\\e%f_0'

-- The ways in which servers write a byte.
local WRITTEN <const> = {
  plain = function(byte) return string.char(byte) end,
  json = function(byte) return ("\\u00%02x"):format(byte) end,
  twice = function(byte) return ("\\\\\\u00%02X"):format(byte) end,
  javascript = function(byte) return ("\\x%02x"):format(byte) end,
  address = function(byte) return ("%%%02X"):format(byte) end,
  addressTwice = function(byte) return ("%%25%02x"):format(byte) end,
  html = function(byte) return ("&#%d;"):format(byte) end,
  htmlHex = function(byte) return ("&#x%X;"):format(byte) end,
  htmlTwice = function(byte) return ("&amp;#0%d;"):format(byte) end,
}

local function written(write)
  return (KEY:gsub(".", function(character) return write(character:byte()) end))
end

describe("a redactor", function()
  local redactor = redact.new { KEY, "other-secret" }

  it("takes out a key in every way of writing, and leaves what is around it", function()
    for way, write in pairs(WRITTEN) do
      local text = ("100%% & more \\ %s\\n, %s."):format(written(write), "other-secret")
      assert.equal("100% & more \\ [redacted]\\n, [redacted].", redactor:text(text), way)
    end
    for _, text in ipairs { "", "nothing", "100% & \\", "sk/a", "\\u00", "%2", "&#", "&amp;", "\0\0" } do
      assert.equal(text, redactor:text(text))
    end
  end)

  it("takes out what stands at the border of the pieces that a long text is read in", function()
    for shift = 0, #KEY do
      local before = ("x"):rep(65536 - shift)
      assert.equal(before .. "[redacted]" .. before, redactor:text(before .. KEY .. before))
    end
  end)

  it("shows no half of a key, wherever a text is cut or comes in pieces", function()
    for way, write in pairs(WRITTEN) do
      local text = written(write)
      for length = 1, #text - 1 do
        assert.equal("", redactor:text(text:sub(1, length), nil, true), way)
        local show = redactor:stream()
        local shown = show(text:sub(1, length)) .. show(text:sub(length + 1)) .. show("", true)
        assert.equal("[redacted]", (shown:gsub("^.-%[", "[")), way)
        assert.is_true(#shown <= #"[redacted]" + 3, way)
      end
    end
  end)

  it("takes a time that grows with the length of the text only, whatever is in it", function()
    for _, piece in ipairs { "\\", "%25", "%", "&amp;", "&#0", "&", "s", "sk/a+b" } do
      local short = piece:rep(1000 // #piece)
      local long = short:rep(400)
      assert.equal(long, redactor:text(long))
      -- The same bytes in one long text and in 400 short ones: a time that grows with the square of
      -- the length would be 400 times as long.
      local times = checks.timesAsLong(function()
        for _ = 1, 400 do redactor:text(short) end
      end, function() redactor:text(long) end)
      assert.is_true(times < 20, ("%s: %f times"):format(piece, times))
    end
  end)

  it("looks at no more of a text than is to be shown", function()
    local shown = redactor:text(KEY .. ("x"):rep(1000) .. KEY, 100)
    assert.equal("[redacted]" .. ("x"):rep(100 - #KEY), shown)
  end)
end)

describe("core.secretFinder", function()
  it("says where the first word begins, between two places, and where the text goes on", function()
    local find = core.secretFinder { "abc", "ab" }
    assert.same({ 3, 6 }, { find("xxabcab", 1, 7, true) })
    assert.same({ 6, 8 }, { find("xxabcab", 4, 100, true) })
    assert.same({}, { find("xxabcab", 1, 2, true) })
    assert.same({ 6 }, { find("xxabcab", 4, 7, false) })
    assert.same({}, { find("", 1, 1, false) })
    assert.same({}, { core.secretFinder {} ("abc", 1, 3, false) })
  end)

  it("refuses what it cannot work with", function()
    for _, words in ipairs { { "" }, { 5 }, { {} } } do assert.has_error(function() core.secretFinder(words) end) end
    assert.has_error(function() core.secretFinder(nil) end)
    local find = core.secretFinder { "abc" }
    for _, case in ipairs { { nil, 1, 1 }, { "a", 0, 1 }, { "a", 1, -5 }, { "a", 1.5, 2 }, { "a", 1 } } do
      assert.has_error(function() find(case[1], case[2], case[3], true) end)
    end
  end)
end)
