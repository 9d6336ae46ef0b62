--- The error cases that users meet, one row each: what they did, the code of the error, what its
--- message says (plain text) and the call itself.
-- `run` gets a kit: `service` (open, on the store under test), `session` (app "app", user "u",
-- session "s", state { k = "value", cart = { "tea" }, n = 1 }), `folder` (empty, removed
-- afterwards) and `moonpad`. Rows with `file = true` are about SQLite files: they need no other
-- store. spec/errors_spec.lua runs every row; docs/lua.md shows the table.

---@class moonpad.ErrorCase
---@field what string what the user did
---@field code string
---@field says string a part of the message
---@field run fun(kit: table) the call that raises
---@field file boolean?

local function name(fields)
  local all = { appName = "app", userId = "u", sessionId = "s" }
  for key, value in pairs(fields or {}) do all[key] = value end
  return all
end

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
  return path
end

local function delta(values)
  return { author = "agent", actions = { stateDelta = values } }
end

local function cycle()
  local value = {}
  value.self = value
  return value
end

local function nested(depth)
  local value = {}
  for _ = 2, depth do value = { value } end
  return value
end

---@type moonpad.ErrorCase[]
return {
  -- Values
  { what = "assign a function", code = "invalid_argument", says = 'state["cart"][2].run: a function cannot be stored',
    run = function(kit) kit.session.state.cart = { "tea", { run = print } } end },
  { what = "assign a coroutine", code = "invalid_argument", says = 'state["job"]',
    run = function(kit) kit.session.state.job = coroutine.create(print) end },
  { what = "assign a file or another foreign object", code = "invalid_argument", says = 'state["log"].file',
    run = function(kit) kit.session.state.log = { file = io.stdout } end },
  { what = "assign a table that holds itself", code = "invalid_argument", says = 'state["tree"].self',
    run = function(kit) kit.session.state.tree = cycle() end },
  { what = "assign an array with a hole", code = "invalid_argument", says = 'state["list"]',
    run = function(kit) kit.session.state.list = { 1, nil, 3 } end },
  { what = "assign a table with items and fields", code = "invalid_argument", says = 'state["mixed"]',
    run = function(kit) kit.session.state.mixed = { 1, 2, name = "x" } end },
  { what = "assign a table with a key that is no string", code = "invalid_argument", says = 'state["map"]',
    run = function(kit) kit.session.state.map = { [true] = 1 } end },
  { what = "assign NaN", code = "invalid_argument", says = "NaN",
    run = function(kit) kit.session.state.x = 0 / 0 end },
  { what = "assign an infinity", code = "invalid_argument", says = 'state["x"]',
    run = function(kit) kit.session.state.x = math.huge end },
  { what = "assign text that is no UTF-8", code = "invalid_argument", says = "UTF-8",
    run = function(kit) kit.session.state.x = "caf\xe9" end },
  { what = "nest tables deeper than 128", code = "invalid_argument", says = "128",
    run = function(kit) kit.session.state.deep = nested(129) end },
  { what = "use a key longer than 1,024 bytes", code = "invalid_argument", says = "1024",
    run = function(kit) kit.session.state[("k"):rep(1025)] = 1 end },
  { what = "use a number as a key", code = "invalid_argument", says = "string",
    run = function(kit) kit.session.state[1] = "x" end },
  { what = "use a key that is no UTF-8", code = "invalid_argument", says = "UTF-8",
    run = function(kit) kit.session.state["\xff"] = 1 end },
  { what = "pass a function in an event", code = "invalid_argument", says = "a function cannot be stored",
    run = function(kit) kit.service:appendEvent(kit.session, delta { cart = { print } }) end },

  -- State proxy and nodes
  { what = "assign to the name of a method", code = "invalid_argument", says = "set",
    run = function(kit) kit.session.state.get = 1 end },
  { what = "make a hole in an array", code = "invalid_argument", says = "hole",
    run = function(kit) table.insert(kit.session.state.cart, "milk"); kit.session.state.cart[1] = nil end },
  { what = "write a field of an array", code = "invalid_argument", says = 'state["cart"]',
    run = function(kit) kit.session.state.cart.total = 1 end },
  { what = "write to a node that was replaced", code = "invalid_argument", says = "has been replaced or removed",
    run = function(kit) local cart = kit.session.state.cart; kit.session.state.cart = {}; cart[1] = "x" end },
  { what = "increment what is no number", code = "invalid_argument", says = "k",
    run = function(kit) kit.session.state:increment "k" end },
  { what = "increment beyond 64 bits", code = "invalid_argument", says = "n",
    run = function(kit) kit.session.state:increment("n", math.maxinteger) end },
  { what = "append to what is no array", code = "invalid_argument", says = "k",
    run = function(kit) kit.session.state:append("k", 1) end },
  { what = "look at a state in which somebody else has put text under a pending increment", code = "invalid_argument",
    says = 'state["n"]: holds a string, which cannot be incremented: the value has been changed since this increment '
      .. 'was written here; assign or delete the key',
    run = function(kit)
      kit.session.state:increment "n"
      local other = kit.service:getSession(name())
      other.state.n = "one"
      kit.service:updateSession(other)
      kit.service:refresh(kit.session).state:getAll()
    end },

  -- Calls
  { what = "call a method of a service with a dot", code = "invalid_argument", says = "service:getSession",
    run = function(kit) kit.service.getSession(name()) end },
  { what = "call a method of a state with a dot", code = "invalid_argument", says = "state:get",
    run = function(kit) kit.session.state.get "k" end },
  { what = "misspell an argument", code = "invalid_argument", says = "sesionId: unknown field, did you mean sessionId?",
    run = function(kit) kit.service:createSession { appName = "app", userId = "u", sesionId = "x" } end },
  { what = "write an argument with underscores", code = "invalid_argument", says = "did you mean userId?",
    run = function(kit) kit.service:getUserState { appName = "app", user_id = "u" } end },
  { what = "misspell an option of open", code = "invalid_argument", says = "did you mean durability?",
    run = function(kit) kit.moonpad.open("memory:", { durabilty = "full" }) end },
  { what = "leave out an argument", code = "invalid_argument", says = "appName",
    run = function(kit) kit.service:getSession { userId = "u", sessionId = "s" } end },
  { what = "give an empty user", code = "invalid_argument", says = "userId",
    run = function(kit) kit.service:getSession(name { userId = "" }) end },
  { what = "give a name longer than 255 bytes", code = "invalid_argument", says = "255",
    run = function(kit) kit.service:createSession(name { userId = ("x"):rep(256) }) end },
  { what = "give a name with a NUL", code = "invalid_argument", says = "appName",
    run = function(kit) kit.service:createSession(name { appName = "a\0b" }) end },
  { what = "ask for a negative number of events", code = "invalid_argument", says = "numRecentEvents",
    run = function(kit) kit.service:getSession(name { numRecentEvents = -1 }) end },
  { what = "give what is no session", code = "invalid_argument", says = "session",
    run = function(kit) kit.service:appendEvent("s", { author = "agent" }) end },

  -- Events
  { what = "write a field of an event with underscores", code = "invalid_argument", says = "stateDelta",
    run = function(kit) kit.service:appendEvent(kit.session, { author = "agent",
      actions = { state_delta = { k = 1 } } }) end },
  { what = "put stateDelta beside actions", code = "invalid_argument", says = "actions",
    run = function(kit) kit.service:appendEvent(kit.session, { author = "agent", stateDelta = { k = 1 } }) end },

  -- What is there and what is not
  { what = "append to a session that was deleted", code = "not_found", says = "s",
    run = function(kit) kit.service:deleteSession(name()); kit.service:appendEvent(kit.session,
      { author = "agent" }) end },
  { what = "refresh a session that was deleted", code = "not_found", says = "s",
    run = function(kit) kit.service:deleteSession(name()); kit.service:refresh(kit.session) end },
  { what = "look at a revision that is not there", code = "not_found", says = "99",
    run = function(kit) kit.service:stateAt(kit.session, 99) end },
  { what = "fork at a revision that is not there", code = "not_found", says = "99",
    run = function(kit) kit.service:fork(kit.session, { at = 99 }) end },
  { what = "rewind an invocation that is not there", code = "not_found", says = "no such run",
    run = function(kit) kit.service:rewind(kit.session, { invocationId = "no such run" }) end },
  { what = "create a session that exists", code = "already_exists", says = "s",
    run = function(kit) kit.service:createSession(name()) end },
  { what = "append another event with the id of an earlier one", code = "already_exists", says = "e1",
    run = function(kit)
      kit.service:appendEvent(kit.session, { id = "e1", author = "agent" })
      kit.service:appendEvent(kit.session, { id = "e1", author = "somebody" })
    end },
  { what = "overwrite what somebody else has changed", code = "conflict", says = "k",
    run = function(kit)
      kit.service:appendEvent(kit.service:getSession(name()), delta { k = "theirs" })
      kit.session.state.k = "mine"
      kit.service:updateSession(kit.session)
    end },
  { what = "use a service that was closed", code = "closed", says = "closed",
    run = function(kit) kit.service:close(); kit.service:getSession(name()) end },

  -- Templates
  { what = "name a key in a template that is not there", code = "template", says = "missing",
    run = function(kit) kit.moonpad.injectSessionState("Hello {missing}", kit.session.state) end },
  { what = "name a user key in a template that is not there", code = "template", says = "user:missing",
    run = function(kit) kit.moonpad.injectSessionState("Hello <user:missing>", kit.session.state) end },

  -- Stores
  { what = "open an unknown scheme", code = "unsupported", says = "sqlite:",
    run = function(kit) kit.moonpad.open "mongodb://joe:secret@host/db" end },
  { what = "open a file that is no database", code = "corrupt", says = "notes.txt", file = true,
    run = function(kit) kit.moonpad.open("sqlite:" .. write(kit.folder .. "/notes.txt",
      ("These are my notes.\n"):rep(100))) end },
  { what = "open a short file that is no database", code = "corrupt", says = "short.txt", file = true,
    run = function(kit) kit.moonpad.open("sqlite:" .. write(kit.folder .. "/short.txt", "Notes")) end },
  { what = "open a file below a file", code = "storage", says = "notes.txt", file = true,
    run = function(kit) kit.moonpad.open("sqlite:" .. write(kit.folder .. "/notes.txt", "Notes") .. "/test.db") end },
  { what = "open a file in a folder that is not there", code = "storage", says = "no such folder", file = true,
    run = function(kit) kit.moonpad.open("sqlite:" .. kit.folder .. "/no such folder/test.db") end },
  { what = "open a file where none can be made", code = "storage", says = "/proc/moonpad.db", file = true,
    run = function(kit) kit.moonpad.open "sqlite:/proc/moonpad.db" end },
  { what = "open a folder", code = "storage", says = "/", file = true,
    run = function(kit) kit.moonpad.open("sqlite:" .. kit.folder) end },
  { what = "open a file of a newer version", code = "unsupported", says = "newer", file = true,
    run = function(kit)
      local path = kit.folder .. "/newer.db"
      kit.moonpad.open("sqlite:" .. path):close()
      assert(os.execute("sqlite3 '" .. path .. "' 'PRAGMA user_version = 1000000'"))
      kit.moonpad.open("sqlite:" .. path)
    end },
  { what = "open another program's database", code = "corrupt", says = "other.db", file = true,
    run = function(kit)
      local path = kit.folder .. "/other.db"
      assert(os.execute("sqlite3 '" .. path .. "' 'CREATE TABLE sessions (id TEXT, mine TEXT)'"))
      kit.moonpad.open("sqlite:" .. path)
    end },
  { what = "back a store in memory up", code = "unsupported", says = "backup",
    run = function(kit)
      local service <close> = kit.moonpad.open "memory:"
      service:backup(kit.folder .. "/copy.db")
    end },
  { what = "back up into a folder that is not there", code = "storage", says = "no such folder", file = true,
    run = function(kit)
      local service <close> = kit.moonpad.open("sqlite:" .. kit.folder .. "/test.db")
      service:backup(kit.folder .. "/no such folder/copy.db")
    end },

  -- JSON
  { what = "decode what is no JSON", code = "invalid_argument", says = "byte",
    run = function(kit) kit.moonpad.json.decode '{"a": oops}' end },
  { what = "encode a function", code = "invalid_argument", says = "a function",
    run = function(kit) kit.moonpad.json.encode { run = print } end },
}
