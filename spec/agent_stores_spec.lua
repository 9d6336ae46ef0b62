-- Artifacts and memories asked from a run that is stepped: whoever steps it does not wait for
-- their store.
local core = require "moonpad.core"
local drive = require "spec.support.by_hand"
local lock = require "spec.support.lock"
local moonpad = require "moonpad"
local support = require "spec.support"

local failure = require("spec.support.checks").failure

-- What is to be waited for in full.
local SHORT_TIMEOUT_MS = 60
local TIMEOUT_MS = 120000

local function name(more)
  local options = { appName = "app", userId = "u", sessionId = "s", filename = "a.txt" }
  for key, value in pairs(more or {}) do options[key] = value end
  return options
end

-- Every call on artifacts, and what they answer.
local function useArtifacts(artifacts)
  local answers = {}
  local function note(answer) answers[#answers + 1] = answer == nil and "nil" or answer end
  local bytes = { mimeType = "image/png", data = "\0\255", displayName = "é" }
  note(artifacts:save(name { part = "one" }))
  note(artifacts:save(name { part = { inlineData = bytes } }))
  note(artifacts:save(name { filename = "user:b", part = "" }))
  note(artifacts:load(name()))
  note(artifacts:load(name { version = 0 }))
  note(artifacts:load(name { version = 7 }))
  note(artifacts:load(name { filename = "user:b" }))
  note(artifacts:list { appName = "app", userId = "u", sessionId = "s" })
  note(artifacts:list { appName = "app", userId = "u" })
  note(artifacts:versions(name()))
  note(artifacts:delete(name()))
  note(artifacts:delete(name()))
  note(artifacts:sweep())
  note(artifacts:deleteUser { appName = "app", userId = "u" })
  note(failure(artifacts.load, artifacts, name { version = -1 }).code)
  return answers
end

local function sessionOf(texts)
  local session = { appName = "app", userId = "u", id = "s", createTime = 1.5, events = {} }
  for index, text in ipairs(texts) do
    session.events[index] = {
      id = "e" .. index, revision = index, timestamp = index, author = "user", invocationId = "i" .. index,
      content = { role = "user", parts = { { text = text } } },
    }
  end
  return session
end

local function useMemory(memory)
  local answers = {}
  local session = sessionOf { "green tea", "", "black coffee", "more tea" }
  memory:addSession(session)
  memory:addSession(session)
  local lastId
  for _, query in ipairs { "tea", "coffee green", "nothing", "" } do
    local found = memory:searchMemory { appName = "app", userId = "u", query = query }.memories
    -- Ids are never used again.
    for _, entry in ipairs(found) do lastId, entry.id = entry.id, nil end
    answers[#answers + 1] = found
  end
  answers[#answers + 1] = memory:sweep()
  answers[#answers + 1] = memory:deleteMemory { appName = "app", userId = "u", memoryId = lastId }
  answers[#answers + 1] = memory:deleteSession { appName = "app", userId = "u", sessionId = "nowhere" }
  answers[#answers + 1] = memory:deleteUser { appName = "app", userId = "u" }
  answers[#answers + 1] = memory:deleteUser { appName = "app", userId = "u" }
  return answers
end

local SERVICES = {
  { name = "artifacts", open = moonpad.artifactService, use = useArtifacts, calls = 15 - 1 },
  { name = "memory", open = moonpad.memoryService, use = useMemory, calls = 3 + 3 + 5 },
}

describe("in a run that is stepped,", function()
  local folder, path, url, driver
  before_each(function()
    folder = support.tmpdir()
    path = folder .. "/test.db"
    url = "sqlite:" .. path
    driver = moonpad.open "memory:"
  end)
  after_each(function()
    driver:close()
    support.cleanup()
  end)

  for _, service in ipairs(SERVICES) do
    it("calls of " .. service.name .. " wait for a file, and answer what they answer elsewhere", function()
      local other <close> = service.open("sqlite:" .. folder .. "/other.db")
      local opened <close> = service.open(url)
      local expected = service.use(other)
      local driven = drive(driver, function() return service.use(opened) end)
      assert.same(expected, driven:finish())
      -- A search without words asks nothing of the store, but it is the store that says so.
      assert.is_true(driven.waits >= service.calls, driven.waits .. " waits")
      local again = drive(driver, function() return service.use(opened) end)
      assert.same(expected, again:finish())
    end)

    it("calls of " .. service.name .. " never wait for memory", function()
      local expected
      for _, inMemory in ipairs { "memory:", "sqlite::memory:" } do
        local opened <close> = service.open(inMemory)
        local driven = drive(driver, function() return service.use(opened) end)
        assert.equal("done", driven:step())
        assert.is_nil(driven.err)
        expected = expected or driven.result
        assert.same(expected, driven.result)
      end
    end)

    it("calls of " .. service.name .. " are made at once where Lua cannot yield, and where nobody steps", function()
      local opened <close> = service.open(url)
      local answers
      local function compare()
        answers = answers or service.use(opened)
        return false
      end
      local driven = drive(driver, function() table.sort({ 2, 1 }, compare) end)
      assert.equal("done", driven:step())
      assert.is_nil(driven.err)
      local own = coroutine.wrap(function() return service.use(opened) end)
      assert.same(answers, own())
      core.stepWith(driver)
      local inside = coroutine.wrap(function() return service.use(opened) end)()
      core.stepWith(nil)
      assert.same(answers, inside)
    end)
  end

  it("a file that another process has locked holds up nobody but the call #threads", function()
    local artifacts <close> = moonpad.artifactService(url, { busyTimeoutMs = TIMEOUT_MS })
    local memory <close> = moonpad.memoryService(url, { busyTimeoutMs = TIMEOUT_MS })
    local release = lock(path, folder)
    local saving = drive(driver, function() return artifacts:save(name { part = "x" }) end)
    local adding = drive(driver, function() memory:addSession(sessionOf { "tea" }) end)
    for _ = 1, 20 do
      assert.equal("waiting", saving:step())
      assert.equal("waiting", adding:step())
    end
    -- Reads do not wait for who writes.
    local reading = drive(driver, function() return artifacts:versions(name()) end)
    assert.same({}, reading:finish())
    release()
    assert.equal(0, saving:finish())
    adding:finish()
    assert.equal(1, #memory:searchMemory({ appName = "app", userId = "u", query = "tea" }).memories)
  end)

  it("a lock that is not had in time is busy, and nothing has changed #together", function()
    local artifacts <close> = moonpad.artifactService(url, { busyTimeoutMs = SHORT_TIMEOUT_MS })
    local memory <close> = moonpad.memoryService(url, { busyTimeoutMs = SHORT_TIMEOUT_MS })
    local session = sessionOf { "tea" }
    local release = lock(path, folder)
    local before = core.monotonic()
    local err = failure(function()
      drive(driver, function() return artifacts:save(name { part = "x" }) end):finish()
    end)
    assert.is_true(core.monotonic() - before >= SHORT_TIMEOUT_MS / 1000 - 0.001)
    assert.equal("busy", err.code)
    assert.equal(("artifacts:save: %s: another writer kept it locked for longer than busyTimeoutMs (60 ms)"):format(
      support.toldPath(path)), err.message)
    err = failure(function() drive(driver, function() memory:addSession(session) end):finish() end)
    assert.equal("busy", err.code)
    assert.matches("^memory:addSession: .*60 ms", err.message)
    release()
    assert.same({}, artifacts:versions(name()))
    drive(driver, function() memory:addSession(session) end):finish()
    assert.equal(1, #memory:searchMemory({ appName = "app", userId = "u", query = "tea" }).memories)
  end)

  it("a call under way is finished when its coroutine is closed, with all that it was given #threads", function()
    local release
    do
      local artifacts = moonpad.artifactService(url, { busyTimeoutMs = TIMEOUT_MS })
      local memory = moonpad.memoryService(url, { busyTimeoutMs = TIMEOUT_MS })
      release = lock(path, folder)
      local saving = drive(driver, function()
        artifacts:save(name { filename = ("f"):rep(3) .. 1, part = ("part "):rep(20000) .. 1 })
      end)
      local adding = drive(driver, function()
        local texts = {}
        for index = 1, 50 do texts[index] = ("tea"):rep(index, " ") end
        memory:addSession(sessionOf(texts))
      end)
      assert.equal("waiting", saving:step())
      assert.equal("waiting", adding:step())
      driver:poll(support.TIMEOUT_SECONDS) -- it has asked what is there,
      assert.equal("waiting", adding:step()) -- and writes
      assert.is_true(coroutine.close(saving.thread))
      assert.is_true(coroutine.close(adding.thread))
    end
    for _ = 1, 3 do collectgarbage() end
    release()
    local files <close> = moonpad.artifactService(url)
    local said <close> = moonpad.memoryService(url)
    support.waitUntil("what was saved", function() return #files:versions(name { filename = "fff1" }) == 1 end)
    assert.is_true(files:load(name { filename = "fff1" }).text == ("part "):rep(20000) .. 1)
    local function found()
      return said:searchMemory({ appName = "app", userId = "u", query = "tea", limit = 100 }).memories
    end
    support.waitUntil("what was said", function() return #found() > 0 end)
    assert.equal(50, #found())
    for _, entry in ipairs(found()) do
      assert.equal(("tea"):rep(math.tointeger(entry.timestamp), " "), entry.content.parts[1].text)
      assert.equal("user", entry.author)
    end
  end)

  it("a call under way is finished when its run is cancelled, which its code is told at once #threads", function()
    local artifacts <close> = moonpad.artifactService(url, { busyTimeoutMs = TIMEOUT_MS })
    local release = lock(path, folder)
    local seen
    local driven = drive(driver, function()
      seen = failure(artifacts.save, artifacts, name { part = "x" })
      error(seen, 0)
    end)
    assert.equal("waiting", driven:step())
    assert.equal("done", driven:step(core.CANCEL))
    assert.is_true(core.isError(seen))
    assert.equal("cancelled", seen.code)
    assert.equal(seen, driven.err)
    release()
    support.waitUntil("what was saved", function() return #artifacts:versions(name()) == 1 end)
  end)

  it("to close a service waits for a call under way, and every later one is closed", function()
    for _, service in ipairs(SERVICES) do
      local opened = service.open(url, { busyTimeoutMs = SHORT_TIMEOUT_MS })
      local release = lock(path, folder)
      local driven = drive(driver, function() return service.use(opened) end)
      assert.equal("waiting", driven:step())
      opened:close()
      local err = failure(driven.finish, driven)
      assert.is_true(err.code == "busy" or err.code == "closed", err.code)
      err = failure(function() drive(driver, function() return service.use(opened) end):finish() end)
      assert.equal("closed", err.code)
      release()
    end
  end)

  it("a call under way outlives the service that steps it", function()
    local artifacts <close> = moonpad.artifactService(url)
    local own = moonpad.open "memory:"
    local driven = drive(own, function() return artifacts:save(name { part = "x" }) end)
    assert.equal("waiting", driven:step())
    own:close()
    support.waitUntil("what was saved", function() return driven:step() == "done" end)
    assert.equal(0, driven.result)
  end)

  it("several calls of one Lua state take turns, and none is lost", function()
    local artifacts <close> = moonpad.artifactService(url, { busyTimeoutMs = TIMEOUT_MS, durability = "normal" })
    local COUNT = 12
    local seen, left = {}, {}
    for index = 1, COUNT do
      left[index] = drive(driver, function()
        for _ = 1, 5 do seen[artifacts:save(name { part = "of " .. index })] = index end
      end)
    end
    while #left > 0 do
      for index = #left, 1, -1 do
        if left[index]:step() == "done" then
          assert.is_nil(left[index].err)
          table.remove(left, index)
        end
      end
      driver:poll(0.01)
    end
    assert.equal(COUNT * 5, #artifacts:versions(name()))
    for version = 0, COUNT * 5 - 1 do
      assert.equal("of " .. seen[version], artifacts:load(name { version = version }).text)
    end
  end)

  describe("by its runner,", function()
    local function runnerOf(fields, services)
      local definition = { name = "A", model = function() return "done" end }
      for field, value in pairs(fields) do definition[field] = value end
      local options = { appName = "app", sessionService = driver, agent = moonpad.agent(definition) }
      for field, value in pairs(services) do options[field] = value end
      return moonpad.runner(options)
    end

    it("what its callbacks and tools ask makes the steps wait, and ends them with its answer #threads", function()
      local artifacts <close> = moonpad.artifactService(url, { busyTimeoutMs = TIMEOUT_MS })
      local memory <close> = moonpad.memoryService(url, { busyTimeoutMs = TIMEOUT_MS })
      local runner = runnerOf({
        beforeAgentCallback = function(context) context:saveArtifact("a", "x") end,
        afterAgentCallback = function(context) memory:addSession(context.session) end,
        tools = { moonpad.loadMemory },
        model = function(request)
          local response = request.contents[#request.contents].parts[1].functionResponse
          if response then return "found " .. #response.response.memories end
          return support.calls { "load_memory", { query = "hello" } }
        end,
      }, { artifactService = artifacts, memoryService = memory })
      for round = 1, 2 do
        local release = lock(path, folder)
        local invocation <close> = runner:start { userId = "u", sessionId = "s", newMessage = "Hello" }
        for _ = 1, 10 do assert.equal("waiting", invocation:step()) end
        release()
        local last
        repeat
          local event = invocation:wait(support.TIMEOUT_SECONDS)
          last = event or last
        until event == nil
        assert.equal("found " .. round - 1, last:text())
      end
      assert.same({ 0, 1 }, artifacts:versions { appName = "app", userId = "u", sessionId = "s", filename = "a" })
    end)

    it("a run that is cancelled does not wait for its call, which is finished all the same #threads", function()
      local artifacts <close> = moonpad.artifactService(url, { busyTimeoutMs = TIMEOUT_MS })
      local release = lock(path, folder)
      local seen
      local runner = runnerOf({
        model = function() return support.calls { "save" } end,
        tools = { { name = "save", run = function(_, context)
          seen = failure(context.saveArtifact, context, "a", "x")
          error(seen, 0)
        end } },
      }, { artifactService = artifacts })
      local invocation <close> = runner:start { userId = "u", sessionId = "s", newMessage = "Hello" }
      local events = 0
      while events == 0 do
        local event = invocation:step()
        if event ~= "waiting" then events = events + 1 end
      end
      for _ = 1, 3 do assert.equal("waiting", invocation:step()) end
      invocation:cancel()
      assert.equal("cancelled", seen.code)
      release()
      local file = { appName = "app", userId = "u", sessionId = "s", filename = "a" }
      support.waitUntil("what was saved", function() return #artifacts:versions(file) == 1 end)
    end)
  end)
end)
