-- No call of one app, user or session reaches what another one has, whatever they are called
-- (contract 2).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local NAMES = checks.chosen(require "spec.support.hostile_names")
local raises = checks.raises

-- Whose names are hostile, and what everybody else has in common.
local ROLES = {
  appName = function(name) return { appName = name, userId = "u", sessionId = "s" } end,
  userId = function(name) return { appName = "app", userId = name, sessionId = "s" } end,
  sessionId = function(name) return { appName = "app", userId = "u", sessionId = name } end,
}

local STORES = support.withServers {
  { name = "memory:", url = function() return "memory:" end },
  { name = "sqlite:", url = function() return "sqlite:" .. support.tmpdir() .. "/test.db" end },
}

local function with(name, more)
  local options = {}
  for key, value in pairs(name) do options[key] = value end
  for key, value in pairs(more) do options[key] = value end
  return options
end

local function without(name, field)
  local options = with(name, {})
  options[field] = nil
  return options
end

local function trimmed(name)
  return name:match "^[ \t\r\n]*(.-)[ \t\r\n]*$"
end

-- The hostile names that are different in this role: a session's id loses its blanks.
local function namesFor(role)
  local list, seen = {}, {}
  for _, name in ipairs(NAMES) do
    if role == "sessionId" then name = trimmed(name) end
    if not seen[name] then
      seen[name] = true
      list[#list + 1] = name
    end
  end
  return list
end

for _, store in ipairs(STORES) do
  describe("on " .. store.name, function()
    local service, artifacts, memory
    before_each(function()
      local url = store.url()
      service = moonpad.open(url, { durability = "normal" })
      artifacts = moonpad.artifactService(url, { durability = "normal" })
      memory = moonpad.memoryService(url, { durability = "normal" })
    end)
    after_each(function()
      memory:close()
      artifacts:close()
      service:close()
      support.cleanup()
    end)

    -- What one of them has; all of it says `mark`.
    local function fill(name, mark)
      local session = service:createSession(with(name, { state = { k = mark, list = { mark } } }))
      service:appendEvent(session, { id = "e", invocationId = "i", author = "user",
        content = { role = "user", parts = { { text = "secret word" .. mark } } },
        actions = { stateDelta = { own = mark } } })
      artifacts:save(with(name, { filename = "f", part = "file " .. mark }))
      memory:addSession(session)
    end

    -- All of the calls that change something, by this one alone.
    local function work(name, mark)
      local session = service:getSession(name)
      session.state.own = mark .. " again"
      session.state:increment "count"
      session.state:append("list", mark)
      service:updateSession(session)
      local fork = service:fork(session, { at = 1, sessionId = "fork of " .. mark })
      assert.are.equal(mark, fork.state.own)
      assert.are.equal("secret word" .. mark, fork.events[1]:text())
      checks.append(service, fork, { own = "fork" }, { id = "e2", invocationId = "i" })
      service:rewind(fork, { invocationId = "i" })
      assert.is_nil(fork.state.own)
      assert.is_true(service:deleteSession { appName = fork.appName, userId = fork.userId, sessionId = fork.id })
      service:rewind(session, { invocationId = "i" })
      local copy = service:import { lines = service:export(session), sessionId = "copy of " .. mark }
      assert.are.equal(name.userId, copy.userId)
      assert.are.same(session.state:getAll(), copy.state:getAll())
      assert.is_true(service:deleteSession { appName = copy.appName, userId = copy.userId, sessionId = copy.id })
      assert.are.equal(1, artifacts:save(with(name, { filename = "f", part = "newer " .. mark })))
      artifacts:save(with(name, { filename = "gone", part = "x" }))
      artifacts:delete(with(name, { filename = "gone" }))
    end

    local function expectOwn(name, mark)
      local session = service:getSession(name)
      assert.are.same({ k = mark, list = { mark } }, session.state:getAll())
      assert.are.equal(3, session.revision)
      assert.are.equal(3, #session.events)
      for field, value in pairs(name) do
        assert.are.equal(value, session[field == "sessionId" and "id" or field])
      end
      assert.are.equal("secret word" .. mark, session.events[1]:text())
      assert.are.same({ k = mark, list = { mark, mark }, own = mark .. " again", count = 1 },
        service:stateAt(session, 2))
      assert.are.equal(3, service:refresh(session).revision)
      assert.are.equal("newer " .. mark, artifacts:load(with(name, { filename = "f" })).text)
      assert.are.equal("file " .. mark, artifacts:load(with(name, { filename = "f", version = 0 })).text)
      assert.are.same({ 0, 1 }, artifacts:versions(with(name, { filename = "f" })))
      assert.are.same({ "f" }, artifacts:list(name))
    end

    local function remembered(name, query)
      local texts = {}
      for index, entry in ipairs(memory:searchMemory { appName = name.appName, userId = name.userId,
        query = query, limit = 1000 }.memories) do
        texts[index] = entry.content.parts[1].text
      end
      return texts
    end

    for role, of in pairs(ROLES) do
      it("every call keeps to its own " .. role, function()
        local names = namesFor(role)
        for index, name in ipairs(names) do fill(of(name), "m" .. index) end
        for index, name in ipairs(names) do work(of(name), "m" .. index) end
        for index, name in ipairs(names) do expectOwn(of(name), "m" .. index) end
        if role ~= "sessionId" then
          for index, name in ipairs(names) do
            assert.are.same({ "secret wordm" .. index }, remembered(of(name), "secret"))
            assert.are.same({}, remembered(of(name), "wordm" .. index % #names + 1))
            local listed, cursor = service:listSessions(with(without(of(name), "sessionId"), { limit = 1 }))
            assert.are.equal(name, listed[1][role])
            assert.is_nil(cursor)
          end
        end
        -- What one deletes, the others keep.
        for index, name in ipairs(names) do
          if index % 2 == 0 then
            artifacts:delete(with(of(name), { filename = "f" }))
            assert.is_true(service:deleteSession(of(name)))
          end
        end
        for index, name in ipairs(names) do
          if index % 2 == 0 then
            assert.is_nil(service:getSession(of(name)))
            assert.is_nil(artifacts:load(with(of(name), { filename = "f" })))
          else
            expectOwn(of(name), "m" .. index)
          end
        end
      end)
    end

    it("user and app state keep to their own, by every call", function()
      for index, name in ipairs(NAMES) do
        service:updateUserState { appName = "app", userId = name, state = { k = index, gone = 1 } }
        service:updateAppState { appName = name, state = { k = -index } }
        service:incrementState { appName = "app", userId = name, key = "n", by = index }
        service:incrementState { appName = name, key = "n", by = -index }
        service:updateUserState { appName = "app", userId = name, state = { gone = moonpad.removed } }
        artifacts:save { appName = "app", userId = name, filename = "user:f", part = "of " .. index }
      end
      for index, name in ipairs(NAMES) do
        assert.are.same({ k = index, n = index }, service:getUserState { appName = "app", userId = name })
        assert.are.same({ k = -index, n = -index }, service:getAppState { appName = name })
        assert.are.same({ "user:f" }, artifacts:list { appName = "app", userId = name })
        assert.are.equal("of " .. index, artifacts:load { appName = "app", userId = name, filename = "user:f" }.text)
        assert.are.same({ 0 }, artifacts:versions { appName = "app", userId = name, filename = "user:f" })
      end
    end)

    it("files keep to their names", function()
      local who = { appName = "app", userId = "u", sessionId = "s" }
      local saved = {}
      for index, name in ipairs(NAMES) do
        for _, filename in ipairs { name, "user:" .. name } do
          if filename ~= "user:" then
            local version = saved[filename] and 1 or 0
            assert.are.equal(version, artifacts:save(with(who, { filename = filename, part = "of " .. index })))
            saved[filename] = index
          end
        end
      end
      assert.are.same(checks.keys(saved), artifacts:list(who))
      for filename, index in pairs(saved) do
        assert.are.equal("of " .. index, artifacts:load(with(who, { filename = filename })).text)
      end
    end)

    it("a search is words, never syntax", function()
      for index, name in ipairs { "ann", "bob", "%" } do
        fill({ appName = "app", userId = name, sessionId = "s" }, "m" .. index)
      end
      fill({ appName = "other", userId = "ann", sessionId = "s" }, "m4")
      local queries = { "secret", "*", "secret*", "s*", "\"secret\"", "\"", "secret OR wordm2", "NOT secret",
        "secret NOT x", "NEAR(secret wordm2)", "owner:2 secret", "owner : u2", "{owner text} : secret",
        "^secret", "-owner:1 secret", "text:secret", "secret) OR (owner:2", "' OR 1=1 --",
        "secret\" OR owner:\"2", "u1 u2 u3 u4", "1 2 3 4", "%", "_", "bob", "wordm2", "(", "a AND (b",
        "+secret", "secret\0wordm2", ("secret "):rep(500), "o1", "owner" }
      for _, query in ipairs(queries) do
        for _, text in ipairs(remembered({ appName = "app", userId = "ann" }, query)) do
          assert.are.equal("secret wordm1", text, query)
        end
        assert.are.same({}, remembered({ appName = "app", userId = "nobody" }, query))
      end
      assert.are.same({ "secret wordm1" }, remembered({ appName = "app", userId = "ann" }, "secret"))
    end)

    describe("a cursor", function()
      local function list(more)
        return service:listSessions(with({ appName = "app", userId = "ann" }, more))
      end

      before_each(function()
        for _, user in ipairs { "ann", "bob", "%", ("z"):rep(255) } do
          for index = 1, 3 do
            service:createSession { appName = "app", userId = user, sessionId = "s" .. index, state = { own = user } }
            service:createSession { appName = "other", userId = user, sessionId = "s" .. index, state = { own = user } }
          end
        end
      end)

      local FORGED = { '[0.0,"",""]', '[-1.0,"bob","s1"]', '[1e300,"zzz","zzz"]', '[-1e300,"bob","s1"]',
        '[0.0,"bob","s1"]',
        '[0.0,"\' OR 1=1 --","s"]', '[0.0,"%","%"]', '[0.0,"' .. ("x"):rep(5000) .. '","s"]',
        '[ 0.5 , "ann" , "s2" ]' }
      local BROKEN = { "x", "0", "null", "{}", "[]", "[0.0]", '[0.0,"ann"]', '["0.0","ann","s"]', '[0.0,1,"s"]',
        '[0.0,"ann",null]', '[0.0,"ann","s",1]', '[0.0,"ann","s"]]', '[0.0,["ann"],"s"]', '[1e999,"ann","s"]', "\0",
        '[0.0,"ann\\u0000","s"]', '[NaN,"ann","s"]', '[0.0,"\xff","s"]', "' OR 1=1 --", '[0.0,"ann","s"',
        '[0,"ann","s"]' }

      it("that is forged, of another user or of another app shows no other user's sessions", function()
        local cursors = { table.unpack(FORGED) }
        for _, other in ipairs { { appName = "app", userId = "bob" }, { appName = "other" }, { appName = "app" },
          { appName = "other", userId = "ann" } } do
          for _, order in ipairs { "oldest", "newest" } do
            local _, cursor = service:listSessions(with(other, { limit = 2, order = order }))
            cursors[#cursors + 1] = cursor
          end
        end
        for _, cursor in ipairs(cursors) do
          for _, order in ipairs { "oldest", "newest" } do
            for _, session in ipairs(list { after = cursor, order = order }) do
              assert.are.equal("ann", session.userId)
              assert.are.equal("app", session.appName)
              assert.are.same({ own = "ann" }, session.state:getAll())
            end
            for _, session in ipairs(service:listSessions { appName = "app", after = cursor, order = order }) do
              assert.are.equal("app", session.appName)
            end
          end
        end
        assert.are.equal(3, #list {})
      end)

      it("that is none is refused", function()
        for _, cursor in ipairs(BROKEN) do raises("invalid_argument", "after", list, { after = cursor }) end
        for _, cursor in ipairs { 7, true, {} } do raises("invalid_argument", "after", list, { after = cursor }) end
      end)
    end)

    it("names have 255 bytes at most, by every call", function()
      local long, fits = ("é"):rep(128), ("é"):rep(127) .. "x"
      local calls = {
        function(who) return artifacts:save(with(who, { filename = "f", part = "x" })) end,
        function(who) return artifacts:load(with(who, { filename = "f" })) end,
        function(who) return artifacts:versions(with(who, { filename = "f" })) end,
        function(who) return artifacts:delete(with(who, { filename = "f" })) end,
        function(who) return artifacts:list(who) end,
      }
      for role, of in pairs(ROLES) do
        for _, call in ipairs(calls) do
          call(of(fits))
          for _, bad in ipairs { long, "a\0b", "", "\xff", 7, {}, true } do
            raises("invalid_argument", role, call, of(bad))
          end
        end
      end
      for _, role in ipairs { "appName", "userId" } do
        local function search(value)
          return memory:searchMemory(with({ appName = "app", userId = "u", query = "x" }, { [role] = value }))
        end
        search(fits)
        for _, bad in ipairs { long, "a\0b", "", "\xff", 7, {}, true } do
          raises("invalid_argument", role, search, bad)
        end
      end
    end)

    if store.name == "sqlite:" then
      local function backUp(...)
        local folder = support.tmpdir()
        checks.append(service, checks.create(service), { k = 1 })
        for _, name in ipairs { ... } do
          service:backup(folder .. "/" .. name)
          local copy <close> = moonpad.open("sqlite:" .. folder .. "/" .. name)
          assert.are.equal(1, checks.get(copy).state.k)
        end
      end

      it("a backup's path is a path, whatever it is called", function() backUp("a%20b", "a'b", "a#b", "-x") end)

      it("a backup's path is a path where it has signs that not all systems take #posix", function()
        backUp("a?mode=memory", "file:x", "a\"b;c", " a ")
      end)
    end
  end)
end
