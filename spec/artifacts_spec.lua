-- Artifacts: the service on each store, what contexts do with it, and {artifact.name} in templates.
local core = require "moonpad.core"
local lock = require "spec.support.lock"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

local quote = support.quote

local failure = require("spec.support.checks").failure
local turns = require "spec.support.turns"

turns.quickRunsOneIn(3)

local function name(more)
  local options = { appName = "app", userId = "u", sessionId = "s", filename = "a.txt" }
  for key, value in pairs(more or {}) do options[key] = value end
  return options
end

local ALL_BYTES = {}
for byte = 0, 255 do ALL_BYTES[#ALL_BYTES + 1] = string.char(byte) end
ALL_BYTES = table.concat(ALL_BYTES)

local STORES = support.withServers {
  { name = "memory:", url = function() return "memory:" end },
  { name = "sqlite::memory:", url = function() return "sqlite::memory:" end },
  { name = "sqlite:PATH", url = function() return "sqlite:" .. support.tmpdir() .. "/test.db" end },
  { name = "sqlite:PATH of a session service", url = function()
    local url = "sqlite:" .. support.tmpdir() .. "/test.db"
    local service <close> = moonpad.open(url)
    service:createSession { appName = "app", userId = "u", sessionId = "s" }
    return url
  end },
}

for _, store in ipairs(STORES) do
  describe("an artifact service on " .. store.name, function()
    local artifacts
    before_each(function() artifacts = moonpad.artifactService(store.url()) end)
    after_each(function()
      artifacts:close()
      support.cleanup()
    end)

    it("counts versions from 0 and keeps all of them", function()
      assert.is_nil(artifacts:load(name()))
      assert.same({}, artifacts:versions(name()))
      for version, text in ipairs { "one", "two", "three" } do
        assert.equal(version - 1, artifacts:save(name { part = { text = text } }))
      end
      assert.same({ text = "three" }, artifacts:load(name()))
      assert.same({ text = "one" }, artifacts:load(name { version = 0 }))
      assert.same({ text = "two" }, artifacts:load(name { version = 1 }))
      assert.is_nil(artifacts:load(name { version = 3 }))
      assert.same({ 0, 1, 2 }, artifacts:versions(name()))
      assert.equal(0, artifacts:save(name { filename = "b.txt", part = "other" }))
    end)

    it("keeps text and bytes exactly", function()
      for _, text in ipairs { "", "\0", "a\0b", "é漢🌙", (" "):rep(1000), "x" .. ("é"):rep(100000) } do
        artifacts:save(name { part = { text = text } })
        local part = artifacts:load(name())
        assert.is_true(part.text == text and part.inlineData == nil)
      end
      for _, data in ipairs { "", "\0", ALL_BYTES, ("\255"):rep(1000000) } do
        artifacts:save(name { part = { inlineData = { mimeType = "image/png", data = data, displayName = "é" } } })
        local inline = artifacts:load(name()).inlineData
        assert.is_true(inline.data == data)
        assert.equal("image/png", inline.mimeType)
        assert.equal("é", inline.displayName)
      end
      artifacts:save(name { part = { inlineData = { mimeType = "text/plain", data = "x" } } })
      assert.same({ inlineData = { mimeType = "text/plain", data = "x" } }, artifacts:load(name()))
    end)

    it("takes a string for a text, and a state node for a part", function()
      artifacts:save(name { part = "plain" })
      assert.same({ text = "plain" }, artifacts:load(name()))
      artifacts:save(name { part = moonpad.state({ p = { text = "node" } }).p })
      assert.same({ text = "node" }, artifacts:load(name()))
    end)

    it("hands out copies", function()
      local part = { inlineData = { mimeType = "a/b", data = "x" } }
      artifacts:save(name { part = part })
      part.inlineData.data = "changed"
      local loaded = artifacts:load(name())
      loaded.inlineData.data = "changed too"
      assert.equal("x", artifacts:load(name()).inlineData.data)
    end)

    it("shares user: files among the sessions of a user, and no other", function()
      artifacts:save(name { filename = "user:cv", part = "mine" })
      artifacts:save(name { filename = "cv", part = "of the session" })
      assert.equal("mine", artifacts:load(name { sessionId = "other", filename = "user:cv" }).text)
      assert.equal("mine", artifacts:load { appName = "app", userId = "u", filename = "user:cv" }.text)
      assert.is_nil(artifacts:load(name { sessionId = "other", filename = "cv" }))
      assert.is_nil(artifacts:load(name { userId = "v", filename = "user:cv" }))
      assert.is_nil(artifacts:load(name { appName = "b", filename = "user:cv" }))
      assert.equal(1, artifacts:save(name { sessionId = "other", filename = "user:cv", part = "newer" }))
      assert.same({ 0, 1 }, artifacts:versions(name { filename = "user:cv" }))
    end)

    it("lists the files of a session and of its user, sorted", function()
      assert.same({}, artifacts:list { appName = "app", userId = "u", sessionId = "s" })
      for _, filename in ipairs { "b", "user:z", "a/b c.txt", "é", "a", "b", "user:a" } do
        artifacts:save(name { filename = filename, part = "x" })
      end
      artifacts:save(name { sessionId = "other", filename = "hidden", part = "x" })
      artifacts:save(name { userId = "v", filename = "user:hidden", part = "x" })
      assert.same({ "a", "a/b c.txt", "b", "user:a", "user:z", "é" },
        artifacts:list { appName = "app", userId = "u", sessionId = "s" })
      assert.same({ "hidden", "user:a", "user:z" },
        artifacts:list { appName = "app", userId = "u", sessionId = "other" })
      assert.same({ "user:a", "user:z" }, artifacts:list { appName = "app", userId = "u" })
    end)

    it("deletes a file with all its versions", function()
      artifacts:save(name { part = "1" })
      artifacts:save(name { part = "2" })
      artifacts:save(name { sessionId = "other", part = "kept" })
      assert.is_true(artifacts:delete(name()))
      assert.is_false(artifacts:delete(name()))
      assert.is_nil(artifacts:load(name()))
      assert.same({}, artifacts:versions(name()))
      assert.equal("kept", artifacts:load(name { sessionId = "other" }).text)
      assert.equal(0, artifacts:save(name { part = "anew" }))
    end)

    it("deletes all files of a user", function()
      for _, userId in ipairs { "u", "other" } do
        artifacts:save(name { userId = userId, part = "1" })
        artifacts:save(name { userId = userId, part = "2" })
        artifacts:save(name { userId = userId, sessionId = "another", part = "3" })
        artifacts:save(name { userId = userId, filename = "user:photo", part = "4" })
      end
      artifacts:save(name { appName = "elsewhere", part = "5" })
      assert.equal(3, artifacts:deleteUser { appName = "app", userId = "u" })
      assert.equal(0, artifacts:deleteUser { appName = "app", userId = "u" })
      assert.same({}, artifacts:list { appName = "app", userId = "u", sessionId = "s" })
      assert.is_nil(artifacts:load(name { sessionId = "another" }))
      assert.equal("5", artifacts:load(name { appName = "elsewhere" }).text)
      assert.same({ "a.txt", "user:photo" }, artifacts:list { appName = "app", userId = "other", sessionId = "s" })
      assert.equal(0, artifacts:save(name { part = "anew" }))
    end)

    it("lets no name reach what is another's", function()
      local NAMES = {
        "a", "A", "a/b", "a:b", "a|b", "%", "_", "*", "'", "''", "\"", "'; DROP TABLE artifacts; --", "..", "é",
        "e\u{301}", "a\nb", " a", "\u{1}", "user", "users:a", ("x"):rep(254),
      }
      for index, text in ipairs(NAMES) do
        artifacts:save { appName = text, userId = "u", sessionId = "s", filename = "f", part = "app " .. index }
        artifacts:save { appName = "app", userId = text, sessionId = "s", filename = "f", part = "user " .. index }
        artifacts:save { appName = "app", userId = text, filename = "user:f", part = "users " .. index }
        artifacts:save { appName = "app", userId = "-", sessionId = text .. "-", filename = "f",
          part = "session " .. index }
        artifacts:save { appName = "app", userId = "-", sessionId = "-", filename = text, part = "file " .. index }
        artifacts:save { appName = "app", userId = text .. "-", filename = "user:f", part = "x" }
      end
      for _, text in ipairs(NAMES) do
        assert.equal(1, artifacts:deleteUser { appName = "app", userId = text .. "-" })
      end
      for index, text in ipairs(NAMES) do
        local function expect(what, options)
          assert.equal(what .. " " .. index, artifacts:load(options).text)
          assert.same({ 0 }, artifacts:versions(options))
        end
        expect("app", { appName = text, userId = "u", sessionId = "s", filename = "f" })
        expect("user", { appName = "app", userId = text, sessionId = "s", filename = "f" })
        expect("users", { appName = "app", userId = text, filename = "user:f" })
        expect("file", { appName = "app", userId = "-", sessionId = "-", filename = text })
        assert.same({ "f", "user:f" }, artifacts:list { appName = "app", userId = text, sessionId = "s" })
      end
      assert.equal(#NAMES, #artifacts:list { appName = "app", userId = "-", sessionId = "-" })
    end)

    it("trims session ids as sessions do", function()
      artifacts:save(name { sessionId = " s\n", part = "x" })
      assert.equal("x", artifacts:load(name()).text)
    end)

    it("refuses what is wrong, and says what", function()
      local function refused(method, options, pattern)
        local err = failure(artifacts[method], artifacts, options)
        assert.equal("invalid_argument", err.code)
        assert.matches(pattern, err.message)
        assert.matches("artifacts:" .. method, err.message, 1, true)
      end
      refused("save", name { part = "x", fileName = "y" }, "did you mean filename")
      refused("save", name { filename = "", part = "x" }, "filename: must not be empty")
      refused("save", name { filename = "user:", part = "x" }, "a name must follow")
      refused("save", name { filename = "a\0b", part = "x" }, "NUL")
      refused("save", name { filename = "\255", part = "x" }, "not valid UTF%-8")
      refused("save", name { filename = ("x"):rep(1025), part = "x" }, "at most 1024")
      refused("save", name { userId = ("x"):rep(256), part = "x" }, "userId: has 256 bytes")
      refused("save", name { appName = 1, part = "x" }, "appName: expected a string, got number")
      refused("save", name { sessionId = " ", part = "x" }, "sessionId: must not be empty")
      refused("save", { appName = "app", userId = "u", filename = "f", part = "x" }, "sessionId is missing")
      refused("save", name(), "part: expected")
      refused("save", name { part = moonpad.null }, "part: expected")
      refused("save", name { part = {} }, "either text or inlineData")
      refused("save", name { part = { text = "x", inlineData = {} } }, "either text or inlineData")
      refused("save", name { part = { txt = "x" } }, "did you mean text")
      refused("save", name { part = { text = "\255" } }, "bytes go into inlineData")
      refused("save", name { part = { inlineData = { mimetype = "a/b", data = "x" } } }, "did you mean mimeType")
      refused("save", name { part = { inlineData = { data = "x" } } }, "mimeType: expected a string")
      refused("save", name { part = { inlineData = { mimeType = "a/b" } } }, "data: expected a string of bytes")
      refused("load", name { version = -1 }, "version: expected an integer from 0")
      refused("load", name { version = 1.5 }, "version: expected an integer from 0")
      refused("list", { appName = "app", userId = "u", filename = "x" }, "filename: unknown field")
      refused("delete", "x", "expected a table")
      refused("deleteUser", "x", "expected a table")
      refused("deleteUser", { appName = "app" }, "userId: expected a string, got nil")
      refused("deleteUser", { appName = "app", userId = "u", sessionId = "s" }, "sessionId: unknown field")
      assert.matches("colon", failure(artifacts.load, name()).message)
      assert.same({}, artifacts:list { appName = "app", userId = "u", sessionId = "s" })
    end)

    it("is closed once for all", function()
      artifacts:close()
      artifacts:close()
      local err = failure(artifacts.load, artifacts, name())
      assert.equal("closed", err.code)
    end)
  end)
end

describe("moonpad.artifactService", function()
  local folder, path, url
  before_each(function()
    folder = support.tmpdir()
    path = folder .. "/test.db"
    url = "sqlite:" .. path
  end)
  after_each(support.cleanup)

  it("takes the URLs of moonpad.open, and refuses others clearly", function()
    local one <close> = moonpad.artifactService("sqlite:///" .. path)
    one:save(name { part = "x" })
    local two <close> = moonpad.artifactService(url)
    assert.equal("x", two:load(name()).text)
    local err = failure(moonpad.artifactService, "mongodb://:secret@host")
    assert.equal("unsupported", err.code)
    assert.not_matches("secret", err.message)
    assert.equal("unsupported", failure(moonpad.artifactService, "nothing").code)
    assert.equal("invalid_argument", failure(moonpad.artifactService, "sqlite:").code)
    assert.equal("invalid_argument", failure(moonpad.artifactService, "memory:x").code)
    assert.equal("invalid_argument", failure(moonpad.artifactService, 1).code)
    assert.matches("did you mean durability", failure(moonpad.artifactService, url, { durabilty = "full" }).message)
    assert.equal("storage", failure(moonpad.artifactService, "sqlite:" .. folder .. "/no/such.db").code)
  end)

  -- In a process that has loaded nothing of moonpad yet.
  local function lua(code)
    local pipe <close> = assert(io.popen("lua5.4 -e " .. quote(("package.path, package.cpath = %q, %q; ")
      :format(package.path, package.cpath) .. code) .. " 2>&1"))
    return pipe:read "a"
  end

  it("loads its module when a service is first opened, which the rest does without", function()
    assert.equal("nil\tmoonpad.agent_stores_core\n", lua [[
      local moonpad = require "moonpad"
      local service = moonpad.open "sqlite::memory:"
      local runner = moonpad.runner { appName = "app", sessionService = service,
        agent = moonpad.agent { name = "A", model = moonpad.models.scripted { "hi" } } }
      for _ in runner:run { userId = "u", newMessage = "hello" } do end
      local before = package.loaded["moonpad.agent_stores_core"]
      moonpad.memoryService("memory:"):close()
      print(before, package.loaded["moonpad.agent_stores_core"] and "moonpad.agent_stores_core")]])
  end)

  it("says which module is missing", function()
    local text = lua [[
      package.preload["moonpad.agent_stores_core"] = function() error "not installed here" end
      local moonpad = require "moonpad"
      for _, open in ipairs { "artifactService", "memoryService" } do
        local _, err = pcall(moonpad[open], "memory:")
        print(err.code, err.message)
      end]]
    local expected = "unsupported\t%s needs moonpad's module moonpad.agent_stores_core: .*not installed here\n"
    assert.matches("^" .. expected:format "artifactService" .. expected:format "memoryService" .. "$", text)
  end)

  it("gives each service in memory files of its own", function()
    local one <close> = moonpad.artifactService "memory:"
    local two <close> = moonpad.artifactService "memory:"
    one:save(name { part = "x" })
    assert.is_nil(two:load(name()))
  end)

  it("keeps files beside sessions, which go on as before, and in their backup", function()
    local service <close> = moonpad.open(url)
    local session = service:createSession { appName = "app", userId = "u", sessionId = "s", state = { k = 1 } }
    local artifacts <close> = moonpad.artifactService(url)
    artifacts:save(name { part = "x" })
    service:appendEvent(session, { author = "a", actions = { stateDelta = { k = 2 } } })
    artifacts:save(name { part = "y" })
    local again <close> = moonpad.open(url)
    assert.equal(2, again:getSession { appName = "app", userId = "u", sessionId = "s" }.state.k)
    service:backup(folder .. "/copy.db")
    local copy <close> = moonpad.artifactService("sqlite:" .. folder .. "/copy.db")
    assert.same({ 0, 1 }, copy:versions(name()))
    service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
    assert.equal("y", artifacts:load(name()).text)
  end)

  it("makes a file that is a session store as well", function()
    do local artifacts <close> = moonpad.artifactService(url); artifacts:save(name { part = "x" }) end
    local service <close> = moonpad.open(url)
    service:createSession { appName = "app", userId = "u", sessionId = "s" }
    local artifacts <close> = moonpad.artifactService(url)
    assert.equal("x", artifacts:load(name()).text)
  end)

  it("refuses the file of another program, and leaves it alone", function()
    local function bytes()
      local file <close> = assert(io.open(path, "rb"))
      return file:read "a"
    end
    assert(os.execute("sqlite3 " .. quote(path) .. " 'CREATE TABLE artifacts(x)'"))
    local before = bytes()
    assert.equal("corrupt", failure(moonpad.artifactService, url).code)
    assert.equal("corrupt", failure(moonpad.memoryService, url).code)
    assert.is_true(before == bytes())
    do
      local file <close> = assert(io.open(path, "wb"))
      file:write(("not a database "):rep(100))
    end
    assert.equal("corrupt", failure(moonpad.artifactService, url).code)
  end)

  it("counts versions once each among processes #together", function()
    local WRITERS, COUNT = 3, 100
    local pipes, seen = {}, {}
    for writer = 1, WRITERS do
      local command = "LUA_PATH=%s LUA_CPATH=%s lua5.4 spec/helpers/save_artifacts.lua %s %d %d %s 2>&1"
      pipes[writer] = assert(io.popen(command:format(quote(package.path), quote(package.cpath), quote(url), writer,
        COUNT, writer % 2 == 1 and "stepped" or "")))
    end
    for _, pipe in ipairs(pipes) do
      local last = -1
      for line in pipe:lines() do
        local version = assert(math.tointeger(line), line)
        assert(version > last and not seen[version], "a version was given twice or out of order")
        last, seen[version] = version, true
      end
      assert.is_true(pipe:close())
    end
    local artifacts <close> = moonpad.artifactService(url)
    local shared = name { filename = "shared" }
    assert.equal(WRITERS * COUNT, #artifacts:versions(shared))
    local texts = {}
    for version = 0, WRITERS * COUNT - 1 do
      shared.version = version
      local text = artifacts:load(shared).text
      assert(not texts[text])
      texts[text] = true
    end
  end)

  it("waits for a lock as long as busyTimeoutMs says, then says busy #together", function()
    local artifacts <close> = moonpad.artifactService(url, { busyTimeoutMs = 80 })
    local release = lock(path, folder)
    local before = core.monotonic()
    local err = failure(artifacts.save, artifacts, name { part = "x" })
    assert.is_true(core.monotonic() - before >= 0.079)
    assert.equal("busy", err.code)
    assert.matches("80 ms", err.message)
    release()
    assert.equal(0, artifacts:save(name { part = "x" }))
  end)
end)

describe("a context", function()
  local service, artifacts
  before_each(function()
    service = moonpad.open "memory:"
    artifacts = moonpad.artifactService "memory:"
  end)
  after_each(support.cleanup)

  local function runnerOf(fields, more)
    local definition = { name = "A", model = function() return "done" end }
    for field, value in pairs(fields) do definition[field] = value end
    local options = {
      appName = "app", agent = moonpad.agent(definition), sessionService = service, artifactService = artifacts,
    }
    for field, value in pairs(more or {}) do options[field] = value end
    return moonpad.runner(options)
  end

  -- A model that calls the tools once, then is done.
  local function calling(...)
    local calls = support.calls(...)
    return function(request)
      return request.contents[#request.contents].parts[1].functionResponse and "done" or calls
    end
  end

  it("saves, loads and lists in a tool, and its event tells the versions", function()
    local seen = {}
    local runner = runnerOf {
      model = calling { "write" },
      tools = { { name = "write", run = function(_, context)
        seen.version = context:saveArtifact("report.txt", { text = "one" })
        seen.again = context:saveArtifact("report.txt", "two")
        context:saveArtifact("user:photo", { inlineData = { mimeType = "image/png", data = ALL_BYTES } })
        seen.latest = context:loadArtifact("report.txt").text
        seen.first = context:loadArtifact("report.txt", 0).text
        seen.none = context:loadArtifact("nothing")
        seen.list = context:listArtifacts()
        seen.photo = context:loadArtifact("user:photo").inlineData.data == ALL_BYTES
        return {}
      end } },
    }
    local events = support.run(runner, "Hi")
    assert.same({ version = 0, again = 1, latest = "two", first = "one", list = { "report.txt", "user:photo" },
      photo = true }, seen)
    assert.same({ ["report.txt"] = 1, ["user:photo"] = 0 }, events[2].actions.artifactDelta)
    assert.same({ ["report.txt"] = 1, ["user:photo"] = 0 }, support.stored(service).events[3].actions.artifactDelta)
    assert.is_nil(events[3].actions.artifactDelta)
    assert.equal("two", artifacts:load(name { filename = "report.txt" }).text)
  end)

  it("merges what several tools of one answer saved: the higher version is told", function()
    local function tool(toolName, ...)
      local files = { ... }
      return { name = toolName, run = function(_, context)
        for _, file in ipairs(files) do context:saveArtifact(file, toolName) end
        return {}
      end }
    end
    local events = support.run(runnerOf {
      model = calling({ "one" }, { "two" }), tools = { tool("one", "a", "both"), tool("two", "b", "both") },
    }, "Hi")
    assert.same({ a = 0, b = 0, both = 1 }, events[2].actions.artifactDelta)
  end)

  it("of a custom agent are told beside those that its event names itself: the higher version counts", function()
    local agent = moonpad.customAgent { name = "A", run = function(context)
      for _ = 1, 2 do context:saveArtifact("both", "x") end
      context:saveArtifact("saved", "x")
      context:emit { actions = { artifactDelta = { both = 0, named = 7 }, escalate = true } }
      context:saveArtifact("later", "x")
      context:emit "done"
    end }
    local events = support.run(moonpad.runner {
      appName = "app", agent = agent, sessionService = service, artifactService = artifacts,
    }, "Hi")
    assert.same({ both = 1, saved = 0, named = 7 }, events[1].actions.artifactDelta)
    assert.is_true(events[1].actions.escalate)
    assert.same({ later = 0 }, events[2].actions.artifactDelta)
  end)

  it("tells nothing of a tool that failed", function()
    local events = support.run(runnerOf {
      model = calling { "bad" },
      tools = { { name = "bad", run = function(_, context)
        context:saveArtifact("a", "x")
        error "no"
      end } },
    }, "Hi")
    assert.is_nil(events[2].actions.artifactDelta)
  end)

  it("gives an agent callback that saved a file an event of its own", function()
    local events = support.run(runnerOf {
      beforeAgentCallback = function(context) context:saveArtifact("a", "x") end,
    }, "Hi")
    assert.equal(2, #events)
    assert.same({ a = 0 }, events[1].actions.artifactDelta)
    assert.is_nil(events[1].content)
  end)

  it("says which field of the runner is missing", function()
    local errors = {}
    artifacts = nil
    support.run(runnerOf {
      beforeAgentCallback = function(context)
        errors.save = failure(context.saveArtifact, context, "a", "x")
        errors.load = failure(context.loadArtifact, context, "a")
        errors.list = failure(context.listArtifacts, context)
        errors.dot = failure(context.saveArtifact, "a", "x")
      end,
    }, "Hi")
    for method, err in pairs(errors) do
      assert.equal(method == "dot" and "invalid_argument" or "unsupported", err.code)
      assert.matches(method == "dot" and "colon" or "the runner has no artifactService", err.message)
    end
    assert.equal("unsupported", failure(function() testing.toolContext():saveArtifact("a", "x") end).code)
  end)

  it("refuses to save where nothing can be written any more", function()
    local kept, shown
    support.run(runnerOf {
      beforeAgentCallback = function(context) kept = context end,
      instruction = function(context)
        shown = failure(context.saveArtifact, context, "a", "x")
        return "I see " .. #context:listArtifacts()
      end,
    }, "Hi")
    assert.matches("read%-only", shown.message)
    assert.matches("has ended", failure(kept.saveArtifact, kept, "a", "x").message)
    assert.is_nil(artifacts:load(name { filename = "a" }))
  end)

  it("is given a service to test a tool without a runner", function()
    local context = testing.toolContext { userId = "u", sessionId = "s", artifactService = artifacts }
    assert.equal(0, context:saveArtifact("a", "x"))
    assert.same({ a = 0 }, context.actions.artifactDelta)
    assert.equal("x", context:loadArtifact("a").text)
    assert.equal("x!", moonpad.injectSessionState("{artifact.a}!", context))
    assert.matches("toolContext.artifactService", failure(testing.toolContext, { artifactService = {} }).message)
  end)

  it("is served by any object with the same methods", function()
    local asked = {}
    local own = {
      save = function(_, options)
        asked[#asked + 1] = options
        return 41
      end,
      load = function() return { text = "mine" } end,
      list = function() return { "x" } end,
    }
    local events = support.run(runnerOf({
      beforeAgentCallback = function(context) context:saveArtifact("a", { text = "t" }) end,
      instruction = "{artifact.a}",
      model = function(request) return request.systemInstruction end,
    }, { artifactService = own }), "Hi")
    assert.same({ { appName = "app", userId = "u", sessionId = "s", filename = "a", part = { text = "t" } } }, asked)
    assert.same({ a = 41 }, events[1].actions.artifactDelta)
    assert.equal("mine", events[2]:text())
    local err = failure(runnerOf, {}, { artifactService = { save = function() end } })
    assert.matches("runner.artifactService: .* a method l", err.message)
  end)

  it("lets the run wait, not the program, while the file is locked #threads", function()
    local folder = support.tmpdir()
    local path = folder .. "/test.db"
    artifacts = moonpad.artifactService("sqlite:" .. path)
    local runner = runnerOf { beforeAgentCallback = function(context) context:saveArtifact("a", "x") end }
    local release = lock(path, folder)
    local invocation <close> = runner:start { userId = "u", sessionId = "s", newMessage = "Hi" }
    for _ = 1, 3 do assert.equal("waiting", invocation:step()) end
    release()
    local event = invocation:wait(support.TIMEOUT_SECONDS)
    assert.same({ a = 0 }, event.actions.artifactDelta)
    artifacts:close()
  end)

  describe("in a template", function()
    local function instruct(instruction, more)
      local result
      support.run(runnerOf({
        instruction = instruction,
        model = function(request)
          result = request.systemInstruction or ""
          return "done"
        end,
      }, more), "Hi")
      return result
    end

    local function save(filename, part)
      artifacts:save(name { filename = filename, part = part })
    end

    it("is text by its name", function()
      save("notes.txt", "first")
      save("notes.txt", "latest {topic}")
      save("user:me.md", { inlineData = { mimeType = "text/markdown; charset=utf-8", data = "# é" } })
      save("data", { inlineData = { mimeType = "application/json", data = "[1]" } })
      save("a/b c.txt", "blank")
      assert.equal("latest {topic} # é [1] blank",
        instruct "{artifact.notes.txt} <artifact.user:me.md> {artifact.data?} {artifact.a/b c.txt}")
    end)

    it("sees what was saved just before it", function()
      local result
      support.run(runnerOf {
        beforeAgentCallback = function(context) context:saveArtifact("a", "fresh") end,
        instruction = "{artifact.a}",
        model = function(request)
          result = request.systemInstruction
          return "done"
        end,
      }, "Hi")
      assert.equal("fresh", result)
    end)

    it("is an error when it is missing, or empty when it is optional", function()
      assert.equal("[]", instruct "[{artifact.a?}]")
      assert.equal("[]", instruct "[{artifact.user:?}]")
      local err = failure(instruct, "{artifact.a}")
      assert.equal("template", err.code)
      assert.matches('there is no artifact "a"', err.message, 1, true)
      assert.equal("template", failure(instruct, "{artifact.}").code)
      assert.equal("template", failure(instruct, "{missing} {artifact.a}").code)
    end)

    it("says when it has no text", function()
      save("photo", { inlineData = { mimeType = "image/png", data = "\255" } })
      save("broken", { inlineData = { mimeType = "text/plain", data = "\255" } })
      local err = failure(instruct, "{artifact.photo}")
      assert.equal("template", err.code)
      assert.matches('{artifact.photo} at line 1, column 1 of the instruction of agent "A": it cannot be put into the '
        .. "text: it is image/png", err.message, 1, true)
      assert.matches("but not valid UTF%-8", failure(instruct, "{artifact.broken}").message)
      assert.equal("", instruct "{artifact.photo?}{artifact.broken?}")
      assert.matches("missing", failure(instruct, "{missing} {artifact.photo}").message)
    end)

    it("needs the service, unless it is optional", function()
      local err
      artifacts = nil
      err = failure(instruct, "{artifact.a}")
      assert.equal("template", err.code)
      assert.matches("^{artifact%.a} at line 1, column 1 of .*: the runner has no artifactService", err.message)
      assert.equal("x", instruct "x{artifact.a?}")
      assert.matches("missing", failure(instruct, "{missing} {artifact.a}").message)
    end)

    it("is there for injectSessionState with a context", function()
      save("a", "text")
      assert.equal("-text-", instruct(function(context)
        return moonpad.injectSessionState("-{artifact.a}-", context)
      end))
      assert.equal("template", failure(moonpad.injectSessionState, "{artifact.a}", moonpad.state {}).code)
      assert.equal("template", failure(moonpad.injectSessionState, "{artifact.a}", testing.toolContext()).code)
    end)
  end)
end)
