-- `moonpad forget`: afterwards no byte of a user is in the file, its WAL or its shared memory, and
-- what belongs to others is untouched.
local files = require "spec.support.files"
local moonpad = require "moonpad"
local support = require "spec.support"

local quote, read = support.quote, files.read

-- Each of a user's bytes is in one of these words.
local function wordsOf(user)
  return {
    id = user .. "-id", name = user .. "-name", key = user .. "-key", session = user .. "-session",
    said = user .. "said", answered = user .. "answered", filename = user .. "-file.txt", bytes = user .. "-bytes",
    text = user .. "-text", shared = user .. "-shared",
  }
end

local function live(url, words)
  local service <close> = moonpad.open(url)
  local artifacts <close> = moonpad.artifactService(url)
  local memory <close> = moonpad.memoryService(url)
  local session = service:createSession {
    appName = "shop", userId = words.id, sessionId = words.session, state = { ["user:" .. words.key] = words.name },
  }
  for n = 1, 40 do
    service:appendEvent(session, {
      author = "user", content = { role = "user", parts = { { text = words.said .. " number" .. n } } },
      actions = { stateDelta = { [words.key .. n] = words.name:rep(50) } },
    })
  end
  service:appendEvent(session, {
    author = "bot", content = { role = "model", parts = { { text = words.answered } } },
  })
  memory:addSession(session)
  local name = { appName = "shop", userId = words.id, sessionId = words.session, filename = words.filename }
  name.part = words.text
  artifacts:save(name)
  name.part = { inlineData = { mimeType = "application/x", data = words.bytes:rep(2000) } }
  artifacts:save(name)
  name.filename, name.part = "user:" .. words.shared, words.text
  artifacts:save(name)
end

-- The words that are in the files of a database. They are read by another process: closing a file
-- here would give up the locks that SQLite holds on it.
local function found(db, words)
  local list = {}
  local copy = support.tmpdir() .. "/all"
  assert(os.execute(("cat %s* > %s"):format(quote(db), quote(copy))))
  local all = read(copy)
  for what, word in pairs(words) do
    if all:lower():find(word:lower(), 1, true) then list[#list + 1] = what end
  end
  table.sort(list)
  return list
end

local function sorted(words)
  local list = {}
  for what in pairs(words) do list[#list + 1] = what end
  table.sort(list)
  return list
end

describe("moonpad forget", function()
  local folder, db, url
  local ann, bob = wordsOf "annzqx", wordsOf "bobwvk"

  before_each(function()
    folder = support.tmpdir()
    db = folder .. "/state.db"
    url = "sqlite:" .. db
  end)
  after_each(support.cleanup)

  local function forget(user)
    local _, _, code = os.execute(("bin/moonpad forget %s --app shop --user %s > %s 2>&1"):format(quote(db), user,
      quote(folder .. "/out")))
    return code, read(folder .. "/out")
  end

  local function shell(sql)
    local pipe <close> = assert(io.popen(("sqlite3 %s %s"):format(quote(db), quote(sql))))
    return pipe:read "a"
  end

  it("leaves no byte of the user in the file, and all of the others", function()
    live(url, ann)
    live(url, bob)
    assert.same(sorted(ann), found(db, ann))
    local code, said = forget(ann.id)
    assert.equal(0, code, said)
    assert.matches("^Forgot 1 session, 2 files and 41 memories of user", said)
    assert.same({}, found(db, ann))
    assert.same(sorted(bob), found(db, bob))
    -- Where SQLite is built to write zeros over what is deleted, bytes alone would not tell.
    assert.equal("0\n", shell "PRAGMA freelist_count")
    assert.equal("ok\n", shell "PRAGMA integrity_check")
    assert.equal("", shell "INSERT INTO memory_text(memory_text) VALUES('integrity-check')")
    local memory <close> = moonpad.memoryService(url)
    local matches = memory:searchMemory { appName = "shop", userId = bob.id, query = bob.said, limit = 100 }.memories
    assert.equal(40, #matches)
    local service <close> = moonpad.open(url)
    local session = service:getSession { appName = "shop", userId = bob.id, sessionId = bob.session }
    assert.equal(41, #session.events)
    assert.equal(bob.name, session.state["user:" .. bob.key])
  end)

  it("takes the WAL of programs that have the file open along #together", function()
    live(url, bob)
    local service <close> = moonpad.open(url)
    service:getUserState { appName = "shop", userId = bob.id }
    live(url, ann)
    assert.same(sorted(ann), found(db, ann))
    local code, said = forget(ann.id)
    assert.equal(0, code, said)
    assert.same({}, found(db, ann))
    -- They go on.
    local session = service:getSession { appName = "shop", userId = bob.id, sessionId = bob.session }
    service:appendEvent(session, { author = "user", actions = { stateDelta = { after = 1 } } })
    assert.equal("42\n", shell "SELECT count(*) FROM events")
  end)

  it("says that bytes may be left while another program reads, and is run again #together", function()
    live(url, ann)
    live(url, bob)
    local note = folder .. "/reading"
    local reader = assert(io.popen("sqlite3 " .. quote(db), "w"))
    reader:write("BEGIN;\nSELECT count(*) FROM sqlite_schema;\n.once ", quote(note), "\nSELECT 1;\n")
    reader:flush()
    support.waitUntil("the reader", function()
      local file = io.open(note)
      return file and file:close()
    end)
    local code, said = forget(ann.id)
    reader:write "COMMIT;\n.quit\n"
    reader:close()
    assert.equal(1, code, said)
    assert.matches("Forgot 1 session", said, 1, true)
    assert.matches("another program reads it", said, 1, true)
    assert.matches("run this again", said, 1, true)
    code, said = forget(ann.id)
    assert.equal(0, code, said)
    assert.matches("^Forgot 0 sessions, 0 files and 0 memories of user", said)
    assert.same({}, found(db, ann))
    assert.same(sorted(bob), found(db, bob))
  end)
end)
