-- Failures raise error objects (contract 2.3); the cases that users meet are in
-- spec/support/error_cases.lua.
local checks = require "spec.support.checks"
local error_cases = require "spec.support.error_cases"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises

local CODES = { invalid_argument = true, not_found = true, already_exists = true, conflict = true, template = true,
  model = true, tool = true, limit = true,
  busy = true, closed = true, cancelled = true, storage = true, corrupt = true, no_memory = true, unsupported = true }

describe("an error", function()
  it("is an object with a code and a message that reads well", function()
    local ok, err = pcall(function() moonpad.state().k = print end)
    assert.is_false(ok)
    assert.is_table(err)
    assert.are.equal("invalid_argument", err.code)
    assert.are.equal('state["k"]: a function cannot be stored', err.message)
    assert.is_truthy(tostring(err):find(err.message, 1, true))
    assert.is_truthy(tostring(err):find("invalid_argument", 1, true))
    assert.is_nil(tostring(err):find("table: 0x", 1, true))
  end)

  it("passes through coroutines, pcall and error unchanged", function()
    local routine = coroutine.create(function() moonpad.json.decode "oops" end)
    local ok, err = coroutine.resume(routine)
    assert.is_false(ok)
    assert.are.equal("invalid_argument", err.code)
    ok, err = pcall(error, err)
    assert.is_false(ok)
    assert.are.equal("invalid_argument", err.code)
  end)

  it("reads well in a message handler", function()
    local _, trace = xpcall(function() moonpad.state().k = print end,
      function(err) return debug.traceback(tostring(err)) end)
    assert.is_truthy(trace:find("a function cannot be stored", 1, true))
    assert.is_truthy(trace:find("errors_spec.lua", 1, true))
  end)

  support.each_store(function(open, store)
    for _, case in ipairs(error_cases) do
      if store == "sqlite:FILE" or not case.file then
        it(("%s: who tries to %s is told so"):format(case.code, case.what), function()
          assert.is_true(CODES[case.code])
          local service = open()
          local kit = {
            moonpad = moonpad, service = service, folder = support.tmpdir(),
            session = checks.create(service, "s", { k = "value", cart = { "tea" }, n = 1 }),
          }
          local err = raises(case.code, case.says, case.run, kit)
          assert.is_nil(tostring(err):find("secret", 1, true))
          -- The session is none the worse for it, unless it or its service has gone.
          if case.code ~= "closed" and not case.what:find "deleted" then
            service:refresh(kit.session)
            checks.append(service, kit.session, { after = true })
            assert.is_true(checks.get(service).state.after)
          end
        end)
      end
    end

    it("not at all: what is absent is nil", function()
      local service = open()
      local session = checks.create(service)
      assert.is_nil(service:getSession { appName = "app", userId = "u", sessionId = "x" })
      assert.is_false(service:deleteSession { appName = "app", userId = "u", sessionId = "x" })
      assert.is_nil(service:updateSession(session))
      assert.is_nil(session.state.x)
      assert.are.same({}, service:getUserState { appName = "x", userId = "x" })
    end)
  end)

  describe("about a file that cannot be opened", function()
    local folder
    before_each(function() folder = support.tmpdir() end)
    after_each(support.cleanup)

    local function read(path)
      local file <close> = assert(io.open(path, "rb"))
      return file:read "a"
    end

    local function listing()
      local pipe <close> = assert(io.popen("ls -A " .. support.quote(folder)))
      return pipe:read "a"
    end

    it("leaves a file that is no database alone", function()
      local path = folder .. "/notes.txt"
      for _, text in ipairs { "x", ("These are my notes.\n"):rep(500), "SQLite format 3\0" .. ("\xff"):rep(5000) } do
        local file <close> = assert(io.open(path, "wb"))
        file:write(text)
        file:close()
        raises("corrupt", "notes.txt", moonpad.open, "sqlite:" .. path)
        assert.are.equal(text, read(path))
        assert.are.equal("notes.txt\n", listing())
      end
    end)

    it("takes an empty file, as SQLite does", function()
      io.open(folder .. "/empty.db", "wb"):close()
      local service <close> = moonpad.open("sqlite:" .. folder .. "/empty.db")
      checks.create(service)
      assert.are.equal("s", checks.get(service).id)
    end)

    it("leaves a file of a newer version, and another program's database, as they are", function()
      local path = folder .. "/test.db"
      for _, sql in ipairs { "PRAGMA user_version = 1000000; CREATE TABLE t (x)",
        "CREATE TABLE sessions (id TEXT, mine TEXT); INSERT INTO sessions VALUES (1, 2)" } do
        os.remove(path)
        assert(os.execute(("sqlite3 %s %s"):format(support.quote(path), support.quote(sql))))
        local before = read(path)
        assert.is_false((pcall(moonpad.open, "sqlite:" .. path)))
        assert.are.equal(before, read(path))
        assert.are.equal("test.db\n", listing())
      end
    end)

    it("tells a damaged file when it meets the damage, and does not make it worse", function()
      local path = folder .. "/test.db"
      do
        local service <close> = moonpad.open("sqlite:" .. path)
        local session = checks.create(service)
        for index = 1, 200 do checks.append(service, session, { ["k" .. index] = ("x"):rep(200) }) end
      end
      local good = read(path)
      local file <close> = assert(io.open(path, "wb"))
      file:write(good:sub(1, 4096), ("\xff"):rep(#good - 4096))
      file:close()
      raises("corrupt", nil, function()
        local service <close> = moonpad.open("sqlite:" .. path)
        local session = assert(checks.get(service))
        for _ in ipairs(session.events) do end
        checks.append(service, session, { k = 1 })
      end)
    end)

    it("is `storage` when the folder cannot be written #posix", function()
      local program = [[
        local ok, err = pcall(require("moonpad").open, "sqlite:" .. arg[1] .. "/test.db")
        print(ok, err.code, (err.message:find(arg[1], 1, true)))
      ]]
      local file = folder .. "/open.lua"
      local script <close> = assert(io.open(file, "w"))
      assert(script:write(program))
      script:close()
      assert(os.execute("chmod 500 " .. support.quote(folder)))
      local pipe <close> = assert(io.popen(("%slua5.4 %s %s 2>&1"):format(
        support.boundByPermissions(), support.quote(file), support.quote(folder))))
      local output = pipe:read "a"
      assert(os.execute("chmod 700 " .. support.quote(folder)))
      assert.equal("false\tstorage\t1\n", output)
    end)
  end)
end)
