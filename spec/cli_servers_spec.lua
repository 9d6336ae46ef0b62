-- The command, as a process of its own, on the stores of servers.
local files = require "spec.support.files"
local moonpad = require "moonpad"
local support = require "spec.support"
local rarely = require("spec.support.turns").rarely

local quote, read, write = support.quote, files.read, files.write

local AGENT <const> = [[
  local moonpad = require "moonpad"
  return moonpad.agent {
    name = "Counter",
    beforeAgentCallback = function(context) context.state:increment "user:count" end,
    model = function(request, context)
      return request.contents[#request.contents].parts[1].text .. " " .. context.state["user:count"]
    end,
  }
]]

-- URLs of servers that nobody needs to ask.
local POSTGRES <const> = "postgresql://ann:s3cr3t@127.0.0.1:1/shop"
local MYSQL <const> = "mysql://ann:s3cr3t@127.0.0.1:1/shop"
local REDIS <const> = "redis://:s3cr3t@127.0.0.1:1/0"

local folder

local function command(line)
  local whole = ("XDG_DATA_HOME=%s USER=ann bin/moonpad %s </dev/null >%s 2>%s"):format(quote(folder .. "/data"), line,
    quote(folder .. "/out"), quote(folder .. "/err"))
  local _, _, code = os.execute(whole)
  local out, err = read(folder .. "/out"), read(folder .. "/err")
  -- Whatever it says.
  assert.is_nil((out .. err):find("s3cr3t", 1, true))
  assert.is_nil((out .. err):find(":secret@", 1, true))
  return code, out, err
end

local function ok(line)
  local code, out, err = command(line)
  assert.equal("", err)
  assert.equal(0, code)
  return out
end

local function fails(code, message, line)
  local found, out, err = command(line)
  assert.equal(code, found, err)
  assert.equal("", out)
  assert.matches(message, err)
  assert.equal(1, select(2, err:gsub("\n", "")))
end

local function with(url, option)
  return ("%s%s%s"):format(url, url:find("?", 1, true) and "&" or "?", option)
end

-- Of each server: how the URL of a place of its own is shown, also with other options; and what
-- says that nothing is there.
local PLACES <const> = {
  ["postgresql:"] = { shown = "postgresql://127%.0%.0%.1:%d+/moonpad%?schema=test[%w_]*", more = "pool=2", again = "",
    nothing = "there is no schema" },
  ["mysql:"] = { shown = "mysql://127%.0%.0%.1:%d+/test_[%d_]+", more = "pool=2&prefix=bot_", again = "%?prefix=bot_",
    nothing = "there are no tables moonpad_" },
  ["redis:"] = { shown = "redis://127%.0%.0%.1:%d+/0%?prefix=test_[%d_]+:", more = "pool=2", again = "",
    nothing = "there are no keys test_[%d_]+: of moonpad", hasNoSchema = true },
}

-- A command that runs a file of SQL in a store that is empty.
local function sqlCommand(url, path)
  if url:find "^mysql:" then return support.mariadb(url, "<" .. quote(path)) end
  return support.psql((url:gsub("[?&]schema=.*$", "")), "-f " .. quote(path))
end

describe("bin/moonpad on a server", function()
  before_each(function()
    folder = support.tmpdir()
    write(folder .. "/agent.lua", AGENT)
  end)
  after_each(support.cleanup)

  rarely("tells in one line that nobody is there", function()
    for _, line in ipairs { "apps --db %s", "sessions --db %s", "state --db %s", "sweep %s --session-ttl 1d",
      "forget %s --app shop --user ann", "migrate %s", "run --db %s " .. folder .. "/agent.lua hello" } do
      fails(1, "refused", line:format(quote(POSTGRES)))
      fails(1, "no connection: Can't connect", line:format(quote(MYSQL)))
      fails(1, "no connection: Connection refused", line:format(quote(REDIS)))
    end
  end)

  rarely("says what is wrong with a URL", function()
    for _, url in ipairs { POSTGRES, MYSQL, REDIS } do
      fails(1, "did you mean pool", ("apps --db %s"):format(quote(url .. "?pol=3")))
      fails(1, "expects on or off", ("migrate %s"):format(quote(url .. "?migrate=perhaps")))
    end
    for _, url in ipairs { POSTGRES, MYSQL } do
      fails(1, "expects on or off", ("migrate --print %s"):format(quote(url .. "?migrate=perhaps")))
    end
    fails(1, "there is no schema to print", "migrate --print " .. quote(REDIS))
    fails(1, "names that begin with pg_", ("migrate --print %s"):format(quote(POSTGRES .. "?schema=pg_x")))
    fails(1, "option prefix: expects at most 20", ("migrate --print %s"):format(quote(MYSQL .. "?prefix=a-b")))
    fails(2, "%-%-print is for servers", "migrate --print " .. folder .. "/state.db")
    fails(1, "there is no file", "migrate " .. folder .. "/state.db")
  end)

  it("prints SQL without asking a server", function()
    local sql = ok(("migrate --print %s"):format(quote(POSTGRES .. "?schema=a%22b")))
    assert.matches('^BEGIN;\nCREATE SCHEMA IF NOT EXISTS "a""b";\n', sql)
    for _, name in ipairs { "sessions", "events", "artifacts", "memories" } do
      assert.is_truthy(sql:find("CREATE TABLE " .. name .. "(", 1, true), name)
    end
    assert.matches("COMMIT;\n$", sql)
  end)

  it("prints SQL for MariaDB without asking a server", function()
    local sql = ok(("migrate --print %s"):format(quote(MYSQL .. "?prefix=bot_")))
    for _, name in ipairs { "sessions", "events", "artifacts", "memories" } do
      assert.is_truthy(sql:find("CREATE TABLE IF NOT EXISTS bot_" .. name .. "(", 1, true), name)
      assert.is_nil(sql:find("[^%w]#" .. name), name)
    end
    assert.matches("^SET NAMES binary;\n", sql)
    assert.matches("DELIMITER ;\n$", sql)
  end)
end)

for _, store in ipairs(support.withServers {}) do
  describe("bin/moonpad on " .. store.name, function()
    local url, db
    local place = PLACES[store.name]
    local shown, nothing = place.shown, place.nothing

    before_each(function()
      folder = support.tmpdir()
      write(folder .. "/agent.lua", AGENT)
      url = store.url()
      db = "--db " .. quote(url)
    end)
    after_each(support.cleanup)

    local function run(message)
      return ok(("run %s %s %s"):format(db, quote(folder .. "/agent.lua"), quote(message)))
    end

    it("runs agents and shows what they have stored", function()
      assert.equal("hello 1\n", run "hello")
      assert.equal("again 2\n", run "again")
      assert.equal("user:count = 2\n", ok("state " .. db))
      assert.matches("ann%s+default", ok("sessions " .. db))
      assert.matches("\nCounter%s+1%s+" .. shown, ok("apps " .. db))
      local listed = moonpad.json.decode(ok("apps --json " .. db))
      assert.equal("Counter", listed.app)
      assert.matches("^" .. shown, listed.db)
    end)

    it("makes nothing where it only looks", function()
      for _, line in ipairs { "apps %s", "sessions %s", "state %s", "sessions %s --app x", "sessions delete %s" } do
        fails(1, nothing, line:format(db))
      end
      fails(1, nothing, "sweep " .. quote(url) .. " --session-ttl 1d")
      fails(1, nothing, "forget " .. quote(url) .. " --app a --user b")
      local code = select(2, pcall(moonpad.open, with(url, "migrate=off"))).code
      assert.equal("unsupported", code)
    end)

    it("moves a session to a file and back", function()
      run "hello"
      local exported = folder .. "/session.jsonl"
      ok(("sessions export %s --output %s"):format(db, quote(exported)))
      ok(("sessions import --db %s %s"):format(quote(folder .. "/state.db"), quote(exported)))
      ok(("sessions import %s --session other %s"):format(db, quote(exported)))
      local there = ok("events --session other " .. db)
      assert.equal(ok("events --db " .. quote(folder .. "/state.db")), there)
      ok("sessions delete --session other " .. db)
      fails(1, "there is no session", "events --session other " .. db)
    end)

    it("frees and forgets files and memories, too", function()
      run "hello"
      local who = { appName = "Counter", userId = "ann" }
      do
        local service <close> = moonpad.open(url)
        local artifacts <close> = moonpad.artifactService(url)
        local memory <close> = moonpad.memoryService(url)
        artifacts:save { appName = "Counter", userId = "ann", sessionId = "default", filename = "f", part = "x" }
        memory:addSession(service:getSession { appName = "Counter", userId = "ann", sessionId = "default" })
      end
      assert.matches("0 files and 0 memories", ok("sweep " .. quote(url) .. " --artifact-ttl 1d --memory-ttl 1d"))
      local told = ok("forget " .. quote(url) .. " --app Counter --user ann")
      assert.matches('Forgot 1 session, 1 file and 2 memories of user "?ann"?', told)
      assert.matches("The server frees the room", told)
      local service <close> = moonpad.open(url)
      assert.same({}, service:listSessions(who))
    end)

    it("copies a file to it and back", function()
      ok(("run --db %s %s hello"):format(quote(folder .. "/from.db"), quote(folder .. "/agent.lua")))
      local told = ok(("copy %s %s"):format(quote(folder .. "/from.db"), quote(url)))
      assert.matches("^Copied 1 session, 0 files and 2 memories of 1 application to " .. shown, told)
      assert.equal("user:count = 1\n", ok("state " .. db))
      local back = moonpad.json.decode(ok(("copy --json %s %s"):format(quote(url), quote(folder .. "/to.db"))))
      assert.same({ sessions = 1, files = 0, memories = 2 }, back.copied)
      run "there"
      fails(1, '"count" there', ("copy %s %s"):format(quote(folder .. "/from.db"), quote(url)))
      fails(1, nothing, ("copy %s %s"):format(quote(store.url()), quote(folder .. "/to.db")))
      fails(1, "keeps nothing", ("copy %s sqlite::memory:"):format(quote(url)))
    end)

    it("shows where in a database it is, and no other option", function()
      local told = ok("migrate " .. quote(with(url, place.more)))
      assert.matches("^" .. shown .. place.again .. " is up to date", told)
    end)

    it("takes a schema with sessions alone as it is", function()
      local service <close> = moonpad.open(url)
      service:createSession { appName = "shop", userId = "ann", sessionId = "s" }
      assert.matches("^Copied 1 session, 0 files and 0 memories", ok(("copy %s %s"):format(quote(url),
        quote(folder .. "/to.db"))))
      assert.matches("0 files and 0 memories", ok("sweep " .. quote(url) .. " --artifact-ttl 1d --memory-ttl 1d"))
      local told = ok("forget " .. quote(url) .. " --app shop --user ann")
      assert.matches("Forgot 1 session, 0 files and 0 memories", told)
      for _, open in ipairs { moonpad.artifactService, moonpad.memoryService } do
        local isOpen, opened = pcall(open, with(url, "migrate=off"))
        assert.equal(place.hasNoSchema == true, isOpen)
        if isOpen then opened:close() else assert.equal("unsupported", opened.code) end
      end
    end)

    it("makes what it needs, by itself or by the SQL that it prints", function()
      assert.matches("^" .. shown .. ".* is up to date: sessions, artifacts and memories%.\n$",
        ok("migrate " .. quote(url)))
      moonpad.memoryService(with(url, "migrate=off")):close()
      if place.hasNoSchema then return fails(1, "there is no schema to print", "migrate --print " .. quote(url)) end
      local other = store.url()
      write(folder .. "/schema.sql", ok("migrate --print " .. quote(other)))
      assert.is_true(os.execute(sqlCommand(other, folder .. "/schema.sql")))
      for _, open in ipairs { moonpad.open, moonpad.artifactService, moonpad.memoryService } do
        open(with(other, "migrate=off")):close()
      end
    end)
  end)
end
