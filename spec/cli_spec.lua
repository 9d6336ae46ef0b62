-- The command, as a process of its own.
local files = require "spec.support.files"
local moonpad = require "moonpad"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(7)

local quote, read, write = support.quote, files.read, files.write

describe("bin/moonpad", function()
  local folder, db

  before_each(function()
    folder = support.tmpdir()
    db = folder .. "/state.db"
  end)
  after_each(support.cleanup)

  -- Runs a command line (of the shell); returns the exit code, standard output and standard error.
  local function moonpadCommand(line, input, prefix)
    write(folder .. "/in", input or "")
    local command = ("XDG_DATA_HOME=%s USER=ann %sbin/moonpad %s < %s > %s 2> %s"):format(quote(folder .. "/data"),
      prefix or "", line, quote(folder .. "/in"), quote(folder .. "/out"), quote(folder .. "/err"))
    local _, _, code = os.execute(command)
    return code, read(folder .. "/out"), read(folder .. "/err")
  end

  local function agentFile(source)
    local path = folder .. "/agent.lua"
    write(path, source)
    return quote(path)
  end

  local counter = [[
    local moonpad = require "moonpad"
    return moonpad.agent {
      name = "Counter",
      beforeAgentCallback = function(context) context.state:increment "user:count" end,
      model = function(request, context)
        return request.contents[#request.contents].parts[1].text .. " " .. context.state["user:count"]
      end,
    }
  ]]

  describe("run", function()
    it("answers a message, and remembers it in the next process", function()
      local agent = agentFile(counter)
      local code, out, err = moonpadCommand(("run %s --db %s Hello there"):format(agent, quote(db)))
      assert.same({ 0, "Hello there 1\n", "" }, { code, out, err })
      code, out = moonpadCommand(("run %s --db %s Again"):format(agent, quote(db)))
      assert.same({ 0, "Again 2\n" }, { code, out })
      local service <close> = moonpad.open("sqlite:" .. db)
      local session = service:getSession { appName = "Counter", userId = "ann", sessionId = "default" }
      assert.equal(2, session.conversationCount)
    end)

    it("answers the lines of standard input, with the names that it is given", function()
      local line = ("run %s --db %s --app shop --user bob --session one"):format(agentFile(counter), quote(db))
      local code, out = moonpadCommand(line, "one\n\n  \ntwo\n")
      assert.same({ 0, "one 1\ntwo 2\n" }, { code, out })
      local service <close> = moonpad.open("sqlite:" .. db)
      assert.equal(2, service:getSession({ appName = "shop", userId = "bob", sessionId = "one" }).conversationCount)
    end)

    it("keeps its state in a folder of the user's, which it creates", function()
      local code = moonpadCommand(("run %s Hello"):format(agentFile(counter)))
      assert.equal(0, code)
      local service <close> = moonpad.open("sqlite:" .. folder .. "/data/moonpad/Counter.db")
      assert.equal(1, #service:listSessions { appName = "Counter" })
    end)

    it("keeps the agent's artifacts in the same file", function()
      local agent = agentFile [[
        return require("moonpad").agent {
          name = "Clerk", instruction = "Notes: {artifact.notes.txt?}",
          beforeModelCallback = function(context, request) context:saveArtifact("notes.txt", "seen") end,
          model = function(request) return request.systemInstruction end,
        }
      ]]
      local line = ("run %s --db %s Hi"):format(agent, quote(db))
      assert.equal("Notes: \n", (select(2, moonpadCommand(line))))
      assert.equal("Notes: seen\n", (select(2, moonpadCommand(line))))
      local artifacts <close> = moonpad.artifactService("sqlite:" .. db)
      local name = { appName = "Clerk", userId = "ann", sessionId = "default", filename = "notes.txt" }
      assert.same({ 0, 1 }, artifacts:versions(name))
    end)

    it("remembers what was said, for the agent to look it up in another session", function()
      local agent = agentFile [[
        local moonpad = require "moonpad"
        return moonpad.agent {
          name = "Clerk", tools = { moonpad.loadMemory },
          model = function(request)
            local last = request.contents[#request.contents].parts[1]
            if last.functionResponse then return moonpad.json.encode(last.functionResponse.response) end
            if not last.text:find "?" then return "Noted." end
            return { content = { parts = { { functionCall = { name = "load_memory", args = { query = "cat" } } } } } }
          end,
        }
      ]]
      local line = ("run %s --db %s "):format(agent, quote(db))
      assert.same({ 0, "Noted.\n", "" }, { moonpadCommand(line .. "My cat is called Tom") })
      local code, out, err = moonpadCommand(line .. "--session other 'What is it called?'")
      assert.same({ 0, "" }, { code, err })
      assert.matches("My cat is called Tom", out, 1, true)
      -- What others have said is nobody's.
      out = select(2, moonpadCommand(line .. "--user bob 'What is it called?'"))
      assert.is_nil(out:find("Tom", 1, true))
      -- What was taken back is forgotten.
      local function found()
        local memory <close> = moonpad.memoryService("sqlite:" .. db)
        local sessions = {}
        for _, item in ipairs(memory:searchMemory({ appName = "Clerk", userId = "ann", query = "cat" }).memories) do
          sessions[item.sessionId] = true
        end
        return sessions
      end
      assert.same({ default = true, other = true }, found())
      assert.equal(0, (moonpadCommand(line, "/rewind\n")))
      assert.same({ other = true }, found())
    end)

    it("takes a file as lua5.4 does: with a byte order mark, and a first line for the shell", function()
      for _, start in ipairs { "\xEF\xBB\xBF", "#!/usr/bin/env moonpad\n", "\xEF\xBB\xBF#!/usr/bin/env moonpad\n" } do
        local line = ("run %s --db %s Hello"):format(agentFile(start .. counter), quote(db))
        assert.equal(0, (moonpadCommand(line)))
        local code, _, err = moonpadCommand(("run %s Hi"):format(agentFile(start .. "error 'oops'")))
        assert.equal(1, code)
        assert.matches(("agent.lua:%d: oops"):format(start:find "\n" and 2 or 1), err, 1, true)
      end
    end)

    it("ignores a folder for its state that is not absolute #posix", function()
      local agent = agentFile(counter)
      local pipe <close> = assert(io.popen "pwd")
      local here = pipe:read "l"
      assert(os.execute(("cd %s && HOME=%s XDG_DATA_HOME=relative USER=ann %s/bin/moonpad run %s Hi > out"):format(
        quote(folder), quote(folder .. "/home"), quote(here), agent)))
      assert.is_nil(io.open(folder .. "/relative/moonpad/Counter.db"))
      local service <close> = moonpad.open("sqlite:" .. folder .. "/home/.local/share/moonpad/Counter.db")
      assert.equal(1, #service:listSessions { appName = "Counter" })
    end)

    it("says for whose answer it waits when a turn ends with a call that is open", function()
      local agent = agentFile [[
        local moonpad = require "moonpad"
        local answers = { now = function() return "soon" end, later = function() end }
        local function tool(name) return { name = name, longRunning = true, run = answers[name] } end
        return moonpad.agent {
          name = "Clerk", tools = { tool "now", tool "later" },
          model = function(request)
            local parts = {}
            for index, name in ipairs { "now", "later" } do
              parts[index] = { functionCall = { id = "c" .. index, name = name, args = {} } }
            end
            return { content = { parts = parts } }
          end,
        }
      ]]
      -- What `now` returned is what it says for now.
      local waits = "(waiting for the answer of %s {}, call c%d; in a conversation: /answer %d TEXT or JSON)\n"
      assert.same({ 0, "", waits:format("now", 1, 1) .. waits:format("later", 2, 2) },
        { moonpadCommand(("run %s --db %s Hi"):format(agent, quote(db))) })
    end)

    it("shows what an agent says that also tells of calls without ids", function()
      local source = [[
        return require("moonpad").customAgent { name = "C", run = function(context)
          context:emit { content = { parts = { { functionCall = { name = "t" } } } } }
          context:emit { content = { parts = { { functionResponse = { name = "t", response = {} } } } } }
          context:emit "done"
        end }]]
      assert.same({ 0, "done\n", "" }, { moonpadCommand(("run %s Hi"):format(agentFile(source))) })
    end)

    it("prints events as JSON lines", function()
      local _, out = moonpadCommand(("run %s --db %s --events Hello"):format(agentFile(counter), quote(db)))
      local lines = {}
      for line in out:gmatch "[^\n]+" do lines[#lines + 1] = moonpad.json.decode(line) end
      assert.equal(2, #lines)
      assert.same({ ["user:count"] = 1 }, lines[1].actions.stateDelta)
      assert.equal("Hello 1", lines[2].content.parts[1].text)
    end)

    it("runs the concierge, which remembers its guest", function()
      local line = "run examples/concierge.lua --db " .. quote(db)
      local talk = read "examples/concierge.txt"
      local _, first, err = moonpadCommand(line, talk)
      assert.equal("", err)
      assert.matches("^Welcome to Hotel Moonpad. This is visit 1.\n", first)
      assert.matches("Your plan: %[\"a table at eight\",\"a massage at ten\",\"a taxi at eleven\"%]\n", first)
      assert.matches("Sorry: the sauna is not on your plan.\n", first)
      assert.matches("You are Ann, and you like %[\"quiet rooms\"%].\n$", first)
      local _, second = moonpadCommand(line, talk)
      assert.matches("^Welcome back, Ann. This is visit 2.\n", second)
      assert.matches("Sorry: a table at eight is on your plan already.\n", second)
    end)
  end)

  describe("sessions, events and state", function()
    it("show what is stored", function()
      moonpadCommand(("run %s --db %s Hello"):format(agentFile(counter), quote(db)))
      local where = ("--db %s --app Counter"):format(quote(db))
      local code, out = moonpadCommand("sessions " .. where)
      assert.equal(0, code)
      assert.matches("USER%s+SESSION%s+EVENTS%s+LAST UPDATE\nann%s+default%s+3%s+%d%d%d%d%-", out)
      code, out = moonpadCommand("events " .. where)
      assert.equal(0, code)
      local authors = {}
      for line in out:gmatch "[^\n]+" do authors[#authors + 1] = moonpad.json.decode(line).author end
      assert.same({ "user", "Counter", "Counter" }, authors)
      code, out = moonpadCommand("state " .. where)
      assert.same({ 0, "user:count = 1\n" }, { code, out })
    end)

    it("show state sorted, as JSON", function()
      local service = moonpad.open("sqlite:" .. db)
      service:createSession {
        appName = "shop", userId = "ann", sessionId = "default",
        state = { b = { 1, 2 }, a = "x\ny", ["user:n"] = 1.0 },
      }
      service:close()
      local _, out = moonpadCommand(("state --db %s --app shop"):format(quote(db)))
      assert.equal('a = "x\\ny"\nb = [1,2]\nuser:n = 1.0\n', out)
    end)

    it("do not create a file that is missing", function()
      for _, command in ipairs { "sessions", "events", "state" } do
        local code, out, err = moonpadCommand(("%s --db %s --app shop"):format(command, quote(db)))
        assert.same({ 1, "" }, { code, out })
        assert.equal(("moonpad: there is no file %s\n"):format(db), err)
        assert.is_nil(io.open(db))
      end
    end)

    it("say what is missing where permissions do not suffice #posix", function()
      local archive = folder .. "/archive"
      local path = archive .. "/state.db"
      assert(os.execute("mkdir " .. quote(archive)))
      do
        local service <close> = moonpad.open("sqlite:" .. path)
        service:createSession { appName = "shop", userId = "ann", sessionId = "default", state = { a = 1 } }
      end
      local bound = support.boundByPermissions()
      local function try(fileMode, folderMode, expected)
        assert(os.execute(("chmod %s %s && chmod %s %s"):format(fileMode, quote(path), folderMode, quote(archive))))
        for _, command in ipairs { "sessions", "events", "state" } do
          local code, out, err = moonpadCommand(("%s --db %s --app shop"):format(command, quote(path)), nil, bound)
          assert.same({ 1, "", ("moonpad: %s\n"):format(expected) }, { code, out, err })
        end
        assert(os.execute(("chmod 700 %s && chmod 600 %s"):format(quote(archive), quote(path))))
      end
      try("400", "700", ("storage: %s: the file is read-only (Permission denied), and even reading it needs the -wal "
        .. "and -shm files beside it to be written: use a copy"):format(path))
      try("600", "500", ("storage: %s: its folder cannot be written (Permission denied), which the -wal and -shm files "
        .. "need, even for reading: use a copy"):format(path))
      try("000", "700", ("the file cannot be read: %s: Permission denied"):format(path))
      try("600", "000", ("the file cannot be read: %s: Permission denied"):format(path))
      local code, out = moonpadCommand(("state --db %s --app shop"):format(quote(path)), nil, bound)
      assert.same({ 0, "a = 1\n" }, { code, out })
    end)

    it("leave an empty file alone", function()
      write(db, "")
      for _, command in ipairs { "sessions", "events", "state" } do
        assert.same({ 1, "", ("moonpad: %s is empty: nothing has been stored there\n"):format(db) },
          { moonpadCommand(("%s --db %s --app shop"):format(command, quote(db))) })
        assert.equal("", read(db))
      end
      assert.is_nil(io.open(db .. "-wal"))
    end)

    it("say so when the session is missing", function()
      moonpadCommand(("run %s --db %s Hello"):format(agentFile(counter), quote(db)))
      local code, _, err = moonpadCommand(("state --db %s --app Counter --session x"):format(quote(db)))
      assert.equal(1, code)
      assert.equal('moonpad: there is no session "x" of user "ann" in application "Counter"\n', err)
    end)
  end)

  describe("a mistake", function()
    local function mistake(line, pattern, expected)
      local code, out, err = moonpadCommand(line)
      assert.equal(expected or 1, code)
      assert.equal("", out)
      assert.matches("^moonpad: [^\n]*" .. pattern .. "[^\n]*\n$", err)
    end

    it("in the agent's file is told in one line", function()
      mistake("run " .. quote(folder .. "/none.lua") .. " Hi", "there is no agent file .*none.lua")
      mistake("run '' Hi", 'there is no agent file ""')
      mistake("run " .. quote(folder) .. " Hi", "is a folder, and there is no agent.lua in it")
      mistake(("run %s Hi"):format(agentFile "return {"), "agent.lua:1: .*expected")
      mistake(("run %s Hi"):format(agentFile "return 42"), "must return an agent .* returned a number")
      mistake(("run %s Hi"):format(agentFile ""), "must return an agent .* returned nothing")
      mistake(("run %s Hi"):format(agentFile "error 'oops'"), "agent.lua:1: oops")
      mistake(("run %s Hi"):format(agentFile "error {}"), "a table without a message was raised: {}")
      mistake(("run %s Hi"):format(agentFile "error { message = 'oops' }"), "oops")
      mistake(("run %s Hi"):format(agentFile "error()"), "without an error value")
      mistake(("run %s --model gpt-4o Hi"):format(agentFile [[
        return require("moonpad").sequentialAgent { name = "Flow", subAgents = {} }
      ]]), '%-%-model: no agent of "Flow" asks a model')
      mistake(("run %s Hi"):format(agentFile "return require('moonpad').agent { nam = 'x' }"),
        "agent.lua: invalid_argument: agent: nam: unknown field, did you mean name")
      mistake(("run %s Hi"):format(agentFile "local a = require('moonpad').agent { nam = 'x' } return a"),
        "invalid_argument: agent: nam: unknown field, did you mean name%? %(at [^ ]*agent.lua:1%)")
    end)

    it("in the permissions of the agent's file is told as that #posix", function()
      local agent = agentFile(counter)
      assert(os.execute("chmod 000 " .. agent))
      local problem = ("the agent file cannot be read: %s/agent.lua: Permission denied"):format(folder)
      assert.same({ 1, "", "moonpad: " .. problem .. "\n" },
        { moonpadCommand(("run %s --db %s Hi"):format(agent, quote(db)), nil, support.boundByPermissions()) })
    end)

    it("in the agent's file has its traceback with --debug", function()
      local agent = agentFile [[local function fail() error "oops" end
        fail()
        return nil]]
      local code, _, err = moonpadCommand(("--debug run %s Hi"):format(agent))
      assert.equal(1, code)
      assert.matches("^moonpad: [^\n]*agent.lua:1: oops\n", err)
      assert.matches("stack traceback", err)
      assert.matches("agent.lua:2: in ", err, 1, true)
    end)

    it("while the agent runs is told in one line, and with --debug with a traceback", function()
      local agent = agentFile [[local function fail() error "oops" end
        return require("moonpad").agent { name = "A", model = function() fail() return "never" end }]]
      mistake(("run %s --db %s Hi"):format(agent, quote(db)), "agent.lua:1: oops")
      local code, _, err = moonpadCommand(("--debug run %s --db %s Hi"):format(agent, quote(db)))
      assert.equal(1, code)
      assert.matches("stack traceback", err)
      assert.matches("agent.lua:2: in ", err, 1, true)
    end)

    it("that cannot say what it is is told all the same", function()
      local mute = "setmetatable({}, { __tostring = function() error 'no words' end })"
      mistake(("run %s Hi"):format(agentFile("error(" .. mute .. ")")), "cannot be shown as text")
      local agent = agentFile(([[return require("moonpad").agent { name = "A", model = function() error(%s) end }]])
        :format(mute))
      mistake(("run %s --db %s Hi"):format(agent, quote(db)), "cannot be shown as text")
    end)

    it("of a tool is told with --debug, whatever the model makes of it", function()
      local agent = agentFile [[local moonpad = require "moonpad"
        local function fail() error "oops" end
        local answers = moonpad.models.scripted {
          { content = { parts = {
            { functionCall = { name = "look", args = {} } }, { functionCall = { name = "sit" } },
          } } },
          "All is well.",
        }
        return moonpad.agent { name = "A", model = answers, tools = {
          moonpad.tool { name = "look", run = function() fail() return 1 end },
          moonpad.tool { name = "sit", run = function() return 1 end },
        } }]]
      local line = ("run %s --db %s Hi"):format(agent, quote(db))
      assert.same({ 0, "All is well.\n", "" }, { moonpadCommand(line) })
      local code, out, err = moonpadCommand("--debug " .. line)
      assert.same({ 0, "All is well.\n" }, { code, out })
      assert.matches("^%(tool look failed: [^\n]*agent.lua:2: oops\nstack traceback:\n.*agent.lua:10: in [^\n]*", err)
      assert.is_nil(err:find("sit", 1, true))
    end)

    it("names no line of moonpad's own, however long the path to it is", function()
      local deep = folder .. "/" .. ("a-long-name/"):rep(6)
      -- Without what preloads a sanitizer: it finds fault with `cp`.
      assert(os.execute(("env -u LD_PRELOAD sh -c 'mkdir -p %s && cp -r bin lua %s'"):format(deep, deep)))
      write(db, ("not a database "):rep(100))
      local build = os.getenv "MOONPAD_BUILD" or "build"
      local pipe <close> = assert(io.popen(("MOONPAD_BUILD=%s %sbin/moonpad state --app A --db %s 2>&1"):format(
        quote(build), deep, quote(db))))
      assert.equal(("moonpad: corrupt: %s: not a database\n"):format(support.toldPath(db)), pipe:read "a")
    end)

    it("when the output cannot be written is told, not passed over", function()
      local agent = agentFile(counter)
      assert.equal(0, (moonpadCommand(("run %s --db %s Hi"):format(agent, quote(db)))))
      local lines = { "run " .. agent .. " Hi", "events --app Counter", "state --app Counter",
        "sessions --app Counter" }
      for _, line in ipairs(lines) do
        local command = ("USER=ann bin/moonpad %s --db %s 2>&1 > /dev/full"):format(line, quote(db))
        local pipe = assert(io.popen(command))
        assert.equal("moonpad: standard output could not be written\n", pipe:read "a")
        assert.same({ nil, "exit", 1 }, { pipe:close() })
      end
    end)

    it("of the model is told in one line", function()
      mistake(("run %s --db %s Hi"):format(agentFile [[
        return require("moonpad").agent { name = "A", model = function()
          return { errorCode = "QUOTA", errorMessage = "too much" }
        end }
      ]], quote(db)), "QUOTA: too much")
    end)

    it("on the command line is told with exit code 2", function()
      mistake("", "command", 2)
      mistake("dance", "dance", 2)
      mistake("state", "say %-%-app NAME or %-%-db FILE", 2)
      mistake("sessions delete", "say %-%-app NAME or %-%-db FILE", 2)
      mistake("sessions import", "say %-%-db FILE or %-%-app NAME", 2)
      mistake("forget x --app a", "%-%-user", 2)
      mistake("sessions fork --app x --at two", "%-%-at must be an integer from 0", 2)
      mistake("eval a b --runs 0", "%-%-runs must be an integer from 1", 2)
      mistake("completion csh", "'shell' must be one of 'bash'", 2)
      mistake("run", "agent", 2)
      for _, name in ipairs { "db", "app", "user", "session", "model" } do
        mistake(("run x --%s ''"):format(name), ("%%-%%-%s must not be empty"):format(name), 2)
      end
      mistake("state --app x --session ''", "%-%-session must not be empty", 2)
    end)

    it("in the database is told in one line", function()
      write(db, ("not a database "):rep(100))
      mistake(("run %s --db %s Hi"):format(agentFile(counter), quote(db)), "")
      mistake(("state --db %s --app A"):format(quote(db)), "corrupt: ")
    end)
  end)

  it("says how to get what it needs, where argparse is missing", function()
    local nowhere = "LUA_PATH_5_4=/nowhere/?.lua LUA_CPATH_5_4=/nowhere/?.so "
    for _, line in ipairs { "--version", "run x.lua Hi", "" } do
      local code, out, err = moonpadCommand(line, nil, nowhere)
      assert.same({ 1, "" }, { code, out })
      assert.equal("moonpad: the command needs the Lua module argparse, which is not installed: "
        .. "luarocks install argparse (on Debian: apt install lua-argparse)\n", err)
    end
  end)

  it("prints its version and its help", function()
    local code, out = moonpadCommand "--version"
    assert.equal(0, code)
    assert.matches("^moonpad %d+%.%d+%.%d+\n$", out)
    code, out = moonpadCommand "--help"
    assert.equal(0, code)
    assert.matches("Usage: moonpad", out)
  end)

  it("finds its modules through a symbolic link, from another folder #posix", function()
    local pipe <close> = io.popen "pwd"
    local here = pipe:read "l"
    assert(os.execute(("ln -s %s %s"):format(quote(here .. "/bin/moonpad"), quote(folder .. "/mp"))))
    local command = ("cd / && env -u LUA_PATH -u LUA_CPATH %s --version > %s 2>&1"):format(
      quote(folder .. "/mp"), quote(folder .. "/out"))
    os.execute(command)
    assert.matches("^moonpad %d", read(folder .. "/out"))
  end)
end)
