-- The page of examples/web in Chromium: its NPC, and moonpad's HTTP client on the browser's fetch.
-- It needs what `scripts/deps.sh platforms` installs, and `make web`; scripts/platforms.sh runs it.
-- MOONPAD_SCREENSHOTS=FOLDER keeps pictures.
local moonpad = require "moonpad"
local server = require "spec.support.http"
local support = require "spec.support"

local PAGE = (os.getenv "MOONPAD_BUILD" or "build") .. "/web"

local web

-- All of it in one browser: what it shows depends on what was said before.
local function run(script)
  web = server.start()
  local command = ("node spec/platforms/web/%s %s %s %s/browser %s"):format(
    script, support.quote(PAGE), web.url, support.tmpdir(), support.quote(os.getenv "MOONPAD_SCREENSHOTS" or ""))
  local pipe <close> = assert(io.popen(command))
  local printed = pipe:read "a"
  web:stop()
  return moonpad.json.decode(assert(printed:match "([^\n]+)\n*$", script .. " has printed nothing"))
end

describe("the page of examples/web", function()
  local seen

  setup(function() seen = run "page.mjs" end)
  teardown(function() support.cleanup() end)

  it("goes through every step under its own policy, and asks no other host", function()
    assert.is_nil(seen.broken)
    assert.are.same({}, seen.foreign)
    assert.are.same({}, seen.errors)
  end)

  it("begins with what its Lua file has written", function()
    local first = { mood = "calm", ["user:evening"] = 1, ["user:gold"] = 10 }
    assert.are.same(first, seen.firstState)
    print(("\nweb: ready after %d ms, after a reload %d ms; the longest step %.1f ms"):format(
      seen.firstStart, seen.reloadedIn, seen.longestStep))
  end)

  it("is used without a mouse", function()
    assert.are.same({ "message", "send" }, { seen.focus, seen.focusAfterIt })
  end)

  it("shows words and state as they come, and draws frames meanwhile", function()
    assert.is_true(seen.stateBeforeTheEnd)
    assert.is_true(seen.wordsBeforeTheEnd)
    assert.is_true(seen.saidOnce)
    assert.is_true(seen.changed > 0)
    assert.is_true(seen.frames > 50, seen.frames .. " frames")
    assert.are.equal(8, seen.eventsShown)
    assert.is_true(seen.rawEvent)
  end)

  it("remembers after a reload, and in another browser", function()
    local state = seen.after[3]
    assert.are.same({ 8, "Ann", 1 }, { state["user:gold"], state["user:name"], state["app:served"] })
    assert.is_truthy(seen.after[1]:find("That leaves 8 gold", 1, true))
    assert.are.same({ seen.before[2], seen.before[3] }, { seen.after[2], seen.after[3] })
    assert.are.same({ seen.after[1], seen.after[3] }, seen.afterRestart)
  end)

  it("keeps to an evening what belongs to it, and finds the rest in memory", function()
    assert.is_false(seen.newLog)
    assert.is_true(seen.remembered)
    assert.are.same({ 2, "Ann" }, { seen.secondEvening["user:evening"], seen.secondEvening["user:name"] })
  end)

  it("waits while it is open in another tab, and then shows what was said there", function()
    assert.are.same({ false, "" }, seen.secondTab)
    assert.is_false(seen.noticeAfter)
    assert.is_true(seen.secondTabLater)
  end)

  it("streams a model's answer by fetch, and does what the model calls", function()
    assert.are.same({ false, 4 }, seen.modelBeforeTheEnd)
    assert.is_true(seen.modelSaid)
    assert.are.same({ 2, "Bearer key-that-stays-here", "some-model", true, "system" }, seen.sent)
    assert.is_truthy(seen.instruction:find("The guest's name: Ann. Gold in the guest's purse: 7.", 1, true))
  end)

  it("keeps the key to itself", function()
    assert.are.same({ false, false, 0 }, seen.keyIsKept)
    assert.is_nil(seen.refused:find("key-that-stays-here", 1, true))
  end)

  it("takes nothing that is said for HTML", function()
    assert.are.same({ 3, 0 }, { seen.hostileShown, seen.hacked })
  end)

  it("tells of the network's failures, and loses nothing by them", function()
    assert.is_truthy(seen.brokenOff[1]:find("the connection broke before the answer was complete", 1, true))
    assert.is_false(seen.brokenOff[2])
    assert.is_truthy(seen.refused:find("HTTP 401: no such key", 1, true))
    assert.is_truthy(seen.closedToPages:find("CORS", 1, true))
    assert.is_true(seen.stateKept)
    assert.are.same({ "Here is your stew.", "What about?", "And now?", "Still there?" }, seen.kept)
    assert.are.same({ "", true }, seen.goesOn)
  end)

  it("breaks off what is stopped", function()
    assert.are.same({ true, "" }, seen.stopped)
  end)

  it("says what could not be saved, and saves it later", function()
    assert.is_true(seen.madeUpFor)
  end)

  it("can be read by everybody, on a narrow screen too", function()
    assert.are.same({}, seen.violations)
    assert.are.equal(0, seen.overflow)
  end)

  it("forgets when it is told to", function()
    assert.are.same(seen.firstState, seen.forgotten)
    assert.are.same(seen.firstState, seen.stillForgotten)
  end)
end)

describe("HTTP in a page", function()
  local seen

  setup(function() seen = run "fetch.mjs" end)
  teardown(function() support.cleanup() end)

  it("goes through every step", function()
    assert.is_nil(seen.broken)
    assert.are.same({}, seen.errors)
  end)

  it("has answers with status, headers and body", function()
    assert.are.same({ 200, "1", "caf\u{e9}", "hello" }, seen.answer)
    assert.are.same({ "GET", "Bearer k", "" }, seen.asked)
    assert.are.same({}, seen.unasked)
    assert.are.same({ 404, "gone", 1 }, seen.missing)
    assert.are.equal(0, seen.empty)
  end)

  it("sends bodies byte for byte, also when it asks again", function()
    local function twice(length) return { { "PUT", length, "whole" }, { "PUT", length, "whole" } } end
    assert.are.same({ twice "5", twice "100002", twice "0", twice "0" }, seen.bodies)
  end)

  it("gives what has come before the rest does, in whatever pieces", function()
    assert.are.same({ true, true, true }, seen.pieces)
    assert.are.same({ 1, "abcdef" }, { seen.sentWithTheFirst, seen.afterTheFirst })
  end)

  it("pauses when nobody reads, and does not take that for silence", function()
    assert.is_true(seen.paused)
    assert.are.same({ true, true }, seen.large)
  end)

  it("goes on side by side", function()
    assert.are.same({ 6, "xxxxxx" }, { seen.active, seen.together })
  end)

  it("tries again when the server says", function()
    assert.are.same({ 200, 2, true, true }, seen.retried)
    assert.are.same({ 200, true, true }, seen.dated)
    assert.are.same({ 2, 1, 2, 1, 2, 1 }, seen.pastDates)
    assert.are.same({ 2, 2, 2, 2, 2, 2 }, seen.nonsense)
    assert.are.same({ { 1, 429 }, { 1, 429 }, { 2, 200 } }, { seen.tooLong, seen.hugePause, seen.milliseconds })
  end)

  it("tries again when a connection breaks before the first byte, and never after it", function()
    assert.are.same({ 200, "ok", 3 }, seen.brokenBefore)
    assert.are.same({ "01234", "transfer", 1 }, seen.brokenAfter)
    assert.matches("^connect: no connection.*%(after 4 attempts%)$", seen.nobody)
  end)

  it("ends what takes too long, or falls silent", function()
    assert.matches("^timeout: timed out: not complete after 30[01] ms", seen.late[1])
    assert.are.same({ true, true }, { seen.late[2], seen.late[3] })
    assert.are.same({ "timeout: timed out: nothing was sent or received for 300 ms", true, true }, seen.silent)
    assert.are.equal("timeout", seen.endless)
    assert.are.same({ "01234", "timeout" }, seen.stuck)
    assert.are.equal("01234567", seen.nowAndThen)
  end)

  it("counts what came in while the page was held up", function()
    assert.are.same({ "01234567", true }, seen.heldUp)
  end)

  it("follows no redirection, which a page cannot look at first", function()
    assert.are.equal("redirect: redirected, and a page is not told where to", seen.redirected)
    assert.are.same({ "/a" }, seen.followed)
    assert.are.equal("redirect", seen.nowhere)
  end)

  it("tells that a server may be closed to pages", function()
    assert.are.same({ "connect", "", 0 }, seen.withoutCors)
  end)

  it("breaks off what is closed, or held by nobody any more", function()
    assert.are.same({ true, true }, seen.closed)
    assert.are.equal(0, seen.activeAfter)
    assert.are.equal("the HTTP client has been closed: closed", seen.orphan)
  end)

  it("refuses what a browser would leave out or change in silence, and quotes no secret", function()
    for what, expected in pairs {
      caFile = "^unsupported: caFile", sendOnce = "^unsupported: sendOnce",
      password = "^unsupported: .*name and password",
      body = "^unsupported: .*body with GET", cookie = "^unsupported: .*headers", host = "^unsupported: .*headers",
      trace = "^unsupported: .*method", address = "^address: ", port = "^address: ",
    } do
      assert.matches(expected, seen.refusals[what])
      assert.is_nil(seen.refusals[what]:find("secret", 1, true))
    end
    assert.are.equal(0, seen.askedAnyway)
  end)

  it("says that nothing comes while Lua waits", function()
    for index = 1, 3 do assert.matches("^unsupported: .*nothing comes in while Lua waits", seen.blocking[index]) end
  end)
end)
