local checks = require "spec.support.checks"
local sse = require "moonpad.models.sse"

-- Feeds a stream in pieces of so many bytes.
local function parse(text, size)
  local stream, found = sse.new(), {}
  for first = 1, #text, size or #text do
    for _, event in ipairs(stream:feed(text:sub(first, first + (size or #text) - 1))) do found[#found + 1] = event end
  end
  return found, stream
end

local function data(text, size)
  local list = {}
  for index, event in ipairs((parse(text, size))) do list[index] = event.data end
  return list
end

describe("server-sent events", function()
  it("gives each event when its empty line has come", function()
    local stream = sse.new()
    assert.are.same({}, stream:feed "data: a\n")
    assert.is_true(stream:isIncomplete())
    assert.are.same({ { type = "message", data = "a" } }, stream:feed "\n")
    assert.is_false(stream:isIncomplete())
  end)

  it("reads the examples of the specification", function()
    assert.are.same({ "YHOO\n+2\n10" }, data "data: YHOO\ndata: +2\ndata: 10\n\n")
    assert.are.same({
      { type = "message", data = "first event", id = "1" },
      { type = "message", data = "second event", id = "" },
      { type = "message", data = " third event", id = "" },
    }, (parse ": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n\n"))
    assert.are.same({ "", "\n" }, data "data\n\ndata\ndata\n\ndata:")
    assert.are.same({ "test", "test" }, data "data:test\n\ndata: test\n\n")
  end)

  it("knows names of events, and forgets them with the event", function()
    local expected = {
      { type = "add", data = "1" }, { type = "message", data = "2" }, { type = "message", data = "3" },
    }
    assert.are.same(expected, (parse "event: add\ndata: 1\n\ndata: 2\n\nevent: lost\n\ndata: 3\n\n"))
  end)

  it("passes over comments, unknown fields, retry, ids with NUL", function()
    assert.are.same({ { type = "message", data = "x" } },
      (parse ": comment\nretry: 10\nfoo: bar\nid: a\0b\n:\n data: no\ndata: x\n\n"))
  end)

  local STREAM = "\xEF\xBB\xBFdata: ä€😀\r\ndata: b\r\n\r\nevent: e\rdata: c\r\rdata: d\n\ndata: \xEF\xBB\xBFf\n\r\n"
  local EXPECTED = {
    { type = "message", data = "ä€😀\nb" }, { type = "e", data = "c" }, { type = "message", data = "d" },
    { type = "message", data = "\xEF\xBB\xBFf" },
  }

  -- Every place where a stream can be cut; a sample of them where the collector never rests.
  local STEP = math.max(1, #STREAM // math.max(1, checks.scaled(#STREAM)))

  it("knows LF, CR and CRLF, the byte order mark at the start only, and characters of several bytes", function()
    assert.are.same(EXPECTED, (parse(STREAM)))
  end)

  it("gives the same whatever pieces the bytes come in", function()
    for size = 1, #STREAM, STEP do assert.are.same(EXPECTED, (parse(STREAM, size))) end
  end)

  it("gives the same when split in two at any place, with empty pieces in between", function()
    for cut = 0, #STREAM, STEP do
      local stream, found = sse.new(), {}
      for _, piece in ipairs { STREAM:sub(1, cut), "", STREAM:sub(cut + 1) } do
        for _, event in ipairs(stream:feed(piece)) do found[#found + 1] = event end
      end
      assert.are.same(EXPECTED, found)
    end
  end)

  it("drops an event that the end of the stream has cut off", function()
    local found, stream = parse "data: a\n\ndata: b\n"
    assert.are.same({ { type = "message", data = "a" } }, found)
    assert.is_true(stream:isIncomplete())
  end)

  it("has a limit for one event, not for the stream", function()
    local stream = sse.new(100)
    for _ = 1, 50 do stream:feed ": keep alive\ndata: 12345678\n\n" end
    for _ = 1, 50 do stream:feed ": keep alive\n" end
    local ok, err = pcall(stream.feed, stream, "data: " .. ("x"):rep(100))
    assert.is_false(ok)
    assert.are.equal("limit", err.code)
  end)

  it("takes long data in small pieces without copying all of it again and again", function()
    local length = checks.scaled(200000)
    local text = "data: " .. ("x"):rep(length) .. "\n\n"
    assert.are.equal(length, #data(text, 1)[1])
  end)
end)
