-- Files and memories that nobody has used for longer than their time to live (contract 5:
-- artifactTtlSeconds, memoryTtlSeconds): absent in every call, renewed by use, freed by a sweep.
local checks = require "spec.support.checks"
local lock = require "spec.support.lock"
local moonpad = require "moonpad"
local random = require "spec.support.random_values"
local support = require "spec.support"
local testing = require "moonpad.testing"
local rarely = require("spec.support.turns").rarely

local STORES = support.withServers {
  { name = "memory:", url = function() return "memory:" end },
  { name = "a file", isFile = true, url = function() return "sqlite:" .. support.tmpdir() .. "/test.db" end },
}

local function file(filename, more)
  local options = { appName = "app", userId = "u", sessionId = "s", filename = filename }
  for key, value in pairs(more or {}) do options[key] = value end
  return options
end

local SCOPE <const> = { appName = "app", userId = "u", sessionId = "s" }
local USER <const> = { appName = "app", userId = "u" }

local function pathOf(url) return url:sub(#"sqlite:" + 1) end

-- The rows of a table, as another program sees them.
local function count(url, name)
  local pipe <close> = assert(io.popen(("sqlite3 %s 'SELECT count(*) FROM %s'")
    :format(support.quote(pathOf(url)), name)))
  return pipe:read "l"
end

local function holdLock(url) return lock(pathOf(url), support.tmpdir()) end

for _, store in ipairs(STORES) do
  describe("artifactTtlSeconds on " .. store.name, function()
    local url, clock, artifacts, open

    before_each(function()
      url, clock, open = store.url(), testing.clock(1000), {}
      artifacts = moonpad.artifactService(url, { clock = clock, artifactTtlSeconds = 100 })
      open[1] = artifacts
    end)
    after_each(function()
      for _, service in ipairs(open) do service:close() end
      support.cleanup()
    end)

    local function another(config)
      local service = moonpad.artifactService(url, config)
      open[#open + 1] = service
      return service
    end

    it("lets a file live for that time, and no longer", function()
      artifacts:save(file("a", { part = "text" }))
      clock:advance(100)
      assert.same({ "a" }, artifacts:list(SCOPE))
      assert.same({ 0 }, artifacts:versions(file "a"))
      clock:advance(0.001)
      assert.same({}, artifacts:list(SCOPE))
      assert.same({}, artifacts:versions(file "a"))
      assert.is_nil(artifacts:load(file "a"))
      assert.is_nil(artifacts:load(file("a", { version = 0 })))
      assert.is_false(artifacts:delete(file "a"))
      assert.equal(0, artifacts:deleteUser(USER))
    end)

    it("begins with version 0 again where a file has expired", function()
      assert.equal(0, artifacts:save(file("a", { part = "one" })))
      assert.equal(1, artifacts:save(file("a", { part = "two" })))
      clock:advance(101)
      assert.equal(0, artifacts:save(file("a", { part = "three" })))
      assert.same({ 0 }, artifacts:versions(file "a"))
      assert.same({ text = "three" }, artifacts:load(file "a"))
      clock:advance(100)
      assert.same({ text = "three" }, artifacts:load(file "a"))
    end)

    it("keeps all versions of a file that is used, however old they are", function()
      artifacts:save(file("a", { part = "one" }))
      clock:advance(90)
      artifacts:save(file("a", { part = "two" }))
      clock:advance(90)
      assert.same({ 0, 1 }, artifacts:versions(file "a"))
      assert.same({ text = "one" }, artifacts:load(file("a", { version = 0 })))
      clock:advance(90)
      assert.same({ text = "two" }, artifacts:load(file "a"))
      clock:advance(101)
      assert.same({}, artifacts:versions(file "a"))
    end)

    it("is renewed by loading, and not by lists", function()
      artifacts:save(file("loaded", { part = "x" }))
      artifacts:save(file("listed", { part = "x" }))
      artifacts:save(file("user:shared", { part = "x" }))
      for _ = 1, 3 do
        clock:advance(60)
        artifacts:load(file "loaded")
        artifacts:load(file "user:shared")
        artifacts:load(file("listed", { version = 7 }))
        artifacts:versions(file "listed")
        artifacts:list(SCOPE)
      end
      assert.same({ "loaded", "user:shared" }, artifacts:list(SCOPE))
    end)

    it("is each file's own: of a session, of its user, of another user", function()
      local of = { file "a", file("a", { sessionId = "s2" }), file "user:a", file("a", { userId = "u2" }),
        file("a", { appName = "app2" }) }
      for _, name in ipairs(of) do
        name.part = "x"
        artifacts:save(name)
        name.part = nil
      end
      clock:advance(60)
      assert.is_table(artifacts:load(of[2]))
      clock:advance(60)
      for index, name in ipairs(of) do assert.equal(index == 2, #artifacts:versions(name) == 1) end
      assert.equal(4, artifacts:sweep())
      assert.equal(0, artifacts:sweep())
    end)

    rarely("sweeps whole files, many of them, and tells how many", function()
      for index = 1, 300 do artifacts:save(file("old" .. index, { part = "x" })) end
      for version = 1, 300 do artifacts:save(file("versions", { part = tostring(version) })) end
      clock:advance(50)
      artifacts:save(file("old7", { part = "again" }))
      assert.equal(0, artifacts:sweep())
      clock:advance(51)
      assert.equal(300, artifacts:sweep())
      assert.same({ "old7" }, artifacts:list(SCOPE))
      assert.same({ 0, 1 }, artifacts:versions(file "old7"))
      assert.equal(0, artifacts:sweep())
      assert.equal(1, artifacts:deleteUser(USER))
    end)

    it("counts what is alive when a user is deleted", function()
      artifacts:save(file("old", { part = "x" }))
      clock:advance(60)
      artifacts:save(file("new", { part = "x" }))
      clock:advance(60)
      assert.equal(1, artifacts:deleteUser(USER))
      assert.equal(0, artifacts:save(file("old", { part = "x" })))
    end)

    it("does not make a file older when the clock is set back", function()
      artifacts:save(file("a", { part = "x" }))
      clock:advance(50)
      artifacts:load(file "a")
      clock:set(900)
      artifacts:load(file "a")
      artifacts:save(file("a", { part = "y" }))
      clock:set(1150)
      assert.same({ 0, 1 }, artifacts:versions(file "a"))
      clock:set(1150.5)
      assert.same({}, artifacts:versions(file "a"))
    end)

    it("takes fractions and 0, which is for ever", function()
      local short = another { clock = clock, artifactTtlSeconds = 0.5 }
      short:save(file("a", { part = "x" }))
      clock:advance(0.5)
      assert.is_table(short:load(file "a"))
      clock:advance(0.75)
      assert.is_nil(short:load(file "a"))
      assert.equal(1, short:sweep())
      local never = another { clock = clock, artifactTtlSeconds = 0 }
      never:save(file("a", { part = "x" }))
      clock:advance(1e9)
      assert.is_table(never:load(file "a"))
      assert.equal(0, never:sweep())
    end)

    if store.isFile then
      it("survives closing, and each service decides by its own setting", function()
        artifacts:save(file("a", { part = "x" }))
        clock:advance(60)
        artifacts:load(file "a")
        artifacts:close()
        local short, long = another { clock = clock, artifactTtlSeconds = 30 },
          another { clock = clock, artifactTtlSeconds = 100 }
        clock:advance(60)
        assert.is_nil(short:load(file "a"))
        assert.same({ "a" }, long:list(SCOPE))
        assert.same({ "a" }, another():list(SCOPE))
        clock:advance(41)
        assert.is_nil(long:load(file "a"))
        assert.same({ text = "x" }, another():load(file "a"))
        assert.equal(1, long:sweep())
        assert.is_nil(another():load(file "a"))
      end)

      it("leaves no row of what is deleted or swept #together", function()
        for _, way in ipairs { "delete", "sweep", "save" } do
          artifacts:save(file(way, { part = "x" }))
          clock:advance(60)
          artifacts:load(file(way))
          assert.equal("1", count(url, "artifact_uses"))
          if way == "delete" then
            artifacts:delete(file(way))
          else
            clock:advance(101)
            if way == "sweep" then artifacts:sweep() else artifacts:save(file(way, { part = "y" })) end
          end
          assert.equal("0", count(url, "artifact_uses"), way)
        end
        assert.equal("1", count(url, "artifacts"))
      end)

      it("loads a file while somebody else writes: that it is used is not stored then #together", function()
        artifacts:close()
        artifacts = another { clock = clock, artifactTtlSeconds = 100, busyTimeoutMs = 600000 }
        artifacts:save(file("a", { part = "x" }))
        clock:advance(60)
        local release = holdLock(url)
        -- Its next transaction that writes would wait for ten minutes.
        assert.same({ text = "x" }, artifacts:load(file "a"))
        release()
        clock:advance(60)
        assert.is_nil(artifacts:load(file "a"))
      end)

      it("stores with the next load what could not be stored #together", function()
        artifacts:save(file("a", { part = "x" }))
        clock:advance(60)
        local release = holdLock(url)
        artifacts:load(file "a")
        release()
        clock:advance(30)
        artifacts:load(file "a")
        clock:advance(90)
        assert.same({ text = "x" }, artifacts:load(file "a"))
      end)
    end
  end)

  describe("memoryTtlSeconds on " .. store.name, function()
    local url, clock, service, memory, open

    before_each(function()
      url, clock, open = store.url(), testing.clock(1000), {}
      service = moonpad.open(url, { clock = clock })
      memory = moonpad.memoryService(url, { clock = clock, memoryTtlSeconds = 100 })
      open = { memory, service }
    end)
    after_each(function()
      for _, each in ipairs(open) do each:close() end
      support.cleanup()
    end)

    local function another(config)
      local other = moonpad.memoryService(url, config)
      table.insert(open, 1, other)
      return other
    end

    local function say(session, text, more)
      local event = { author = "user", content = { role = "user", parts = { { text = text } } } }
      for key, value in pairs(more or {}) do event[key] = value end
      return service:appendEvent(session, event)
    end

    local function create(id) return service:createSession { appName = "app", userId = "u", sessionId = id } end

    local function found(query, of)
      local texts = {}
      local list = (of or memory):searchMemory { appName = "app", userId = "u", query = query, limit = 1000 }.memories
      for index, entry in ipairs(list) do texts[index] = entry.content.parts[1].text end
      table.sort(texts)
      return texts
    end

    it("lets what was said be found for that time, and no longer", function()
      local session = create "s"
      say(session, "blue one")
      clock:advance(50)
      say(session, "blue two")
      memory:addSession(session)
      clock:advance(51)
      assert.same({ "blue two" }, found "blue")
      clock:advance(49)
      assert.same({ "blue two" }, found "two")
    end)

    it("is renewed where a search finds it", function()
      local session = create "s"
      say(session, "red apple")
      say(session, "green pear")
      memory:addSession(session)
      for _ = 1, 4 do
        clock:advance(100)
        assert.same({ "red apple" }, found "apple")
      end
      assert.same({}, found "pear")
      clock:advance(101)
      assert.same({}, found "apple")
    end)

    it("does not hide what is alive behind better results that have expired", function()
      local session = create "s"
      for _ = 1, 5 do say(session, "needle needle needle") end
      clock:advance(60)
      say(session, "a needle in a very long story about hay and about other things")
      memory:addSession(session)
      clock:advance(60)
      local list = memory:searchMemory { appName = "app", userId = "u", query = "needle", limit = 2 }.memories
      assert.equal(1, #list)
      assert.matches("^a needle", list[1].content.parts[1].text)
    end)

    it("stores nothing that is too old already, nor brings it back", function()
      local session = create "s"
      say(session, "old words")
      clock:advance(101)
      memory:addSession(session)
      assert.same({}, found "old")
      say(session, "new words", { invocationId = "i" })
      memory:addSession(session)
      clock:advance(90)
      assert.same({ "new words" }, found "words")
      assert.equal(0, memory:sweep())
      clock:advance(101)
      assert.equal(1, memory:sweep())
      memory:addSession(session)
      say(session, "newest words")
      memory:addSession(session)
      assert.same({ "newest words" }, found "words")
      service:rewind(session, { invocationId = "i" })
      memory:addSession(session)
      assert.same({}, found "words")
    end)

    rarely("sweeps what has expired, and tells how many", function()
      for name = 1, 3 do
        local session = create("s" .. name)
        for index = 1, 200 do say(session, ("word%d common"):format(index)) end
        memory:addSession(session)
      end
      clock:advance(60)
      assert.equal(3, #found "word7")
      assert.equal(0, memory:sweep())
      clock:advance(60)
      assert.equal(597, memory:sweep())
      assert.equal(3, #found "common")
      clock:advance(101)
      assert.equal(3, memory:sweep())
      assert.equal(0, memory:sweep())
      assert.same({}, found "common")
    end)

    it("counts what is alive when a user or a session is forgotten", function()
      local session = create "s"
      say(session, "one thing")
      clock:advance(60)
      say(session, "another thing")
      memory:addSession(session)
      clock:advance(60)
      assert.equal(1, memory:deleteSession { appName = "app", userId = "u", sessionId = "s" })
      assert.equal(0, memory:deleteUser(USER))
    end)

    it("knows no memory by its id that has expired", function()
      local session = create "s"
      say(session, "one thing")
      memory:addSession(session)
      local id = memory:searchMemory { appName = "app", userId = "u", query = "thing" }.memories[1].id
      clock:advance(101)
      assert.is_false(memory:deleteMemory { appName = "app", userId = "u", memoryId = id })
    end)

    it("sweeps what is left of a memory that was deleted by its id, and does not count it", function()
      local session = create "s"
      say(session, "one thing")
      memory:addSession(session)
      local id = memory:searchMemory { appName = "app", userId = "u", query = "thing" }.memories[1].id
      assert.is_true(memory:deleteMemory { appName = "app", userId = "u", memoryId = id })
      clock:advance(101)
      assert.equal(0, memory:sweep())
      memory:addSession(session)
      assert.same({}, found "thing")
    end)

    if store.isFile then
      it("survives closing, and each service decides by its own setting", function()
        local session = create "s"
        say(session, "grey cat")
        memory:addSession(session)
        clock:advance(60)
        assert.same({ "grey cat" }, found "cat")
        memory:close()
        local short, long = another { clock = clock, memoryTtlSeconds = 30 },
          another { clock = clock, memoryTtlSeconds = 100 }
        clock:advance(60)
        assert.same({}, found("cat", short))
        assert.same({ "grey cat" }, found("cat", another()))
        clock:advance(41)
        assert.same({}, found("cat", long))
        assert.same({ "grey cat" }, found("cat", another()))
        assert.equal(1, long:sweep())
        assert.same({}, found("cat", another()))
      end)

      it("leaves no row of what it has swept", function()
        local session = create "s"
        say(session, "grey cat")
        memory:addSession(session)
        clock:advance(60)
        assert.same({ "grey cat" }, found "cat")
        clock:advance(101)
        assert.equal(1, memory:sweep())
        for _, name in ipairs { "memory_owners", "memory_sessions", "memories", "memory_uses", "memory_text" } do
          assert.equal("0", count(url, name), name)
        end
      end)

      it("searches while somebody else writes: that it is used is not stored then #together", function()
        local session = create "s"
        say(session, "grey cat")
        memory:addSession(session)
        memory:close()
        memory = another { clock = clock, memoryTtlSeconds = 100, busyTimeoutMs = 600000 }
        clock:advance(60)
        local release = holdLock(url)
        -- Its next transaction that writes would wait for ten minutes.
        assert.same({ "grey cat" }, found "cat")
        release()
        clock:advance(60)
        assert.same({}, found "cat")
      end)
    end
  end)
end

describe("a time to live of artifacts and memories", function()
  it("is refused where it is wrong", function()
    for _, of in ipairs {
      { moonpad.artifactService, "artifactService", "artifactTtlSeconds", "memoryTtlSeconds" },
      { moonpad.memoryService, "memoryService", "memoryTtlSeconds", "artifactTtlSeconds" },
    } do
      local open, where, field, other = table.unpack(of)
      checks.raises("invalid_argument", where .. ": " .. field .. ": must not be negative", open, "memory:",
        { [field] = -1 })
      checks.raises("invalid_argument", where .. ": " .. field, open, "memory:", { [field] = "1" })
      checks.raises("invalid_argument", where .. ": " .. field .. ": must be finite", open, "memory:",
        { [field] = math.huge })
      checks.raises("invalid_argument", { other, "unknown field" }, open, "memory:", { [other] = 1 })
      checks.raises("invalid_argument", { where .. ": clock", "moonpad.testing.clock" }, open, "memory:",
        { clock = 5 })
    end
    checks.raises("invalid_argument", "artifactTtlSeconds", moonpad.open, "memory:", { artifactTtlSeconds = 1 })
  end)

  it("is no argument of sweep", function()
    local artifacts <close> = moonpad.artifactService "memory:"
    local memory <close> = moonpad.memoryService "memory:"
    checks.raises("invalid_argument", "artifacts:sweep: takes nothing as argument 1, got 10", artifacts.sweep,
      artifacts, 10)
    checks.raises("invalid_argument", "memory:sweep: takes nothing as argument 1", memory.sweep, memory, {})
    checks.raises("invalid_argument", "artifacts:sweep(...): call it with a colon", artifacts.sweep)
    -- Both have these.
    for _, method in ipairs { "sweep", "deleteUser", "close" } do
      checks.raises("invalid_argument",
        ("artifacts:%s(...): called with the service of another kind (memory)"):format(method),
        artifacts[method], memory, USER)
      checks.raises("invalid_argument",
        ("memory:%s(...): called with the service of another kind (artifact)"):format(method),
        memory[method], artifacts, USER)
    end
  end)

  it("asks a clock that gives no time, and says so", function()
    local artifacts <close> = moonpad.artifactService("memory:", { clock = testing.clock(-1) })
    checks.raises("invalid_argument", { "artifacts:save", "the clock gives" }, artifacts.save, artifacts,
      file("a", { part = "x" }))
  end)
end)

---- Against a model

-- Random calls and jumps of the clock, on a file by two services.
describe("artifactTtlSeconds, against a model", function()
  local TTL <const> = 160
  local STEPS <const> = checks.scaled(3000)
  local JUMPS <const> = { 0.5, 5, 10, 20, 80, 160, 161 }
  local seed = checks.seed()

  for _, store in ipairs(STORES) do
    it("on " .. store.name, function()
      local values, clock, url = random.new(seed), testing.clock(1000), store.url()
      local services, files = {}, {}
      for index = 1, store.isFile and 2 or 1 do
        services[index] = moonpad.artifactService(url, { clock = clock, artifactTtlSeconds = TTL })
      end

      local function alive(name)
        local of = files[name]
        return of and clock:now() - of.touched <= TTL and of or nil
      end

      local CALLS <const> = {
        jump = function() clock:advance(values:pick(JUMPS)) end,
        save = function(artifacts, name)
          local of = alive(name) or { versions = 0 }
          files[name] = of
          assert.equal(of.versions, artifacts:save(file(name, { part = tostring(of.versions) })))
          of.versions, of.touched = of.versions + 1, clock:now()
        end,
        load = function(artifacts, name)
          local of, part = alive(name), artifacts:load(file(name))
          assert.equal(of and tostring(of.versions - 1), part and part.text)
          -- A use is stored where the last one is older than a sixteenth of the time.
          if of and clock:now() - of.touched > TTL / 16 then of.touched = clock:now() end
        end,
        versions = function(artifacts, name)
          local of = alive(name)
          assert.equal(of and of.versions or 0, #artifacts:versions(file(name)))
        end,
        list = function(artifacts)
          local names = {}
          for name in pairs(files) do if alive(name) then names[#names + 1] = name end end
          table.sort(names)
          assert.same(names, artifacts:list(SCOPE))
        end,
        delete = function(artifacts, name)
          assert.equal(alive(name) ~= nil, artifacts:delete(file(name)))
          files[name] = nil
        end,
        sweep = function(artifacts)
          local expired = 0
          for name in pairs(files) do
            if not alive(name) then files[name], expired = nil, expired + 1 end
          end
          assert.equal(expired, artifacts:sweep())
        end,
      }
      local names = { "jump", "jump", "save", "save", "load", "load", "load", "versions", "list", "delete", "sweep" }
      for step = 1, STEPS do
        local call, name = values:pick(names), "f" .. values:below(4)
        local ok, problem = pcall(CALLS[call], values:pick(services), name)
        assert(ok, ("seed %d, step %d: %s %s at %g: %s"):format(seed, step, call, name, clock:now(), tostring(problem)))
      end
      for _, artifacts in ipairs(services) do artifacts:close() end
      support.cleanup()
    end)
  end
end)
