-- Calls of moonpad in the middle of which a finalizer calls moonpad (it may run wherever Lua
-- allocates): both do what they would have done alone.
local checks = require "spec.support.checks"
local during = require("spec.support.finalizers").during
local moonpad = require "moonpad"
local support = require "spec.support"
local rarely = require("spec.support.turns").rarely

local json = moonpad.json
local raises = checks.raises

describe("a finalizer that decodes", function()
  it("changes nothing in what is being decoded", function()
    -- Backwards, so that no string with the value's own bytes is there until decoding makes one.
    local values = { "a", "4v", "eulav-rehto", "ko-setyb-neetxis", "" }
    local texts = {}
    for index, value in ipairs(values) do texts[index] = ('{"k":"%s"}'):format(value:reverse()) end
    local function decoded(index)
      local found = json.decode(texts[index]).k:reverse()
      assert(found == values[index], ("%s instead of %s"):format(found, values[index]))
    end
    for main = 1, #values do
      local other = main % #values + 1
      during(60, function() decoded(other) end, function()
        decoded(main)
        decoded(other)
        decoded(main)
        -- What comes twice is kept: the other one, so that this one has to be made again.
      end, function()
        decoded(other)
        decoded(other)
        decoded(main)
      end)
    end
  end)

  it("with other names changes nothing either", function()
    local names = {}
    for index = 1, 400 do names[index] = ("name%d"):format(index) end
    local function decoded(first)
      local text = {}
      for index = 1, 6 do
        local name = names[(first + index * 7) % #names + 1]
        text[index] = ('"%s":"%s"'):format(name, name:upper())
      end
      local value = json.decode("{" .. table.concat(text, ",") .. "}")
      local count = 0
      for key, item in pairs(value) do
        assert(key:upper() == item, key .. " is " .. item)
        count = count + 1
      end
      assert(count == 6)
    end
    during(20, function(ran) decoded(ran * 31) end, function(round)
      for index = 1, 20 do decoded(round * 17 + index) end
    end)
  end)
end)

support.each_store(function(open)
  describe("a finalizer", function()
    it("that reads other events does not move the one that is being read", function()
      local service = open()
      local session = checks.create(service)
      local function text(index) return ("%d "):format(index):rep(600 + index * 8) end
      for index = 1, 40 do checks.append(service, session, nil, { customMetadata = { text = text(index) } }) end
      local function read(from, index)
        assert(from.events[index].customMetadata.text == text(index), "event " .. index)
      end
      session = checks.get(service)
      during(40, function(count) read(session, 1 + count * 13 % 40) end, function(round)
        for index = 1, 3 do read(session, 1 + (round + index * 7) % 40) end
      end)
    end)

    it("that fails an append of its own leaves the keys of a conflict as they are", function()
      local service = open()
      local session = checks.create(service, "s", { mine = 1, other = 1 })
      local writer = checks.get(service)
      checks.append(service, writer, { mine = 2, other = 2 })
      session.state.mine = 3
      during(60, function()
        local err = raises("conflict", nil, checks.append, service, session, { other = 3 })
        assert(#err.keys >= 1)
      end, function()
        local err = raises("conflict", { '"mine"' }, service.updateSession, service, session)
        assert.are.same({ "mine" }, err.keys)
        assert.are.same({ mine = 3 }, moonpad.toTable(err.event.actions.stateDelta))
      end)
    end)

    it("that stores what is pending leaves nothing for the call that was about to", function()
      local service = open()
      local session = checks.create(service)
      local stored = 0
      during(60, function()
        if service:updateSession(session) then stored = stored + 1 end
      end, function(round)
        session.state.n = round
        if service:updateSession(session) then stored = stored + 1 end
        assert.are.equal(round, session.state.n)
      end, function() -- an append that fails leaves the next one without anything prepared
        raises("invalid_argument", "author", service.appendEvent, service, session, { author = 1 })
      end)
      assert.are.equal(60, stored)
      assert.are.equal(60, checks.get(service).state.n)
    end)

    it("that asks for the state of a session gets the one that everybody gets", function()
      local service = open()
      checks.create(service)
      local sessions, seen
      during(60, function(count)
        local index = 1 + count % #sessions
        seen[index] = sessions[index].state
      end, function()
        for index, session in ipairs(sessions) do
          local state = session.state
          assert(seen[index] == nil or seen[index] == state)
          assert(state == session.state)
        end
      end, function() sessions, seen = { checks.get(service), checks.get(service), checks.get(service) }, {} end)
    end)

    rarely("that makes calls of any kind does no harm to calls of any kind", function()
      local service = open()
      local long = ("long "):rep(700)
      checks.create(service, "theirs", { list = { { 1 } }, text = long, n = 0 })
      for index = 1, 6 do
        checks.append(service, checks.get(service, "theirs"), { n = index }, { customMetadata = { long .. index } })
      end
      local theirs = checks.get(service, "theirs")
      local actions = {
        function() assert(json.encode { b = { theirs.state }, a = 1 }:find('"text":"long long', 1, true)) end,
        function() assert(json.decode('{"author":"v1","k":"\\n' .. long .. '"}').author == "v1") end,
        function(count) theirs.state.list = { { count } } assert(theirs.state.list[1][1] == count) end,
        function() assert(theirs.events[3].customMetadata[1] == long .. 3) end,
        function() service:updateSession(theirs) end,
        function(count)
          local event = checks.append(service, theirs, { k = count }, { customMetadata = { t = long } })
          assert(event.actions.stateDelta.k == count and event.customMetadata.t == long)
        end,
        function() assert(#service:listSessions { appName = "app" } >= 2) end,
        function() assert(checks.get(service, "theirs").state.text == long) end,
        function() for key, value in pairs(theirs.state) do assert(key and value ~= nil) end end,
        function() for _, item in pairs(theirs.state.list) do assert(#item == 1) end end,
        function()
          local nextLine = service:export(theirs)
          assert(nextLine():find('"sessionId":"theirs"', 1, true) and nextLine():find(long .. 1, 1, true))
        end,
        function() raises("invalid_argument", "author", service.appendEvent, service, theirs, { author = 1 }) end,
        function() raises("invalid_argument", "list", function() theirs.state.list[5] = print end) end,
        function() assert(moonpad.toTable { theirs.state, theirs.events[2] }[2].customMetadata[1] == long .. 2) end,
      }
      local session, count = checks.create(service, "ours"), 0
      local kinds = {
        function()
          session.state.map = { a = { count }, b = "b" .. count, [long] = long }
          assert.are.equal(count, session.state.map.a[1])
          assert.are.equal(('{"a":[%d],"b":"b%d","%s":"%s"}'):format(count, count, long, long),
            tostring(session.state.map))
        end,
        function()
          local event = service:updateSession(session, { author = "me", customMetadata = { long, count } })
          assert.are.same({ long, count }, setmetatable(moonpad.toTable(event.customMetadata), nil))
          local stored = checks.get(service, "ours").events
          assert.are.equal(count, stored[#stored].customMetadata[2])
          assert.are.equal(#stored, event.revision)
        end,
        function()
          local keys = {}
          for key, value in pairs(session.state) do keys[#keys + 1] = key .. type(value) end
          assert.are.equal("mapuserdata", table.concat(keys, " "))
          local names = {}
          for name, value in pairs(session.state.map) do names[#names + 1] = #name .. type(value) end
          assert.are.equal("1userdata 1string 3500string", table.concat(names, " "))
        end,
        function()
          local copy = moonpad.toTable { session.state, { session.state.map } }
          assert.are.equal(long, copy[1].map[long])
          assert.are.equal(copy[1].map.b, copy[2][1].b)
          assert.are.equal(json.encode(copy[1].map), json.encode(session.state.map))
        end,
        function()
          local ids = {}
          for index, listed in ipairs(service:listSessions { appName = "app" }) do
            ids[index] = listed.id .. listed.saveKey .. type(listed.state.text)
          end
          table.sort(ids)
          assert.are.same({ "oursapp/unil", "theirsapp/ustring" }, ids)
        end,
        function()
          local nextLine = service:export(session)
          local copy = service:import { sessionId = "copy", lines = function()
            local line = nextLine()
            return line and line .. ""
          end }
          assert.are.equal(session.revision, copy.revision)
          checks.identical(service:stateAt(session, copy.revision), copy.state:getAll())
          assert.is_true(service:deleteSession { appName = "app", userId = "u", sessionId = "copy" })
        end,
        function()
          raises("invalid_argument", { 'state["map"].c[2]', "function" },
            function() session.state.map.c = { 1, print } end)
          raises("invalid_argument", { 'state["map"]', "a table as a key" }, function() session.state.map[{}] = 1 end)
          raises("invalid_argument", { "event.customMetadata.x", "coroutine" }, service.appendEvent, service, session,
            { customMetadata = { x = coroutine.create(print) } })
          assert.are.same({ map = moonpad.toTable(session.state.map) }, session.state:getAll())
        end,
      }
      kinds[1]()
      during(checks.scaled(180, 20), actions, function(round) -- each time another one is the first to meet them
        count = round
        for index = 1, #kinds do kinds[(round + index) % #kinds + 1]() end
      end)
    end)

    it("that closes the service in the middle of a call makes that call fail, or lets it end", function()
      local service, session
      during(40, function() service:close() end, function()
        for _, call in ipairs {
          function() return session.events[1], session.events[2], session.state:getAll() end,
          function() for _ in pairs(session.state) do session.state.list[1] = 2 end end,
          function() return checks.append(service, session, { k = { 1 } }) end,
          function() return service:updateSession(session) end,
          function() return service:getSession { appName = "app", userId = "u", sessionId = "s" } end,
          function() return service:listSessions { appName = "app" } end,
          function() return service:fork(session, { at = 1 }) end,
          function() return service:rewind(session, { invocationId = "i" }) end,
          function()
            local lines = {}
            for line in service:export(session) do lines[#lines + 1] = line end
            lines = table.concat(lines)
            return service:import { lines = lines, sessionId = "copy" }
          end,
          function() return service:stateAt(session, 1) end,
          function() return service:refresh(session) end,
          function() return moonpad.toTable { session.state, session.state.list } end,
        } do
          local ok, err = pcall(call)
          assert(ok or err.code == "closed", tostring(err))
        end
      end, function()
        service = open()
        session = checks.create(service, "s", { list = { { 1 } }, text = ("x"):rep(3000) })
        checks.append(service, session, { more = { ("y"):rep(3000) } }, { invocationId = "i" })
        session.state.list[2] = { 2 }
      end)
    end)
  end)
end)
