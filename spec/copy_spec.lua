-- Copying a whole store to another one: between any two, again and again, and what stands in the
-- way.
local checks = require "spec.support.checks"
local copy = require "moonpad.services.copy"
local core = require "moonpad.core"
local moonpad = require "moonpad"
local support = require "spec.support"
local turns = require "spec.support.turns"

local raises = checks.raises

-- The latter is more than one page of each.
local FEW <const>, MANY <const> = 3, 103

local opened = {}

local function open(url)
  local config = { durability = "normal" }
  local stores = {
    sessions = moonpad.open(url, config), artifacts = moonpad.artifactService(url, config),
    memory = moonpad.memoryService(url, config),
  }
  opened[#opened + 1] = stores
  return stores
end

local function closeAll()
  for index = #opened, 1, -1 do
    for _, service in pairs(opened[index]) do service:close() end
    opened[index] = nil
  end
end

local STORES = support.withServers {
  { name = "memory:", url = function() return "memory:" end },
  { name = "sqlite:PATH", url = function() return support.freshUrl "sqlite:FILE" end },
}

local NAMES <const> = { "ann", "'; DROP TABLE sessions; --", "é/漢 %", ("n"):rep(255) }

local function say(sessions, session, text, delta)
  sessions:appendEvent(session, {
    author = "user", content = { role = "user", parts = { { text = text } } }, actions = { stateDelta = delta },
  })
end

-- A life of everything, of some kinds `many` times: names of all kinds, state of all scopes,
-- history that was trimmed, rewound and forked, users without sessions, files and memories of which
-- some were deleted.
local function live(stores, many)
  local sessions, artifacts, memory = stores.sessions, stores.artifacts, stores.memory
  for index, name in ipairs(NAMES) do
    local who = { appName = "shop " .. index, userId = name, sessionId = name }
    local session = sessions:createSession { appName = who.appName, userId = name, sessionId = name, state = {
      n = index, ["user:list"] = core.array {}, ["app:exact"] = math.mininteger, float = 1.0, nothing = core.null,
    } }
    say(sessions, session, "green tea " .. index, { n = 7, ["user:k\0ey"] = { a = { 1 / 3 } } })
    say(sessions, session, "black coffee", { gone = true })
    session.state.gone = nil
    sessions:updateSession(session)
    sessions:rewind(session, { revision = 1 })
    sessions:fork(session, { at = 2, sessionId = "fork of " .. index })
    memory:addSession(session)
    local found = memory:searchMemory { appName = who.appName, userId = name, query = "green" }.memories
    if index == 2 then
      memory:deleteMemory { appName = who.appName, userId = name, memoryId = found[1].id }
    end
    who.filename = "a.txt"
    who.part = "one\0"
    artifacts:save(who)
    who.part = { inlineData = { mimeType = "image/png", data = "\0\255", displayName = "é" } }
    artifacts:save(who)
    who.filename = "user:shared"
    artifacts:save(who)
  end
  sessions:updateUserState { appName = "empty", userId = "alone", state = { k = { "v" } } }
  artifacts:save { appName = "only files", userId = "u", filename = "user:f", part = "x" }
  for index = 1, many do
    sessions:createSession { appName = "many", userId = "u", sessionId = "s" .. index }
    artifacts:save { appName = "many", userId = "u", filename = "user:f" .. index, part = tostring(index) }
  end
  local session = sessions:getSession { appName = "many", userId = "u", sessionId = "s1" }
  for index = 1, many do say(sessions, session, "word" .. index) end
  memory:addSession(session)
end

-- All that can be seen of it.
local function described(stores)
  local list = {}
  local function add(...) list[#list + 1] = core.json.encode(core.array { ... }) end
  local apps = core.listApps(stores.sessions)
  table.sort(apps)
  for _, appName in ipairs(apps) do
    add(appName, stores.sessions:getAppState { appName = appName })
    local users = core.listUsers(stores.sessions, appName)
    table.sort(users)
    for _, userId in ipairs(users) do
      local who = { appName = appName, userId = userId }
      add(userId, stores.sessions:getUserState(who))
      add("files", core.array(stores.artifacts:list(who)))
      for _, query in ipairs { "green tea", "coffee", "word" .. FEW, "word" .. MANY } do
        local found = stores.memory:searchMemory { appName = appName, userId = userId, query = query }.memories
        for _, each in ipairs(found) do each.id = nil end
        add(query, found)
      end
    end
    for _, session in ipairs(stores.sessions:listSessions { appName = appName }) do
      for line in stores.sessions:export(session) do list[#list + 1] = line end
      add(session.lastUpdateTime, session.state:getAll())
      local name = { appName = appName, userId = session.userId, sessionId = session.id }
      for _, filename in ipairs(stores.artifacts:list(name)) do
        name.filename = filename
        for _, version in ipairs(stores.artifacts:versions(name)) do
          name.version = version
          local part = stores.artifacts:load(name)
          add(filename, version, part.text or "", part.inlineData and part.inlineData.data:gsub("\255", "?") or "")
        end
        name.version = nil
      end
    end
  end
  return list
end

describe("copying a store", function()
  after_each(function()
    closeAll()
    support.cleanup()
  end)

  -- A source with `many` of some kinds, to each of these stores.
  local function copyTo(targets, source, many)
    local from = open(source.url())
    live(from, many)
    local before = described(from)
    for _, target in ipairs(targets) do
      local to = open(target.url())
      local counts = copy.all(from, to)
      assert.same(before, described(to))
      assert.same({
        apps = #NAMES + 2, users = #NAMES + 2, sessions = 2 * #NAMES + many, files = 2 * #NAMES + 1 + many,
        memories = #NAMES - 1 + many,
        copied = { sessions = counts.sessions, files = counts.files, memories = counts.memories },
      }, counts)
      -- What was deleted by its id is not remembered again.
      local who = { appName = "shop 2", userId = NAMES[2], sessionId = NAMES[2] }
      to.memory:addSession(to.sessions:getSession(who))
      assert.same({}, to.memory:searchMemory({ appName = "shop 2", userId = NAMES[2], query = "green" }).memories)
      local again = copy.all(from, to)
      assert.same({ sessions = 0, files = 0, memories = 0 }, again.copied)
      again.copied, counts.copied = nil, nil
      assert.same(counts, again)
    end
    assert.same(before, described(from))
  end

  for index, source in ipairs(STORES) do
    local isDue = turns.isSampleDue(index, #STORES)
    turns.it("takes everything to every store, from " .. source.name, isDue, function()
      copyTo(STORES, source, FEW)
    end)

    local target = STORES[index % #STORES + 1]
    local name = ("takes many of everything from %s to %s"):format(source.name, target.name)
    turns.it(name, isDue and turns.isTimeFor(name), function()
      copyTo({ target }, source, MANY)
    end)
  end

  describe("that was begun before", function()
    local from, to, session

    before_each(function()
      from, to = open "memory:", open(support.freshUrl "sqlite:FILE")
      session = from.sessions:createSession {
        appName = "app", userId = "u", sessionId = "s", state = { ["user:k"] = 1 },
      }
      say(from.sessions, session, "green tea")
      from.memory:addSession(session)
      from.artifacts:save { appName = "app", userId = "u", sessionId = "s", filename = "f", part = "one" }
      copy.all(from, to)
    end)

    local function copied() return copy.all(from, to).copied end

    it("goes on with what is missing", function()
      to.sessions:deleteSession { appName = "app", userId = "u", sessionId = "s" }
      assert.same({ sessions = 1, files = 0, memories = 0 }, copied())
      to.memory:deleteUser { appName = "app", userId = "u" }
      assert.same({ sessions = 0, files = 0, memories = 1 }, copied())
      from.artifacts:save { appName = "app", userId = "u", sessionId = "s", filename = "f", part = "two" }
      assert.same({ sessions = 0, files = 1, memories = 0 }, copied())
      assert.same({ 0, 1 }, to.artifacts:versions { appName = "app", userId = "u", sessionId = "s", filename = "f" })
      from.sessions:updateUserState { appName = "app", userId = "u", state = { more = 2 } }
      copied()
      assert.same({ k = 1, more = 2 }, to.sessions:getUserState { appName = "app", userId = "u" })
      assert.same({ sessions = 0, files = 0, memories = 0 }, copied())
    end)

    it("forgets what has been forgotten", function()
      for _, text in ipairs { "two", "three" } do say(from.sessions, session, text) end
      from.memory:addSession(session)
      copied()
      from.sessions:rewind(session, { revision = 1 })
      for _, text in ipairs { "four", "five" } do say(from.sessions, session, text) end
      from.memory:addSession(session)
      assert.same({ sessions = 1, files = 0, memories = 2 }, copied())
      local who = { appName = "app", userId = "u", query = "green two three four five" }
      assert.equal(3, #to.memory:searchMemory(who).memories)
      assert.same(described(from), described(to))
      assert.same({ sessions = 0, files = 0, memories = 0 }, copied())
    end)

    it("takes a session anew that has grown", function()
      say(from.sessions, session, "black tea", { n = 2 })
      from.memory:addSession(session)
      assert.same({ sessions = 1, files = 0, memories = 1 }, copied())
      assert.same(described(from), described(to))
    end)

    it("leaves alone what is another one there", function()
      local there = to.sessions:getSession { appName = "app", userId = "u", sessionId = "s" }
      say(to.sessions, there, "something else")
      local before = described(to)
      raises("already_exists", { '"s" of "u" of "app"', "nothing of it was changed" }, copy.all, from, to)
      say(from.sessions, session, "and here, too")
      raises("already_exists", '"s" of "u" of "app"', copy.all, from, to)
      assert.same(before, described(to))
    end)

    it("leaves alone a session of the same name", function()
      local name = { appName = "app", userId = "u", sessionId = "s" }
      to.sessions:deleteSession(name)
      to.sessions:createSession(name)
      raises("already_exists", "another session", copy.all, from, to)
    end)

    it("leaves alone another state, another file, another memory", function()
      to.sessions:updateUserState { appName = "app", userId = "u", state = { k = 2, own = true } }
      raises("already_exists", { '"u" of "app"', '"k"' }, copy.all, from, to)
      assert.same({ k = 2, own = true }, to.sessions:getUserState { appName = "app", userId = "u" })
      to.sessions:updateUserState { appName = "app", userId = "u", state = { k = 1 } }
      copied()
      local file = { appName = "app", userId = "u", sessionId = "s", filename = "f" }
      to.artifacts:delete(file)
      file.part = "another"
      to.artifacts:save(file)
      raises("already_exists", 'version 0 of the file "f" of "u" of "app"', copy.all, from, to)
      file.part = nil
      to.artifacts:delete(file)
      copied()
      file.part = "more"
      to.artifacts:save(file)
      raises("already_exists", "has 2 versions there, and 1 here", copy.all, from, to)
    end)
  end)
end)
