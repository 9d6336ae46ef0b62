-- Export and import: a session as lines of text, exact both ways (contract 2 and 6).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises
local NAME = { appName = "app", userId = "u", sessionId = "s" }

-- Values of every kind, keys that came with createSession, a rewind, and events of every kind.
local function build(service, sessionId)
  local session = checks.create(service, sessionId, {
    k = "initial", gone = true, list = { 1, { 2.0 } }, ["user:u"] = 1, ["app:a"] = 1, ["temp:t"] = 1,
  })
  service:appendEvent(session, { id = "e1", timestamp = 101, invocationId = "one", author = "user",
    content = { role = "user", parts = { { text = "Hello\n\u{2028}\0\"world\"" } } },
    actions = { stateDelta = { big = math.mininteger, half = 0.1, whole = 1.0, zero = -0.0 } } })
  session.state:increment("n", 5)
  session.state.gone = nil
  service:updateSession(session)
  checks.append(service, session, { none = moonpad.null, empty = moonpad.array {}, object = {}, ["user:u"] = 2 },
    { id = "e3", timestamp = 99.25, invocationId = "two", mine = { deep = moonpad.array {} } })
  service:rewind(session, { revision = 2 })
  return session
end

local function linesOf(service, session)
  local lines = {}
  for line in service:export(session) do lines[#lines + 1] = line end
  return lines
end

local function without(line, ...)
  for _, field in ipairs { ... } do line = line:gsub(('"%s":"[^"]*",'):format(field), "") end
  return line
end

local function copyOf(name, more)
  local copy = {}
  for key, value in pairs(name) do copy[key] = value end
  for key, value in pairs(more or {}) do copy[key] = value end
  return copy
end

support.each_store(function(open)
  local service, session
  before_each(function()
    service = open()
    session = build(service)
  end)

  describe("export", function()
    it("gives a header and then the events, each a line that ends with a newline", function()
      local lines = linesOf(service, session)
      assert.equal(5, #lines)
      for _, line in ipairs(lines) do assert.equal(#line, (line:find("\n", 1, true))) end
      local header = moonpad.json.decode(lines[1])
      assert.same({ 1, "app", "u", "s", 0, 4, 1 }, { header.moonpadSession, header.appName, header.userId,
        header.sessionId, header.baseRevision, header.revision, header.conversationCount })
      checks.identical({ k = "initial", gone = true, list = { 1, { 2.0 } } }, header.baseState)
      for index = 1, 4 do
        local event, exported = moonpad.toTable(session.events[index]), moonpad.json.decode(lines[index + 1])
        assert.equal(index, event.revision)
        event.revision, exported.revision = nil, nil
        for _, one in ipairs { event, exported } do
          -- What is deleted is `moonpad.removed` in a table, and null with a list of such keys in
          -- a line.
          for _, key in ipairs(one.removedStateKeys or {}) do one.actions.stateDelta[key] = moonpad.removed end
          one.removedStateKeys = nil
        end
        checks.identical(event, exported)
      end
    end)

    it("is of the whole stored session, whatever the object shows and has pending", function()
      local expected = table.concat(linesOf(service, session))
      session.state.pending = 1
      local views = { { numRecentEvents = 0 }, { numRecentEvents = 1 }, { afterTimestamp = 100 } }
      for _, view in ipairs(views) do
        local found = service:getSession(copyOf(NAME, view))
        found.state.more = { 1 }
        assert.equal(expected, table.concat(linesOf(service, found)))
      end
      local listed = service:listSessions { appName = "app" }
      assert.equal(expected, table.concat(linesOf(service, listed[1])))
      assert.equal(expected, table.concat(linesOf(service, session)))
      assert.same({ pending = 1 }, session.state:delta())
    end)

    it("of a session without events is a header", function()
      local lines = linesOf(service, checks.create(service, "new"))
      assert.equal(1, #lines)
      checks.identical({}, moonpad.json.decode(lines[1]).baseState)
    end)

    it("goes on giving nil behind the last line", function()
      local iterator = service:export(session)
      for _ = 1, 5 do assert.is_string(iterator()) end
      for _ = 1, 3 do assert.is_nil(iterator()) end
    end)

    it("is of what was stored when it began", function()
      local iterator = service:export(session)
      local read = { iterator() }
      checks.append(service, session, { later = 1 })
      for line in iterator do read[#read + 1] = line end
      assert.equal(5, #read)
      assert.equal(6, #linesOf(service, session))
    end)

    it("holds no lock between two lines", function()
      local one, other = service:export(session), service:export(session)
      for _ = 1, 5 do
        assert.equal(one(), other())
        checks.append(service, session, { meanwhile = true })
        checks.create(service, "new")
        service:deleteSession(copyOf(NAME, { sessionId = "new" }))
      end
    end)

    it("of a long history is read as it goes, and can be left unfinished", function()
      local long = checks.create(service, "long")
      local count = checks.scaled(700)
      for number = 1, count do checks.append(service, long, { n = number }) end
      local iterator, number = service:export(long), -1
      for line in iterator do
        number = number + 1
        if number > 0 then assert.equal(number, moonpad.json.decode(line).actions.stateDelta.n) end
      end
      assert.equal(count, number)
      for _ = 1, 20 do
        local left = service:export(long)
        left()
        left()
      end
      local seen = setmetatable({ service:export(long) }, { __mode = "v" })
      seen[1]()
      collectgarbage()
      collectgarbage()
      assert.is_nil(seen[1])
    end)

    it("survives its session object, and its service object", function()
      local iterator
      do
        local kept = open()
        iterator = kept:export(build(kept, "kept"))
      end
      collectgarbage()
      collectgarbage()
      local count = 0
      for _ in iterator do count = count + 1 end
      assert.equal(5, count)
    end)

    it("is closed with its service", function()
      local iterator, fresh = service:export(session), service:export(session)
      iterator()
      service:close()
      raises("closed", "the service is closed", iterator)
      raises("closed", "the service is closed", iterator)
      raises("closed", nil, fresh)
      raises("closed", "service:export", service.export, service, session)
    end)

    it("is not_found once the session has been deleted, also when there is a new one of its name", function()
      local long = checks.create(service, "long")
      for number = 1, 300 do checks.append(service, long, { n = number }) end
      local iterator = service:export(long)
      assert.is_string(iterator())
      service:deleteSession(copyOf(NAME, { sessionId = "long" }))
      checks.create(service, "long")
      local err = raises("not_found", "not stored any more", function() for _ in iterator do _ = nil end end)
      assert.equal(err.message, raises("not_found", nil, iterator).message)
      raises("not_found", "does not exist", service.export, service, long)
    end)

    it("wants a session of its service", function()
      raises("invalid_argument", "service:export: expects a session object", service.export, service)
      raises("invalid_argument", "service:export: expects a session object", service.export, service, NAME)
      raises("invalid_argument", "another service", service.export, open(), session)
      raises("invalid_argument", "takes nothing as argument 2", service.export, service, session, {})
    end)
  end)

  describe("import", function()
    local lines, text
    before_each(function()
      lines = linesOf(service, session)
      text = table.concat(lines)
    end)

    -- The same in all but the name.
    local function expectSame(there, copy)
      assert.same({ session.revision, session.conversationCount, session.createTime, session.lastUpdateTime },
        { copy.revision, copy.conversationCount, copy.createTime, copy.lastUpdateTime })
      assert.equal(#session.events, #copy.events)
      for index = 1, #session.events do checks.identical(session.events[index], copy.events[index]) end
      for revision = 0, session.revision do
        checks.identical(service:stateAt(session, revision), there:stateAt(copy, revision))
      end
      local exported = linesOf(there, copy)
      assert.equal(without(lines[1], "appName", "userId", "sessionId"),
        without(exported[1], "appName", "userId", "sessionId"))
      assert.same(table.move(lines, 2, #lines, 1, {}), table.move(exported, 2, #exported, 1, {}))
    end

    local function bare()
      local list = {}
      for index, line in ipairs(lines) do list[index] = line:sub(1, -2) end
      return list
    end

    local function iteratorOver(list)
      local index = 0
      return function()
        index = index + 1
        return list[index]
      end
    end

    for what, source in pairs {
      ["a string"] = function() return text end,
      ["a string without the last newline"] = function() return text:sub(1, -2) end,
      ["a string with other line ends"] = function() return (text:gsub("\n", "\r\n")) end,
      ["a list"] = function() return lines end,
      ["a list without newlines"] = bare,
      ["a list that is made as it is read"] = function()
        return setmetatable({}, { __index = function(_, index) return lines[index] end })
      end,
      ["an iterator"] = function() return iteratorOver(lines) end,
      ["an iterator without newlines"] = function() return iteratorOver(bare()) end,
      ["an export"] = function() return service:export(session) end,
      ["what can be called"] = function()
        local nextLine = iteratorOver(lines)
        return setmetatable({}, { __call = function() return nextLine() end })
      end,
    } do
      it("takes " .. what, function()
        local other = open()
        local copy = other:import { lines = source() }
        assert.equal("app/u s", copy.saveKey .. " " .. copy.id)
        expectSame(other, copy)
        expectSame(other, checks.get(other))
        expectSame(service, service:import { lines = source(), userId = "other" })
      end)
    end

    it("reads a file line by line", function()
      local path = support.tmpdir() .. "/session.jsonl"
      local file <close> = assert(io.open(path, "w"))
      for line in service:export(session) do file:write(line) end
      file:close()
      expectSame(service, service:import { lines = io.lines(path), sessionId = "from a file" })
      support.cleanup()
    end)

    it("gives it other names, where they are given", function()
      for _, given in ipairs { { sessionId = " new " }, { userId = "other" }, { appName = "elsewhere" },
        { appName = "elsewhere", userId = "other", sessionId = "new" } } do
        given.lines = text
        local copy = service:import(given)
        assert.same({ given.appName or "app", given.userId or "u", given.sessionId and "new" or "s" },
          { copy.appName, copy.userId, copy.id })
        expectSame(service, copy)
      end
      for _, field in ipairs { "appName", "userId", "sessionId" } do
        for _, wrong in ipairs { "", ("x"):rep(256), "\0", "\xff" } do
          raises("invalid_argument", field, service.import, service, { lines = text, [field] = wrong })
        end
        raises("invalid_argument", field .. ": expects a string", service.import, service,
          { lines = text, [field] = 1 })
      end
    end)

    it("touches neither user nor app state", function()
      local other = open()
      other:updateUserState { appName = "app", userId = "u", state = { mine = 1 } }
      local copy = other:import { lines = text }
      assert.same({ mine = 1 }, other:getUserState { appName = "app", userId = "u" })
      assert.same({}, other:getAppState { appName = "app" })
      assert.equal(1, copy.state["user:mine"])
      assert.same({ ["user:u"] = 2 }, { ["user:u"] = copy.events[3].actions.stateDelta["user:u"] })
    end)

    it("is refused where the session exists, and leaves that alone", function()
      raises("already_exists", { '"s"', "exists already" }, service.import, service, { lines = text })
      assert.equal(4, checks.get(service).revision)
    end)

    it("can be appended to, rewound and exported again", function()
      local copy = service:import { lines = text, sessionId = "copy" }
      checks.append(service, copy, { k = "more" })
      service:rewind(copy, { invocationId = "one" })
      checks.identical(service:stateAt(session, 0), service:stateAt(copy, 6))
      local again = open()
      assert.equal(6, again:import { lines = service:export(copy) }.revision)
    end)

    describe("is all or nothing:", function()
      local other
      before_each(function() other = open() end)

      local function refused(code, says, given)
        local err = raises(code, says, other.import, other, given)
        assert.is_nil(checks.get(other))
        assert.same({}, (other:listSessions { appName = "app" }))
        return err
      end

      it("a line that is no event names itself", function()
        for index = 1, #lines do
          for _, wrong in ipairs { "", "\n", "{", "[]", "1", lines[index]:sub(1, -4), lines[index] .. lines[index],
            "\xff", '{"a":1,"a":2}' } do
            local broken = table.move(lines, 1, #lines, 1, {})
            broken[index] = wrong
            refused("invalid_argument", ("line %d"):format(index), { lines = broken })
            refused("invalid_argument", ("line %d"):format(index), { lines = iteratorOver(broken) })
          end
        end
        refused("invalid_argument", "line 6", { lines = text .. "\n" })
        refused("invalid_argument", "line 2", { lines = (text:gsub("\n", "\n\n", 1)) })
      end)

      it("lines that are missing, twice, or in another order", function()
        refused("invalid_argument", "line 1", { lines = "" })
        refused("invalid_argument", "line 1", { lines = {} })
        refused("invalid_argument", "line 1", { lines = function() end })
        refused("invalid_argument", "4 events, 3 came", { lines = table.move(lines, 1, 4, 1, {}) })
        refused("invalid_argument", "line 6: the header announced 4 events", { lines = text .. lines[5] })
        refused("invalid_argument", "comes a second time",
          { lines = lines[1] .. lines[2] .. lines[3] .. lines[4] .. lines[3] })
        refused("invalid_argument", "line 1: not the header", { lines = lines[2] .. lines[1] })
      end)

      it("what is no string", function()
        for _, wrong in ipairs { 1, true, {}, print } do
          refused("invalid_argument", "lines: line 3: expects a string", { lines = { lines[1], lines[2], wrong } })
          refused("invalid_argument", "lines: line 1: expects a string", { lines = iteratorOver { wrong } })
        end
        refused("invalid_argument", "lines: line 1: expects a string, got a boolean",
          { lines = function() return false end })
      end)

      it("what is no source of lines", function()
        for _, wrong in ipairs { 1, true, session, session.state, coroutine.create(print) } do
          refused("invalid_argument", "lines: expects a string, a list or an iterator", { lines = wrong })
        end
        refused("invalid_argument", "lines is missing", {})
        refused("invalid_argument", "did you mean lines?", { line = text })
        raises("invalid_argument", "expects a table", other.import, other, text)
        raises("invalid_argument", "takes nothing as argument 2", other.import, other, { lines = text }, 1)
      end)

      it("what is too large, or newer", function()
        other = open { maxEventBytes = 120 }
        refused("limit", "maxEventBytes", { lines = text })
        refused("unsupported", "export format 2", { lines = (text:gsub('"moonpadSession":1', '"moonpadSession":2')) })
      end)

      it("an error of the iterator comes through as it is", function()
        for _, thrown in ipairs { {}, "a string", setmetatable({}, { __tostring = error }), false, 42 } do
          for count = 0, 5 do
            local nextLine, calls = iteratorOver(lines), 0
            local ok, err = pcall(other.import, other, { lines = function()
              calls = calls + 1
              if calls > count then error(thrown, 0) end
              return nextLine()
            end })
            assert.is_false(ok)
            assert.is_true(rawequal(thrown, err))
            assert.is_nil(checks.get(other))
          end
        end
        assert.equal(4, other:import({ lines = text }).revision)
      end)

      it("a service that is closed on the way", function()
        local nextLine, calls = iteratorOver(lines), 0
        raises("closed", "the service is closed", other.import, other, { lines = function()
          calls = calls + 1
          if calls == 3 then other:close() end
          return nextLine()
        end })
        raises("closed", "service:import", other.import, other, { lines = text })
      end)

      it("a session that somebody else makes on the way", function()
        local nextLine = iteratorOver(lines)
        raises("already_exists", "exists already", other.import, other, { lines = function()
          if not checks.get(other) then checks.create(other, "s", { theirs = true }) end
          return nextLine()
        end })
        assert.same({ theirs = true }, checks.get(other).state:getAll())
      end)

      it("an iterator that yields, to its end or not", function()
        local function importing()
          local nextLine = iteratorOver(lines)
          return coroutine.wrap(function()
            return other:import { lines = function()
              coroutine.yield "waiting"
              return nextLine()
            end }
          end)
        end
        local left = importing()
        for _ = 1, 4 do assert.equal("waiting", left()) end
        assert.is_nil(checks.get(other))
        local whole = importing()
        for _ = 1, 6 do assert.equal("waiting", whole()) end
        assert.equal(4, whole().revision)
        assert.equal("waiting", left())
        assert.equal("waiting", left())
        raises("already_exists", nil, left)
      end)

      it("an import inside the iterator of an import", function()
        local nextLine = iteratorOver(lines)
        local copy = other:import { sessionId = "outer", lines = function()
          if not checks.get(other, "inner") then other:import { lines = text, sessionId = "inner" } end
          return nextLine()
        end }
        expectSame(other, copy)
        expectSame(other, checks.get(other, "inner"))
      end)
    end)

    it("and export go on in a run, where the iterator waits", function()
      local waited = 0
      local agent = moonpad.customAgent { name = "A", run = function()
        local nextLine = service:export(session)
        service:import { sessionId = "copy", lines = function()
          waited = waited + 1
          coroutine.yield()
          return nextLine()
        end }
      end }
      local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
      local invocation = runner:start { userId = "u", sessionId = "run", newMessage = "Go" }
      local steps = 0
      while invocation:step() do steps = steps + 1 end
      assert.is_true(waited >= 6 and steps >= waited)
      expectSame(service, checks.get(service, "copy"))
    end)
  end)
end)
