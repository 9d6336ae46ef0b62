-- Opening a store: URLs and the configuration (contract 2 and the first point of 5).
local checks = require "spec.support.checks"
local lock = require "spec.support.lock"
local moonpad = require "moonpad"
local paths = require "moonpad.util.paths"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(3)

local raises = checks.raises

local function currentFolder()
  local pipe <close> = assert(io.popen "pwd")
  return pipe:read "l"
end

local function exists(path)
  local file = io.open(path)
  if file then file:close() end
  return file ~= nil
end

describe("moonpad.open", function()
  local folder
  before_each(function() folder = support.tmpdir() end)
  after_each(support.cleanup)

  it("opens memory that is nobody else's", function()
    for _, url in ipairs { "memory:", "sqlite::memory:" } do
      local one <close> = moonpad.open(url)
      checks.create(one)
      local other <close> = moonpad.open(url)
      assert.is_nil(checks.get(other))
      assert.are.equal("s", checks.get(one).id)
    end
  end)

  it("opens a file, and finds there what was stored", function()
    local path = folder .. "/a file with blanks & signs#" .. (paths.isWindows and ".db" or "?.db")
    do
      local service <close> = moonpad.open("sqlite:" .. path)
      local session = checks.create(service, "s", { k = { 1, 2.0, moonpad.array {} }, ["user:k"] = "u",
        ["app:k"] = "a" })
      checks.append(service, session, { added = true, ["temp:t"] = 1 }, { id = "e", timestamp = 12.5 })
    end
    assert.is_true(exists(path))
    local service <close> = moonpad.open("sqlite:" .. path)
    local session = checks.get(service)
    checks.identical({ k = { 1, 2.0, moonpad.array {} }, ["user:k"] = "u", ["app:k"] = "a", added = true },
      session.state:getAll())
    assert.are.equal(1, session.revision)
    assert.are.equal("e", session.events[1].id)
    assert.are.equal(12.5, session.lastUpdateTime)
    assert.are.same({ k = { 1, 2.0, {} } }, service:stateAt(session, 0))
  end)

  it("understands SQLAlchemy's relative and absolute URLs", function()
    local path = folder .. "/absolute.db"
    moonpad.open("sqlite:///" .. path):close()
    assert.is_true(exists(path))
    local here = currentFolder()
    local up = ("../"):rep(select(2, here:gsub("/[^/]+", "")))
    moonpad.open("sqlite:///" .. up .. folder:sub(2) .. "/relative.db"):close()
    assert.is_true(exists(folder .. "/relative.db"))
    moonpad.open("sqlite:" .. up .. folder:sub(2) .. "/plain.db"):close()
    assert.is_true(exists(folder .. "/plain.db"))
  end)

  it("may open one file several times", function()
    local one <close> = moonpad.open("sqlite:" .. folder .. "/test.db")
    local two <close> = moonpad.open("sqlite:" .. folder .. "/test.db")
    checks.create(one, "s", { k = 1 })
    local session = checks.get(two)
    assert.are.equal(1, session.state.k)
    checks.append(two, session, { k = 2 })
    assert.are.equal(2, checks.get(one).state.k)
  end)

  it("closes at the end of the scope", function()
    local kept
    do
      local service <close> = moonpad.open "memory:"
      kept = service
    end
    raises("closed", "closed", checks.get, kept)
  end)

  it("refuses what is no URL", function()
    raises("invalid_argument", nil, moonpad.open)
    raises("invalid_argument", nil, moonpad.open, 7)
    raises("invalid_argument", nil, moonpad.open, "sqlite:")
    raises("unsupported", { "memory:", "sqlite:" }, moonpad.open, "")
    raises("unsupported", { "memory:", "sqlite:" }, moonpad.open, "plain/path.db")
    raises("unsupported", { "memory:", "sqlite:" }, moonpad.open, "MEMORY")
    raises("unsupported", { "memory:", "sqlite:" }, moonpad.open, "mongodb://host/db")
  end)

  it("takes nothing but a scheme for a scheme: before another colon may stand a password", function()
    for _, url in ipairs { "s3cr3t@host:6379/0", "//s3cr3t@host:1/db", "s3cr3t/x:y", "1s3cr3t:x", ":s3cr3t" } do
      local err = raises("unsupported", "no scheme", moonpad.open, url)
      assert.is_nil(err.message:find("s3cr3t", 1, true))
    end
    raises("unsupported", "web+x.y-1:", moonpad.open, "web+x.y-1:z")
  end)

  it("never repeats a password #databases", function()
    for _, scheme in ipairs { "redis", "postgresql", "mysql", "mongodb", "rediss", "http" } do
      for _, login in ipairs { "joe:s3cr3t@", ":s3cr3t@", "s3cr3t@", "joe:s3cr3t%40x@" } do
        -- libpq knows a parameter of this name, moonpad's own URLs do not.
        local code = ({ postgresql = "storage", mysql = "invalid_argument", redis = "invalid_argument",
          rediss = support.hasRedisTls() and "invalid_argument" })[scheme] or "unsupported"
        local err = raises(code, nil, moonpad.open, scheme .. "://" .. login .. "127.0.0.1:1/db?password=s3cr3t")
        assert.is_nil(tostring(err):find("s3cr3t", 1, true))
      end
    end
  end)

  describe("with a configuration", function()
    it("refuses fields that it does not know and names the nearest", function()
      raises("invalid_argument", { "durabilty", "did you mean durability?" }, moonpad.open, "memory:",
        { durabilty = "full" })
      raises("invalid_argument", { "busy_timeout_ms", "did you mean busyTimeoutMs?" }, moonpad.open, "memory:",
        { busy_timeout_ms = 1 })
      raises("invalid_argument", "completelyDifferent", moonpad.open, "memory:", { completelyDifferent = 1 })
    end)

    it("refuses values that make no sense", function()
      local refused = {
        durability = { "sometimes", 1, true },
        onConflict = { "merge", false },
        busyTimeoutMs = { -1, "1", 1.5 },
        numRecentEvents = { -1, 1.5, "1" },
        maxValueBytes = { -1, 0.5, "1" },
        maxEventBytes = { -1, 0.5, "1" },
        maxStateBytes = { -1, 0.5, "1" },
      }
      for field, values in pairs(refused) do
        for _, value in ipairs(values) do raises("invalid_argument", field, moonpad.open, "memory:",
          { [field] = value }) end
      end
      raises("invalid_argument", nil, moonpad.open, "memory:", "full")
    end)

    it("takes both durabilities", function()
      for _, durability in ipairs { "full", "normal" } do
        local service <close> = moonpad.open("sqlite:" .. folder .. "/" .. durability .. ".db",
          { durability = durability })
        checks.append(service, checks.create(service), { k = 1 })
        assert.are.equal(1, checks.get(service).state.k)
      end
    end)

    support.each_store(function(open)
      it("has numRecentEvents as the default of getSession", function()
        local service = open { numRecentEvents = 2 }
        local session = checks.create(service)
        for _ = 1, 5 do checks.append(service, session) end
        assert.are.equal(2, #checks.get(service).events)
        assert.are.equal(3, #service:getSession({ appName = "app", userId = "u", sessionId = "s",
          numRecentEvents = 3 }).events)
        assert.are.equal(5, checks.get(service).revision)
        assert.are.equal(0, #open({ numRecentEvents = 0 }):createSession({ appName = "app", userId = "u" }).events)
      end)

      local function expectUntouched(service, session)
        assert.are.same({}, checks.get(service).state:getAll())
        assert.are.equal(0, checks.get(service).revision)
        assert.are.equal(0, session.revision)
        assert.are.equal(0, #session.events)
      end

      it("has maxValueBytes: a larger value is `limit`", function()
        local service = open { maxValueBytes = 1000 }
        local session = checks.create(service)
        raises("limit", nil, function()
          session.state.k = ("x"):rep(1001)
          service:updateSession(session)
        end)
        session = checks.get(service)
        raises("limit", nil, checks.append, service, session, { ok = 1, k = { ("x"):rep(600), ("x"):rep(600) } })
        raises("limit", nil, service.updateUserState, service,
          { appName = "app", userId = "u", state = { k = ("x"):rep(1001) } })
        raises("limit", nil, checks.create, service, "new", { k = ("x"):rep(1001) })
        expectUntouched(service, session)
        checks.append(service, session, { k = ("x"):rep(900), l = ("x"):rep(900) })
        session.state:append("list", ("x"):rep(600))
        service:updateSession(session)
        raises("limit", nil, function()
          session.state:append("list", ("x"):rep(600))
          service:updateSession(session)
        end)
        assert.are.equal(1, #checks.get(service).state.list)
      end)

      it("has maxEventBytes: a larger event is `limit`", function()
        local service = open { maxEventBytes = 2000 }
        local session = checks.create(service)
        raises("limit", nil, checks.append, service, session, nil, { customMetadata = { text = ("x"):rep(2000) } })
        raises("limit", nil, checks.append, service, session, { a = ("x"):rep(1000), b = ("x"):rep(1000) })
        expectUntouched(service, session)
        checks.append(service, session, { a = ("x"):rep(1000) })
        assert.are.equal(1, session.revision)
      end)

      it("has maxStateBytes: a session whose state would be larger is `limit`", function()
        local service = open { maxStateBytes = 3000 }
        local session = checks.create(service)
        for index = 1, 2 do checks.append(service, session, { ["k" .. index] = ("x"):rep(1000) }) end
        raises("limit", nil, checks.append, service, session, { small = 1, k3 = ("x"):rep(1000) })
        assert.are.equal(2, session.revision)
        assert.are.same({ "k1", "k2" }, checks.keys(checks.get(service).state:getAll()))
        checks.append(service, session, { k1 = moonpad.removed })
        checks.append(service, session, { k3 = ("x"):rep(1000) })
        checks.append(service, session, { k3 = ("y"):rep(1000) })
        assert.are.equal(5, session.revision)
        raises("limit", nil, checks.create, service, "new", { k = ("x"):rep(3001) })
        assert.is_nil(checks.get(service, "new"))
      end)

      it("takes 0 for no limit", function()
        local service = open { maxValueBytes = 0, maxEventBytes = 0, maxStateBytes = 0 }
        checks.append(service, checks.create(service), { k = ("x"):rep(17 * 1024 * 1024) })
        assert.are.equal(17 * 1024 * 1024, #checks.get(service).state.k)
      end)

      it("has 16 MiB for a value by default", function()
        local service = open()
        local session = checks.create(service)
        raises("limit", nil, function()
          session.state.k = ("x"):rep(16 * 1024 * 1024 + 1)
          service:updateSession(session)
        end)
        assert.is_nil(checks.get(service).state.k)
      end)
    end)

    it("has busyTimeoutMs: a lock that is not had in time is `busy`, and nothing is stored #together", function()
      local path = folder .. "/test.db"
      local service <close> = moonpad.open("sqlite:" .. path, { busyTimeoutMs = 50 })
      local session = checks.create(service)
      local release = lock(path, folder)
      raises("busy", nil, checks.append, service, session, { k = 1 })
      raises("busy", nil, service.updateAppState, service, { appName = "app", state = { k = 1 } })
      assert.are.equal(0, checks.get(service).revision)
      release()
      checks.append(service, session, { k = 2 })
      assert.are.equal(2, checks.get(service).state.k)
    end)
  end)
end)
