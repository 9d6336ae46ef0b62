-- What happens to the files of an open SQLite service behind its back: deleted, moved, replaced,
-- made newer. No append is acknowledged that nobody will find, and nothing is written into a file
-- that is not the one that was opened.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

local raises = checks.raises
local quote = support.quote

local function shell(...)
  assert(os.execute(string.format(...)))
end

local function bytes(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function exists(path)
  local file = io.open(path)
  return file ~= nil and file:close()
end

describe("an open SQLite file", function()
  local folder, path, url, service, artifacts, memory, session, stale, first, elsewhere, new
  before_each(function()
    folder = support.tmpdir()
    path = folder .. "/test.db"
    url = "sqlite:" .. path
    service = moonpad.open(url, { durability = "normal" })
    artifacts = moonpad.artifactService(url)
    memory = moonpad.memoryService(url)
    session = checks.create(service)
    stale = checks.get(service)
    first = checks.append(service, session, { n = 1 }, { invocationId = "one" })
    artifacts:save { appName = "app", userId = "u", sessionId = "s", filename = "f", part = "before" }
    memory:addSession(session)
    elsewhere = moonpad.open "memory:"
    new = checks.create(elsewhere, "new")
    checks.append(elsewhere, new, nil, { content = { parts = { { text = "not remembered yet" } } } })
  end)
  after_each(function()
    elsewhere:close()
    service:close()
    artifacts:close()
    memory:close()
    support.cleanup()
  end)

  -- In a process of its own, as nothing of this one knows of the file: "ok", or what went wrong.
  local function otherProcess()
    local command = ("LUA_PATH=%s LUA_CPATH=%s lua5.4 spec/helpers/open_and_append.lua %s 2>&1")
      :format(quote(package.path), quote(package.cpath), quote(url))
    local pipe <close> = assert(io.popen(command))
    return (pipe:read "a"):gsub("%s+$", "")
  end

  -- Another process that has a file open, and has made a session "held" in it, until it is closed.
  local function holdOpen(of)
    local told = folder .. "/told"
    shell("mkfifo %s", quote(told))
    local pipe = assert(io.popen(("LUA_PATH=%s LUA_CPATH=%s lua5.4 spec/helpers/hold_open.lua %s > %s 2>&1")
      :format(quote(package.path), quote(package.cpath), quote(of), quote(told)), "w"))
    local answers <close> = assert(io.open(told))
    assert.are.equal("open", answers:read())
    return pipe
  end

  local function sql(file, statement)
    local pipe <close> = assert(io.popen(("sqlite3 %s %s 2>&1"):format(quote(file), quote(statement))))
    return (pipe:read "a"):gsub("%s+$", "")
  end

  local name = { appName = "app", userId = "u", sessionId = "s" }
  local file = { appName = "app", userId = "u", sessionId = "s", filename = "f" }

  local writes = {
    ["an append"] = function() checks.append(service, session, { n = 2 }) end,
    ["an append of a state proxy's writes"] = function()
      session.state.pending = true
      service:updateSession(session)
    end,
    ["a new session"] = function() checks.create(service, "new") end,
    ["a deletion"] = function() service:deleteSession(name) end,
    ["a write of shared state"] = function()
      service:updateUserState { appName = "app", userId = "u", state = { k = 1 } }
    end,
    ["an increment of shared state"] = function() service:incrementState { appName = "app", key = "n" } end,
    ["a rewind"] = function() service:rewind(session, { invocationId = "one" }) end,
    ["a fork"] = function() service:fork(session, { at = 1, sessionId = "forked" }) end,
    ["an artifact"] = function()
      artifacts:save { appName = "app", userId = "u", sessionId = "s", filename = "f", part = "lost" }
    end,
    ["the deletion of an artifact"] = function() artifacts:delete(file) end,
    ["a memory"] = function() memory:addSession(new) end,
    ["a backup"] = function() service:backup(folder .. "/copy.db") end,
    -- What these would be answered otherwise was read from a file that has no name any more.
    ["the deletion of a session that is not there"] = function()
      service:deleteSession { appName = "app", userId = "u", sessionId = "nobody" }
    end,
    ["a session that is there already"] = function() checks.create(service) end,
    ["a fork to a session that is there already"] = function() service:fork(session, { at = 1, sessionId = "s" }) end,
    ["another event of an id that is there"] = function()
      checks.append(service, session, { n = 3 }, { id = first.id })
    end,
    ["an append that conflicts"] = function()
      stale.state.n = 3
      service:updateSession(stale)
    end,
  }
  local reads = {
    ["a session"] = function() return checks.get(service) end,
    ["the events of an invocation"] = function() return service:rewind(session, { invocationId = "two" }) end,
    ["an export"] = function() return service:export(session)() end,
    ["a list"] = function() return service:listSessions { appName = "app" } end,
    ["a refresh"] = function() return service:refresh(session) end,
    ["an artifact's versions"] = function() return artifacts:versions(file) end,
    ["an artifact"] = function() return artifacts:load(file) end,
    ["memories"] = function() return memory:searchMemory { appName = "app", userId = "u", query = "x" } end,
  }

  local function expectAllRefused(code, says)
    for what, write in pairs(writes) do
      local ok, err = pcall(write)
      assert.is_false(ok, what .. " was acknowledged")
      assert(err.code == code, what .. ": " .. tostring(err))
      for _, words in ipairs(says) do assert(err.message:find(words, 1, true), what .. ": " .. tostring(err)) end
    end
    for what, read in pairs(reads) do
      local ok, err = pcall(read)
      assert.is_false(ok, "the reading of " .. what .. " was answered")
      assert(err.code == code, what .. ": " .. tostring(err))
      for _, words in ipairs(says) do assert(err.message:find(words, 1, true), what .. ": " .. tostring(err)) end
    end
    assert.is_false(exists(folder .. "/copy.db"))
  end

  local function expectUntouched()
    assert.are.equal(1, session.revision)
    local found = checks.get(service)
    assert.are.equal(1, found.revision)
    assert.are.same({ n = 1 }, found.state:getAll())
    assert.are.same({}, service:getUserState { appName = "app", userId = "u" })
    assert.are.same({}, service:getAppState { appName = "app" })
    assert.are.equal(1, #service:listSessions { appName = "app" })
    assert.are.same({ 0 }, artifacts:versions(file))
  end

  describe("that is moved away", function()
    before_each(function() shell("mv %s %s", quote(path), quote(folder .. "/away.db")) end)

    it("is `storage` for every call, which names it and says so, and changes nothing", function()
      expectAllRefused("storage", { path, "has been deleted or moved" })
      assert.is_false(exists(path))
      shell("mv %s %s", quote(folder .. "/away.db"), quote(path))
      expectUntouched()
    end)

    it("works again when it is moved back; pending writes are still pending", function()
      session.state.pending = true
      raises("storage", path, service.updateSession, service, session)
      shell("mv %s %s", quote(folder .. "/away.db"), quote(path))
      service:updateSession(session)
      checks.append(service, session, { n = 2 })
      assert.are.same({ n = 2, pending = true }, checks.get(service).state:getAll())
      artifacts:save { appName = "app", userId = "u", sessionId = "s", filename = "f", part = "after" }
      assert.are.same({ 0, 1 }, artifacts:versions(file))
      assert.are.equal("ok", otherProcess())
    end)

    it("is the file that it was after the service is closed", function()
      raises("storage", path, checks.append, service, session, { n = 2 })
      service:close()
      artifacts:close()
      memory:close()
      shell("mv %s %s", quote(folder .. "/away.db"), quote(path))
      service = moonpad.open(url)
      assert.are.same({ n = 1 }, checks.get(service).state:getAll())
    end)
  end)

  it("that is deleted is `storage`, and is not made anew", function()
    shell("rm %s", quote(path))
    expectAllRefused("storage", { path, "has been deleted or moved" })
    service:close()
    artifacts:close()
    memory:close()
    assert.is_false(exists(path))
  end)

  it("whose folder is moved is `storage`", function()
    shell("mv %s %s", quote(folder), quote(folder .. "-away"))
    raises("storage", { path, "has been deleted or moved" }, checks.append, service, session, { n = 2 })
    shell("mv %s %s", quote(folder .. "-away"), quote(folder))
    checks.append(service, session, { n = 2 })
  end)

  -- What an operator does who restores a backup, with the log of the former file left where it was,
  -- or not.
  for _, left in ipairs { true, false } do
    local log = left and "left behind" or "removed"
    it(("that is replaced, its log %s, stays as it was put there"):format(log), function()
      local other = folder .. "/other.db"
      do
        local restored <close> = moonpad.open("sqlite:" .. other)
        checks.create(restored, "new")
      end
      if not left then shell("rm %s-wal %s-shm", quote(path), quote(path)) end
      shell("mv %s %s", quote(other), quote(path))
      local content = bytes(path)
      expectAllRefused("storage", { path, "another file" })
      service:close()
      artifacts:close()
      memory:close()
      assert.is_true(bytes(path) == content, "the new file was written to")
      if not left then
        service = moonpad.open(url)
        assert.are.equal(1, #service:listSessions { appName = "app" })
        assert.are.equal("new", service:listSessions { appName = "app" }[1].id)
      end
    end)
  end

  local function closeAll()
    service:close()
    artifacts:close()
    memory:close()
  end

  local function ids(of)
    local found = {}
    for i, one in ipairs(of:listSessions { appName = "app" }) do found[i] = one.id end
    table.sort(found)
    return found
  end

  local function size(of)
    local found <close> = assert(io.open(of))
    return found:seek "end"
  end

  describe("that is replaced before it is closed", function()
    local other
    before_each(function()
      other = folder .. "/other.db"
      local made <close> = moonpad.open("sqlite:" .. other)
      checks.create(made, "new")
    end)

    it("leaves an empty log beside the new file, which is opened as it was put there", function()
      checks.append(service, session, { n = 2 })
      shell("mv %s %s", quote(other), quote(path))
      local content = bytes(path)
      raises("storage", { path, "another file" }, checks.append, service, session, { n = 3 })
      closeAll()
      assert.are.equal(0, size(path .. "-wal"))
      assert.is_true(bytes(path) == content, "the new file was written to")
      service = moonpad.open(url)
      assert.are.same({ "new" }, ids(service))
      checks.append(service, checks.get(service, "new"), { n = 1 })
      service:close()
      assert.are.equal("ok", sql(path, "PRAGMA integrity_check"))
      assert.is_false(exists(path .. "-wal"))
    end)

    it("leaves the old file, which has another name now, complete", function()
      local old = folder .. "/old.db"
      checks.append(service, session, { n = 2 })
      shell("mv %s %s && mv %s %s", quote(path), quote(old), quote(other), quote(path))
      closeAll()
      assert.are.equal(0, size(path .. "-wal"))
      service = moonpad.open("sqlite:" .. old)
      assert.are.same({ n = 2 }, checks.get(service).state:getAll())
      service:close()
      assert.are.equal("ok", sql(old, "PRAGMA integrity_check"))
      service = moonpad.open(url)
      assert.are.same({ "new" }, ids(service))
    end)

    -- A process with the old file open: whoever closes it last empties the log.
    it("is left to who has the old file open still", function()
      local helper <close> = holdOpen(url)
      shell("mv %s %s", quote(other), quote(path))
      closeAll()
      assert.is_true(size(path .. "-wal") > 0)
      helper:close()
      assert.are.equal(0, size(path .. "-wal"))
      service = moonpad.open(url)
      assert.are.same({ "new" }, ids(service))
    end)

    -- Too early: it takes the old log for that of the new file. What it writes then is at least not
    -- taken away again.
    it("leaves the log alone when somebody has opened the new file and written to it", function()
      sql(path, "PRAGMA wal_checkpoint") -- so that nothing in the log is read into the new file
      local old = folder .. "/old.db"
      shell("mv %s %s && mv %s %s", quote(path), quote(old), quote(other), quote(path))
      local helper <close> = holdOpen(url)
      local log, content = bytes(path .. "-wal"), bytes(old)
      closeAll()
      assert.is_true(bytes(path .. "-wal") == log, "the log was written to")
      assert.is_true(bytes(old) == content, "the old file was written to")
      helper:close()
      service = moonpad.open(url)
      assert.are.same({ "held", "new" }, ids(service))
    end)
  end)

  it("that is moved away and closed is complete under its new name", function()
    local away = folder .. "/away.db"
    checks.append(service, session, { n = 2 })
    shell("mv %s %s", quote(path), quote(away))
    raises("storage", path, checks.append, service, session, { n = 3 })
    closeAll()
    service = moonpad.open("sqlite:" .. away)
    artifacts = moonpad.artifactService("sqlite:" .. away)
    assert.are.same({ n = 2 }, checks.get(service).state:getAll())
    assert.are.same({ 0 }, artifacts:versions(file))
    assert.are.equal("ok", sql(away, "PRAGMA integrity_check"))
  end)

  it("that is moved away with its log, and closed, is complete under its new name", function()
    local away = folder .. "/away.db"
    checks.append(service, session, { n = 2 })
    for _, suffix in ipairs { "", "-wal", "-shm" } do
      shell("mv %s%s %s%s", quote(path), suffix, quote(away), suffix)
    end
    closeAll()
    service = moonpad.open("sqlite:" .. away)
    assert.are.same({ n = 2 }, checks.get(service).state:getAll())
    assert.are.equal("ok", sql(away, "PRAGMA integrity_check"))
  end)

  it("that somebody has open under another name is not written to when it is closed", function()
    local away = folder .. "/away.db"
    shell("mv %s %s", quote(path), quote(away))
    local helper <close> = holdOpen("sqlite:" .. away)
    local content = bytes(away)
    closeAll()
    assert.is_true(bytes(away) == content, "it was written to")
    helper:close()
    assert.are.equal("ok", sql(away, "PRAGMA integrity_check"))
  end)

  for _, suffix in ipairs { "-wal", "-shm" } do
    describe("whose " .. suffix .. " file is deleted", function()
      before_each(function() shell("rm %s%s", quote(path), suffix) end)

      it("takes no more writes, and loses none that were acknowledged", function()
        for what, write in pairs(writes) do
          local ok, err = pcall(write)
          assert.is_false(ok, what .. " was acknowledged")
          assert(err.code == "storage" and err.message:find(path .. suffix, 1, true), what .. ": " .. tostring(err))
        end
        service:close()
        artifacts:close()
        memory:close()
        service = moonpad.open(url)
        artifacts = moonpad.artifactService(url)
        session = checks.get(service)
        expectUntouched()
      end)

      it("loses nothing that another process has stored since", function()
        local answer = otherProcess()
        raises("storage", path .. suffix, checks.append, service, session, { n = 2 })
        service:close()
        artifacts:close()
        memory:close()
        service = moonpad.open(url)
        if suffix == "-shm" then
          assert.are.equal("ok", answer)
          assert.are.equal(2, #service:listSessions { appName = "app" })
        else
          -- The shared memory speaks of a log that is not there: nobody else gets in.
          assert.truthy(answer:find("storage", 1, true), answer)
        end
        assert.are.equal(1, checks.get(service).state.n)
        assert.are.equal("ok", sql(path, "PRAGMA integrity_check"))
      end)
    end)
  end

  it("whose -wal and -shm files are deleted keeps what another process has stored since", function()
    shell("rm %s-wal %s-shm", quote(path), quote(path))
    assert.are.equal("ok", otherProcess())
    raises("storage", path .. "-wal", checks.append, service, session, { n = 2 })
    service:close()
    artifacts:close()
    memory:close()
    service = moonpad.open(url)
    assert.are.equal(1, service:getAppState { appName = "app" }.n)
    assert.are.equal("ok", sql(path, "PRAGMA integrity_check"))
  end)

  -- None of these gives a file of the three another number.
  it("that others look into, write to, pack and close goes on", function()
    for _, statement in ipairs { "SELECT count(*) FROM events", "PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM",
      "PRAGMA journal_mode = DELETE", ".backup " .. folder .. "/copy.db" } do
      sql(path, statement)
      checks.append(service, session, { n = statement })
      assert.are.equal(statement, checks.get(service).state.n)
      artifacts:save { appName = "app", userId = "u", sessionId = "s", filename = "g", part = statement }
    end
    assert.are.equal("ok", otherProcess())
    checks.append(service, session, { n = "last" })
    artifacts:close()
    memory:close()
    checks.append(service, session, { n = "alone" })
    service:backup(folder .. "/backup.db")
  end)

  it("that a newer version has taken over is `unsupported` for every call, and is left alone", function()
    sql(path, "PRAGMA user_version = 3")
    local content = sql(path, ".dump")
    expectAllRefused("unsupported", { path, "newer moonpad", "schema 3" })
    assert.are.equal(content, sql(path, ".dump"))
    sql(path, "PRAGMA user_version = 2")
    expectUntouched()
    checks.append(service, session, { n = 2 })
  end)
end)
