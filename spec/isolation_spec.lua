-- No name can reach another user's data (contract 2): separators, wildcards, quotes, SQL,
-- look-alikes, limits.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local NAMES = checks.chosen(require "spec.support.hostile_names")
local raises = checks.raises

-- Pairs that become the same once they are joined by a separator.
local JOINED = {
  { { "a/b", "c", "d" }, { "a", "b/c", "d" }, { "a", "b", "c/d" } },
  { { "a:b", "c", "d" }, { "a", "b:c", "d" }, { "a", "b", "c:d" } },
  { { "a", "bc", "d" }, { "ab", "c", "d" }, { "a", "b", "cd" } },
  { { "a|b", "c", "d" }, { "a", "b|c", "d" }, { "a", "b", "c|d" } },
  { { "a\1b", "c", "d" }, { "a", "b\1c", "d" }, { "a", "b", "c\1d" } },
  { { "a,", "b", "c" }, { "a", ",b", "c" }, { "a", "b", ",c" } },
}

describe("a name", function()
  support.each_store(function(open)
    local service
    before_each(function() service = open() end)

    local function trimmed(name)
      return name:match "^[ \t\r\n]*(.-)[ \t\r\n]*$"
    end

    it("of a user reaches no other user", function()
      for index, user in ipairs(NAMES) do
        local session = service:createSession { appName = "app", userId = user, sessionId = "s", state = { k = index } }
        checks.append(service, session, { ["user:k"] = index }, { id = "e" })
      end
      for index, user in ipairs(NAMES) do
        local session = service:getSession { appName = "app", userId = user, sessionId = "s" }
        assert.are.same({ k = index, ["user:k"] = index }, session.state:getAll())
        assert.are.equal(user, session.userId)
        assert.are.equal("app/" .. user, session.saveKey)
        assert.are.equal(1, #session.events)
        assert.are.same({ k = index }, service:getUserState { appName = "app", userId = user })
        assert.are.equal(1, #service:listSessions { appName = "app", userId = user })
        service:updateUserState { appName = "app", userId = user, state = { own = user } }
        service:incrementState { appName = "app", userId = user, key = "k", by = 1000 }
      end
      for index, user in ipairs(NAMES) do
        assert.are.same({ k = index + 1000, own = user }, service:getUserState { appName = "app", userId = user })
      end
      for index, user in ipairs(NAMES) do
        assert.is_true(service:deleteSession { appName = "app", userId = user, sessionId = "s" })
        assert.is_false(service:deleteSession { appName = "app", userId = user, sessionId = "s" })
        assert.are.equal(#NAMES - index, #service:listSessions { appName = "app" })
      end
    end)

    it("of an app reaches no other app", function()
      for index, app in ipairs(NAMES) do
        local session = service:createSession { appName = app, userId = "u", sessionId = "s", state = { k = index } }
        checks.append(service, session, { ["app:k"] = index, ["user:k"] = -index })
      end
      for index, app in ipairs(NAMES) do
        local session = service:getSession { appName = app, userId = "u", sessionId = "s" }
        assert.are.same({ k = index, ["app:k"] = index, ["user:k"] = -index }, session.state:getAll())
        assert.are.same({ k = index }, service:getAppState { appName = app })
        assert.are.same({ k = -index }, service:getUserState { appName = app, userId = "u" })
        assert.are.equal(1, #service:listSessions { appName = app })
        service:updateAppState { appName = app, state = { own = app, k = moonpad.removed } }
        service:incrementState { appName = app, key = "n" }
      end
      for _, app in ipairs(NAMES) do
        assert.are.same({ own = app, n = 1 }, service:getAppState { appName = app })
        assert.is_true(service:deleteSession { appName = app, userId = "u", sessionId = "s" })
      end
    end)

    it("of a session reaches no other session", function()
      local seen, count = {}, 0
      for index, id in ipairs(NAMES) do
        if not seen[trimmed(id)] then
          seen[trimmed(id)], count = index, count + 1
          checks.append(service, checks.create(service, id, { k = index }), { own = index }, { id = "e" })
        else
          raises("already_exists", nil, checks.create, service, id)
        end
      end
      for id, index in pairs(seen) do
        local session = checks.get(service, id)
        assert.are.equal(id, session.id)
        assert.are.same({ k = index, own = index }, session.state:getAll())
        assert.are.equal(index, session.events[1].actions.stateDelta.own)
        local fork = service:fork(session, { at = 0 })
        assert.are.same({ k = index }, fork.state:getAll())
        service:deleteSession { appName = "app", userId = "u", sessionId = fork.id }
      end
      local found, cursor = {}, nil
      repeat
        local list
        list, cursor = service:listSessions { appName = "app", limit = 7, after = cursor }
        for _, session in ipairs(list) do
          assert.is_nil(found[session.id])
          found[session.id] = true
        end
      until not cursor
      assert.are.equal(count, #checks.keys(found))
      for id in pairs(seen) do
        assert.is_true(service:deleteSession { appName = "app", userId = "u", sessionId = id })
        count = count - 1
        assert.are.equal(count, #service:listSessions { appName = "app" })
      end
    end)

    it("is not joined with another one", function()
      for _, triples in ipairs(JOINED) do
        for index, name in ipairs(triples) do
          service:createSession { appName = name[1], userId = name[2], sessionId = name[3],
            state = { k = index, ["user:k"] = index, ["app:" .. name[2]] = index } }
        end
        for index, name in ipairs(triples) do
          local session = service:getSession { appName = name[1], userId = name[2], sessionId = name[3] }
          assert.are.equal(index, session.state.k)
          assert.are.equal(index, session.state["user:k"])
          assert.are.equal(index, service:getAppState({ appName = name[1] })[name[2]])
        end
        for _, name in ipairs(triples) do
          assert.is_true(service:deleteSession { appName = name[1], userId = name[2], sessionId = name[3] })
        end
      end
    end)

    it("of a state key reaches no other key", function()
      local session = checks.create(service)
      local expected = {}
      for index, key in ipairs(NAMES) do
        for _, prefix in ipairs { "", "user:", "app:" } do
          local full = prefix .. key
          if not full:find "^temp:" then expected[full] = index end
        end
      end
      checks.append(service, session, expected)
      assert.are.same(expected, checks.get(service).state:getAll())
      for key in pairs(expected) do
        checks.append(service, session, { [key] = moonpad.removed })
        expected[key] = nil
        local state = checks.get(service).state
        assert.is_nil(state[key])
        assert.are.equal(#checks.keys(expected), #checks.keys(state:getAll()))
        if #checks.keys(expected) < 150 then break end
      end
    end)

    describe("that is none", function()
      local name, session
      before_each(function()
        session = checks.create(service)
        name = { appName = "app", userId = "u", sessionId = "s", state = { k = 1 }, key = "n" }
      end)

      -- Which fields each call takes of `name`.
      local calls = {
        createSession = { "appName", "userId", "sessionId" }, getSession = { "appName", "userId", "sessionId" },
        deleteSession = { "appName", "userId", "sessionId" }, listSessions = { "appName", "userId" },
          getAppState = { "appName" },
        getUserState = { "appName", "userId" }, updateAppState = { "appName", "state" },
          updateUserState = { "appName", "userId", "state" },
        incrementState = { "appName", "userId", "key" },
      }
      local isName = { appName = true, userId = true, sessionId = true }

      local function attempt(call, field, value)
        local options = {}
        for _, known in ipairs(calls[call]) do options[known] = name[known] end
        options[field] = value
        raises("invalid_argument", field, service[call], service, options)
      end

      local bad = { ["with a NUL"] = "a\0b", ["of 256 bytes"] = ("x"):rep(256), ["of invalid UTF-8"] = "\xff",
        ["of a cut character"] = "a\xc3",
        ["that is a number"] = 7, ["that is a table"] = {}, ["that is true"] = true }

      for what, value in pairs(bad) do
        it(what .. " is refused by every call", function()
          for call, fields in pairs(calls) do
            for _, field in ipairs(fields) do
              if isName[field] then attempt(call, field, value) end
            end
          end
          raises("invalid_argument", "sessionId", service.fork, service, session, { at = 0, sessionId = value })
        end)
      end

      it("that is empty or missing is refused by every call", function()
        for call, fields in pairs(calls) do
          for _, field in ipairs(fields) do
            if isName[field] and not (call == "createSession" and field == "sessionId") then
              attempt(call, field, "")
              local optional = field == "userId" and (call == "listSessions" or call == "incrementState")
              if not optional then attempt(call, field, nil) end
            end
          end
        end
        for _, call in ipairs { "getSession", "deleteSession" } do attempt(call, "sessionId", " \t\n") end
      end)

      it("too long only because of blanks around it is fine", function()
        local padded = "  " .. ("y"):rep(255) .. "  "
        assert.are.equal(("y"):rep(255), checks.create(service, padded).id)
        assert.are.equal(("y"):rep(255), checks.get(service, padded).id)
      end)
    end)
  end)
end)
