-- Files of schema 1, as its last version wrote them (spec/fixtures/schema_1), opened by this one.
require "moonpad.testing"
local checks = require "spec.support.checks"
local dump = require "spec.support.dump"
local goOn = require "spec.fixtures.schema_1.go_on"
local lock = require "spec.support.lock"
local moonpad = require "moonpad"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(3)

local quote = support.quote
local FILES = "spec/fixtures/schema_1/"

describe("a file of schema 1", function()
  local folder, path, url
  before_each(function()
    folder = support.tmpdir()
    path = folder .. "/test.db"
    url = "sqlite:" .. path
  end)
  after_each(support.cleanup)

  local function unpack(name)
    for _, suffix in ipairs { "", "-wal" } do
      local packed = FILES .. name .. ".db" .. suffix .. ".gz"
      local file = io.open(packed)
      if file then
        file:close()
        assert(os.execute(("gzip -dc %s > %s"):format(packed, quote(path .. suffix))))
      end
    end
  end

  local function told(name)
    local file <close> = assert(io.open(FILES .. name .. ".txt"))
    return file:read "a"
  end

  local function sql(statement)
    local pipe <close> = assert(io.popen(("sqlite3 %s %s"):format(quote(path), quote(statement))))
    return pipe:read "a"
  end

  -- The service on a file, whose clock stands where it is put.
  local function open()
    local clock = moonpad.testing.clock(1)
    return moonpad.open(url, { clock = clock }), clock
  end

  for _, name in ipairs { "empty", "sessions", "kept", "killed" } do
    it("shows all that it showed: " .. name, function()
      unpack(name)
      for _ = 1, 2 do
        local service <close> = open()
        assert.are.equal(told(name), dump(service, goOn.users))
      end
      assert.are.equal("ok\n2\n", sql "PRAGMA integrity_check; PRAGMA user_version")
    end)
  end

  for _, name in ipairs { "sessions", "kept", "killed" } do
    it("goes on as it would have: " .. name, function()
      unpack(name)
      do
        local service <close>, clock = open()
        assert.are.equal(told(name .. "_after"), goOn.run(service, clock))
      end
      assert.are.equal("ok\n", sql "PRAGMA integrity_check")
    end)
  end

  it("keeps its artifacts and memories, whoever opens it first", function()
    unpack "kept"
    do
      local artifacts <close> = moonpad.artifactService(url)
      local bill = { appName = "shop", userId = "ann", sessionId = "kinds", filename = "bill.txt" }
      assert.are.same({ 0, 1 }, artifacts:versions(bill))
      assert.are.equal("2 teas: 5.00", artifacts:load(bill).text)
      bill.part = "none"
      assert.are.equal(2, artifacts:save(bill))
      local photo = artifacts:load { appName = "shop", userId = "ann", filename = "user:photo.png" }
      assert.are.equal("\137PNG\r\n\26\n", photo.inlineData.data)
    end
    assert.are.equal("2\n", sql "PRAGMA user_version")
    do
      local memory <close> = moonpad.memoryService(url)
      local found = memory:searchMemory { appName = "shop", userId = "ann", query = "there" }
      assert.are.equal("kinds", found.memories[1].sessionId)
    end
    local service <close> = open()
    assert.are.equal(told "kept", dump(service, goOn.users))
  end)

  it("is backed up as what it has become", function()
    unpack "killed"
    local copy = folder .. "/copy.db"
    do
      local service <close> = open()
      service:backup(copy)
    end
    url = "sqlite:" .. copy
    local service <close> = open()
    assert.are.equal(told "killed", dump(service, goOn.users))
  end)

  it("is migrated by one of several processes that open it at the same moment #together", function()
    local COUNT, EVENTS = 6, 10
    unpack "killed"
    local go = folder .. "/go"
    assert(os.execute("mkfifo " .. quote(go)))
    local command = table.concat({ "exec env", "LUA_PATH=" .. quote(package.path), "LUA_CPATH=" .. quote(package.cpath),
      "lua5.4 spec/helpers/open_together.lua", quote(url), EVENTS, "<", quote(go), "2>&1" }, " ")
    local processes = {}
    for index = 1, COUNT do processes[index] = assert(io.popen(command)) end
    local gate = assert(io.open(go, "w")) -- opens when the first reads from it
    for _, process in ipairs(processes) do assert.are.equal("ready", process:read "l") end
    gate:close()
    for _, process in ipairs(processes) do
      assert.are.equal("ok", process:read "l")
      assert.is_true(process:close())
    end
    local service <close> = open()
    local session = service:getSession { appName = "shop", userId = "ann", sessionId = "again" }
    assert.are.equal(COUNT * EVENTS, session.revision)
    assert.are.equal("ok\n2\n", sql "PRAGMA integrity_check; PRAGMA user_version")
  end)

  it("that cannot be written is refused, and stays as it is #posix", function()
    unpack "sessions"
    assert(os.execute(("chmod 444 %s && chmod 755 %s"):format(quote(path), quote(folder))))
    local script = ([[print(select(2, pcall(require "moonpad".open, %q)))]]):format(url)
    local command = table.concat({ support.boundByPermissions() .. "env", "LUA_PATH=" .. quote(package.path),
      "LUA_CPATH=" .. quote(package.cpath), "lua5.4 -e", quote(script), "2>&1" }, " ")
    local pipe <close> = assert(io.popen(command))
    local message = pipe:read "a"
    assert(message:find("storage: " .. path .. ": the file is read-only", 1, true), message)
    assert(message:find("use a copy", 1, true), message)
    assert.are.equal("1\n", sql "PRAGMA user_version")
  end)

  it("that somebody else keeps locked is `busy`, says why, and is migrated later #together", function()
    unpack "sessions"
    local release = lock(path, folder)
    checks.raises("busy", { support.toldPath(path), "migrated to schema 2" }, moonpad.open, url, { busyTimeoutMs = 20 })
    release()
    local service <close> = open()
    assert.are.equal(told "sessions", dump(service, goOn.users))
  end)
end)
