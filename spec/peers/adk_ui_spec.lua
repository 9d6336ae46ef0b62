-- ADK's own web UI in a real Chromium, before `moonpad serve`; and its client. Both as they come
-- from npm (scripts/deps.sh checks). MOONPAD_SCREENSHOTS=$PWD/docs takes the pictures of docs/.
local moonpad = require "moonpad"
local serveCommand = require "spec.support.serve_command"
local support = require "spec.support"

local UI = "spec/peers/node_modules/@google/adk-devtools/dist/browser"

assert(io.open(UI .. "/index.html"), "the peers are not installed: run scripts/deps.sh checks"):close()

local function run(script, ...)
  local pipe <close> = assert(io.popen(("cd spec/peers && node %s %s"):format(script, table.concat({ ... }, " "))))
  return moonpad.json.decode(assert(pipe:read "a":match "([^\n]+)\n*$", script .. " has printed nothing"))
end

describe("ADK's web UI", function()
  local seen, folder, database

  -- All of it in one browser: what it shows depends on what was said before.
  setup(function()
    folder = support.tmpdir()
    database = folder .. "/ui.db"
    local server = serveCommand.start { "spec/peers/ui_agent.lua", "--db", database, "--ui", UI }
    seen = run("adk_ui.mjs", server.url, os.getenv "MOONPAD_SCREENSHOTS" or "")
    server.process:close()
  end)

  teardown(function() support.cleanup() end)

  it("goes through every step", function()
    assert.is_nil(seen.broken)
  end)

  it("asks no other host for anything", function()
    assert.are.same({}, seen.foreign)
  end)

  it("is given all that it asks for, but the builder of agents, which there is not", function()
    for _, failed in ipairs(seen.failedBeforeImport) do assert.are.equal("404 /dev/apps/counter/builder", failed) end
    -- What it says itself of a fetch that it has aborted.
    local aborted = "AbortError: signal is aborted without reason"
    for _, problem in ipairs(seen.errors) do assert.are.equal(aborted, problem) end
  end)

  it("shows the state, and nothing of temp:", function()
    assert.are.same({
      ["__session_metadata__"] = { displayName = "hello" }, ["app:visits"] = 1, count = 1, ["user:total"] = 1,
    }, seen.state)
    assert.is_false(seen.temporaryIsShown)
  end)

  it("shows a streamed answer once, while it comes and at its end", function()
    assert.is_false(seen.streamedTwice)
  end)

  it("cancels the run whose stop button is pressed", function()
    local service <close> = moonpad.open("sqlite:" .. database)
    local found = false
    for _, listed in ipairs(service:listSessions { appName = "counter", userId = "user" }) do
      local session = service:getSession { appName = "counter", userId = "user", sessionId = listed.id }
      for _, event in ipairs(session.events) do
        assert.is_nil(event:text():find("so on", 1, true))
        found = found or event:text() == "slow"
      end
    end
    assert.is_true(found)
  end)

  it("shows artifacts, failures and traces, and uploads files", function()
    assert.are.same({ "note.txt" }, seen.artifacts)
    assert.are.same({ "uploaded" }, seen.uploaded)
    assert.is_truthy(seen.snackBar:find "the model has failed")
    assert.are.same({
      "call_llm", "execute_tool count", "execute_tool order", "execute_tool pay", "execute_tool write_note",
      "invocation", "invoke_agent counter",
    }, seen.spans)
    assert.is_true(seen.traceHasRequest)
  end)

  it("exports a session, imports it as it was, and deletes it", function()
    assert.is_true(seen.importedIsSame)
  end)

  it("lists sessions by their names, and loads them", function()
    local names = table.concat(seen.sessionNames, "|")
    assert.is_truthy(names:find("hello", 1, true) and names:find("second session", 1, true))
    assert.is_true(seen.loaded)
  end)
end)

describe("the page of moonpad's own", function()
  local seen

  setup(function()
    local server = serveCommand.start { "spec/peers/ui_agent.lua", "--db", "memory:" }
    local guarded = serveCommand.run({ "lua5.4", "examples/serve.lua", "0" }, { "SERVE_TOKENS=aa=ann" })
    seen = run("page.mjs", server.url, guarded.url, os.getenv "MOONPAD_SCREENSHOTS" or "")
    server.process:close()
    guarded.process:close()
  end)

  it("goes through every step under its own policy, and asks no other host", function()
    assert.is_nil(seen.broken)
    assert.are.same({}, seen.foreign)
    assert.are.same({}, seen.errors)
  end)

  it("shows what is streamed as it comes, and once", function()
    assert.is_true(seen.streamedBeforeTheEnd)
    assert.is_true(seen.streamedOnce)
  end)

  it("saves artifacts", function()
    assert.are.equal("what was noted", seen.artifact)
  end)

  it("keeps to a session what was begun there", function()
    assert.are.equal(0, seen.formsInTheOther)
    assert.are.equal(0, seen.eventsOfTheOther)
    assert.are.same({ "left", "right" }, seen.stateOfBoth)
  end)

  it("disturbs nobody who reads, types or goes through it by keyboard", function()
    assert.are.same({ '"being typed"', 1 }, { seen.typed, seen.unfolded })
    assert.are.equal("send", seen.focusAfterMessage)
    assert.are.equal("Message", seen.focusAfterStop)
    assert.are.equal("Edit where", seen.focusAfterEscape)
    assert.are.equal("left", seen.focusAfterMove)
  end)

  it("shows the last events of a long session, and asks only for what is new", function()
    assert.are.same({ 200, 400 }, seen.longShown)
    assert.is_true(seen.bytesOfOneEvent < 50000, seen.bytesOfOneEvent)
  end)

  it("asks little when nothing happens, and nothing when nobody looks", function()
    assert.is_true(seen.bytesWhenQuiet < 200000, seen.bytesWhenQuiet)
    assert.are.equal(0, seen.requestsWhenHidden)
  end)

  it("asks for a token once", function()
    assert.are.equal(0, seen.dialogsAfterCancel)
  end)

  it("takes no text for HTML", function()
    assert.are.equal(0, seen.hacked)
  end)

  it("has nothing that axe objects to, light and dark, and fits a narrow screen", function()
    assert.are.same({}, seen.violations)
    assert.are.equal(0, seen.overflow)
  end)
end)

describe("AdkApiClient", function()
  it("works as it is", function()
    local server = serveCommand.start { "spec/peers/ui_agent.lua", "--db", "memory:" }
    local seen = run("adk_client.mjs", server.url)
    server.process:close()
    assert.are.same({ "counter" }, seen.apps)
    assert.are.equal(1, seen.state.start)
    assert.are.same({ "s1" }, seen.sessions)
    assert.are.same({ "You said: hello" }, seen.texts)
    assert.are.equal(2, seen.events)
    assert.are.same({ "note.txt" }, seen.artifacts)
    assert.are.equal("what was noted", seen.artifact)
    assert.are.same({}, seen.sessionsAfterwards)
  end)
end)
