-- Conversations with the command, as a user has them: in a process of its own, with models
-- over HTTP.
local files = require "spec.support.files"
local moonpad = require "moonpad"
local server = require "spec.support.http"
local support = require "spec.support"
local terminal = require "spec.support.terminal"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(7)

local quote, waitUntil = support.quote, support.waitUntil
local read, write, here = files.read, files.write, files.here

-- No key of the developer's may come in.
local ENVIRONMENT = "env -u OPENAI_API_KEY -u OPENAI_BASE_URL -u GOOGLE_API_KEY -u GEMINI_API_KEY USER=ann"

describe("bin/moonpad", function()
  local folder, db

  before_each(function()
    folder = support.tmpdir()
    db = folder .. "/state.db"
  end)
  after_each(support.cleanup)

  local function commandLine(line, environment)
    return ("exec %s XDG_DATA_HOME=%s %s %s/bin/moonpad %s"):format(
      ENVIRONMENT, quote(folder .. "/data"), environment or "", quote(here()), line)
  end

  -- Runs to its end; returns the exit code, standard output and standard error.
  local function run(line, input, environment)
    write(folder .. "/in", input or "")
    local _, _, code = os.execute(("cd %s && %s < in > out 2> err"):format(
      quote(folder), commandLine(line, environment)))
    return code, read(folder .. "/out"), read(folder .. "/err")
  end

  local function agentFile(source)
    local path = folder .. "/agent.lua"
    write(path, source)
    return quote(path)
  end

  local function stored(app)
    local service <close> = moonpad.open("sqlite:" .. db)
    local session = service:getSession { appName = app, userId = "ann", sessionId = "default" }
    local texts = {}
    for index, event in ipairs(session and session.events or {}) do
      texts[index] = event.author .. ": " .. event:text()
    end
    return texts, session and session.state:getAll()
  end

  describe("in a conversation", function()
    local counter = [[
      return require("moonpad").agent {
        name = "Counter",
        model = function(request, context)
          context.state:increment "count"
          context.state["user:last"] = request.contents[#request.contents].parts[1].text
          return ("%d of %d"):format(context.state.count, (#request.contents + 1) // 2)
        end,
      }
    ]]

    local function talk(lines)
      return run(("run %s --db %s"):format(agentFile(counter), quote(db)), table.concat(lines, "\n") .. "\n")
    end

    it("/state shows the state, /events the events as JSON lines", function()
      local code, out, err = talk { "/state", "/events", "hello", "/state", "/events" }
      assert.same({ 0, "" }, { code, err })
      local lines = {}
      for line in out:gmatch "[^\n]+" do lines[#lines + 1] = line end
      assert.same({ "1 of 1", "count = 1", 'user:last = "hello"' }, { table.unpack(lines, 1, 3) })
      assert.equal(5, #lines)
      local message, answer = moonpad.json.decode(lines[4]), moonpad.json.decode(lines[5])
      assert.same({ "user", "hello" }, { message.author, message.content.parts[1].text })
      assert.same({ count = 1, ["user:last"] = "hello" }, answer.actions.stateDelta)
    end)

    it("/rewind takes back one turn after the other", function()
      local code, out, err = talk {
        "one", "two", "/rewind", "/state", "three", "/rewind", "/rewind", "/rewind", "four",
      }
      assert.equal(0, code)
      local told = "The last turn has been taken back. What other sessions share stays: user:last.\n"
      local state = 'count = 1\nuser:last = "two"\n'
      assert.equal("1 of 1\n2 of 2\n" .. told .. state .. "2 of 2\n" .. told .. told .. "1 of 1\n", out)
      assert.equal("There is no turn to take back.\n", err)
      assert.same({ count = 1, ["user:last"] = "four" }, (select(2, stored "Counter")))
    end)

    it("shows events that took keys away", function()
      local code, out, err = talk { "one", "/rewind", "/events" }
      assert.same({ 0, "" }, { code, err })
      assert.matches('"removedStateKeys":["count"]', out, 1, true)
      code, out, err = run(("events --app Counter --db %s"):format(quote(db)))
      assert.same({ 0, "" }, { code, err })
      assert.matches('"removedStateKeys":["count"]', out, 1, true)
      local _, lines = out:gsub("\n", "")
      assert.equal(3, lines)
    end)

    it("/quit ends it, and what comes behind is not read", function()
      local code, out = talk { "one", "/quit", "two" }
      assert.same({ 0, "1 of 1\n" }, { code, out })
      assert.equal(2, #stored "Counter")
    end)

    it("from a pipe, another word with a slash ends it: nothing is passed over", function()
      for line, problem in pairs {
        ["/stat"] = "/stat is no command, did you mean /state%? %(a message .* a blank before it%)%. "
          .. "Commands: /help  /state  .* /quit",
        ["/"] = "/ is no command", ["/etc/passwd has what?"] = "/etc/passwd is no command",
        ["/state now"] = "/state takes no argument, got now", ["/quit it"] = "/quit takes no argument",
      } do
        local code, out, err = talk { "one", line, "two" }
        assert.same({ 1, "1 of 1\n" }, { code, out })
        assert.matches("^moonpad: line 2: " .. problem .. "[^\n]*\n$", err)
        assert.equal(0, (run(("run %s --db %s"):format(agentFile(counter), quote(db)), "/rewind\n")))
      end
    end)

    it("a message that begins with a slash has a blank before it", function()
      local code, out, err = talk { " /state", "/state " }
      assert.same({ 0, '1 of 1\ncount = 1\nuser:last = " /state"\n', "" }, { code, out, err })
    end)

    it("goes on in the next process where it was", function()
      talk { "one" }
      local _, out = talk { "two", "/rewind", "/rewind", "/state" }
      assert.matches("^2 of 2\n", out)
      assert.same({ ["user:last"] = "two" }, (select(2, stored "Counter")))
    end)
  end)

  describe("new", function()
    it("writes an agent and a spec; what it tells to try works", function()
      local code, out, err = run "new helper"
      assert.same({ 0, "" }, { code, err })
      assert.matches("^Wrote helper/agent.lua and helper/agent_spec.lua. Try:\n", out)
      local tries = {}
      for line in out:gmatch "\n  ([^\n]+)" do tries[#tries + 1] = line end
      assert.equal(2, #tries)
      code, out, err = run(tries[1]:match "^moonpad (.*)$")
      assert.same({ 0, "You have 1 notes.\n", "" }, { code, out, err })
      local lua = here() .. "/lua/"
      local paths = ("LUA_PATH=%s LUA_CPATH=%s"):format(
        quote(("%s?.lua;%s?/init.lua;;"):format(lua, lua)), quote(package.cpath))
      local inside = "cd helper && " .. tries[2]:gsub("helper/", "")
      for _, try in ipairs { tries[2], inside } do
        local _, _, exit = os.execute(("cd %s && export %s && (%s -o TAP) > out 2>&1"):format(
          quote(folder), paths, try))
        out = read(folder .. "/out")
        assert.equal(0, exit, out)
        assert.matches("ok 1 %- helper remembers what it is told", out)
        assert.matches("ok 2 %- ", out)
      end
    end)

    it("leaves alone what is there", function()
      assert(os.execute("mkdir " .. quote(folder .. "/helper")))
      write(folder .. "/helper/agent.lua", "mine")
      local code, out, err = run "new helper"
      assert.same({ 1, "", "moonpad: helper is there already\n" }, { code, out, err })
      assert.equal("mine", read(folder .. "/helper/agent.lua"))
      write(folder .. "/taken", "mine")
      code, out, err = run "new taken"
      assert.same({ 1, "", "moonpad: taken is there already\n" }, { code, out, err })
      assert.equal("mine", read(folder .. "/taken"))
    end)

    it("wants an identifier", function()
      for _, name in ipairs { "../escape", "two words", "1st", "''" } do
        local code, out, err = run("new " .. (name == "''" and name or quote(name)))
        assert.same({ 1, "" }, { code, out })
        assert.matches('^moonpad: "[^"]*": a name is an identifier', err)
      end
    end)

    it("makes no agent of a name that an agent cannot have", function()
      local code, out, err = run "new user"
      assert.same({ 1, "" }, { code, out })
      assert.matches('"user" is who sends the messages', err)
      assert.is_nil(io.open(folder .. "/user/agent.lua"))
    end)
  end)

  describe("with a model over HTTP #http", function()
    local KEY = "sk-test-0123456789abcdefghij"
    local PATH = "/chat/completions"
    local web

    setup(function() web = server.start() end)
    teardown(function() web:stop() end)

    local function environment()
      return ("OPENAI_API_KEY=%s OPENAI_BASE_URL=%s"):format(KEY, web.url)
    end

    local function stream(texts, more)
      local events = {}
      for index, text in ipairs(texts) do
        events[index] = moonpad.json.encode { choices = { { index = 0, delta = { content = text } } } }
      end
      events[#events + 1] = '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}'
      events[#events + 1] = "[DONE]"
      return server.stream(events, more)
    end

    -- The agent's own model would be heard of.
    local function line(more)
      local agent = agentFile [[
        return require("moonpad").agent { name = "Guide", model = function() error "not this one" end }
      ]]
      return ("run %s --db %s --model gpt-4o %s"):format(agent, quote(db), more or "")
    end

    -- Starts the command; returns what its standard input is, and its process id once it is there.
    local function start(command)
      local pipe = assert(io.popen(("cd %s && echo $$ > pid && %s > out 2> err"):format(
        quote(folder), commandLine(command, environment())), "w"))
      waitUntil("the command", function() return read(folder .. "/pid"):find "\n" end)
      return pipe, tonumber(read(folder .. "/pid"))
    end

    local function waitForText(file, text)
      waitUntil(text, function() return read(folder .. "/" .. file):find(text, 1, true) end)
    end

    it("shows the text while the server is still sending", function()
      local reply = stream { "Once upon ", "a time." }
      reply.hold = reply.body:find("data: ", 2, true) - 1
      web:script { [PATH] = reply }
      local input = start(line "'Tell me a tale'")
      waitForText("out", "Once upon ")
      assert.equal("Once upon ", read(folder .. "/out"))
      assert.equal(reply.hold, web:requests()[1].sent)
      web:release()
      assert.is_true(input:close())
      assert.equal("Once upon a time.\n", read(folder .. "/out"))
      assert.equal("", read(folder .. "/err"))
      assert.same({ "user: Tell me a tale", "Guide: Once upon a time." }, (stored "Guide"))
      local sent = web:sent()
      assert.equal("gpt-4o", sent.model)
      assert.equal("Bearer " .. KEY, web:requests()[1].headers.authorization)
    end)

    it("Ctrl-C ends a batch at once, and keeps the session #posix", function()
      local held = stream { "Let me ", "think for ever." }
      held.hold = held.body:find("data: ", 2, true) - 1
      web:script { [PATH] = { stream { "Yes?" }, held, stream { "Still here." } } }
      local input, pid = start(line())
      input:write("Hello?\nA hard question\nAnother one\n"):flush()
      waitForText("out", "Let me ")
      assert(os.execute("kill -INT " .. pid))
      assert.same({ nil, "exit", 130 }, { input:close() })
      assert.equal("Yes?\nLet me \n", read(folder .. "/out"))
      assert.equal("(cancelled)\n", read(folder .. "/err"))
      assert.same({ "user: Hello?", "Guide: Yes?", "user: A hard question" }, (stored "Guide"))
      local code, out = run(line "'And now?'", nil, environment())
      assert.same({ 0, "Still here.\n" }, { code, out })
      local asked = {}
      for index, message in ipairs(web:sent(3).messages) do asked[index] = message.content end
      assert.same({ "Hello?", "Yes?", "A hard question", "And now?" }, asked)
    end)

    it("Ctrl-C between two turns of a batch ends it as well #posix", function()
      local agent = agentFile [[
        return require("moonpad").agent { name = "Guide", model = function()
          io.popen("kill -INT $PPID"):close()
          return "Yes?"
        end }
      ]]
      local code = run(("run %s --db %s"):format(agent, quote(db)), "One\nTwo\n")
      assert.equal(130, code)
      assert.equal("user: One", (stored "Guide")[1])
      for _, text in ipairs((stored "Guide")) do assert.not_equal("user: Two", text) end
    end)

    it("--events writes each line as it comes, and fails where a turn does", function()
      local reply = stream { "Once upon ", "a time." }
      reply.hold = reply.body:find("data: ", 2, true) - 1
      web:script { [PATH] = reply }
      local input = start(line "--events 'Tell me a tale'")
      waitForText("out", '"text":"Once upon "')
      assert.matches("\n$", read(folder .. "/out"))
      web:release()
      assert.is_true(input:close())
      local agent = agentFile [[
        return require("moonpad").agent { name = "Guide", model = function()
          return { errorCode = "QUOTA", errorMessage = "too much" }
        end }
      ]]
      local code, out, err = run(("run %s --db %s --events Hi"):format(agent, quote(db)))
      assert.same({ 1, "moonpad: QUOTA: too much\n" }, { code, err })
      assert.matches('"errorCode":"QUOTA"', out, 1, true)
    end)

    it("Ctrl-C ends the run of a single message as well #posix", function()
      local held = stream { "Let me ", "think for ever." }
      held.hold = held.body:find("data: ", 2, true) - 1
      web:script { [PATH] = held }
      local input, pid = start(line "'A hard question'")
      waitForText("out", "Let me ")
      assert(os.execute("kill -INT " .. pid))
      assert.same({ nil, "exit", 130 }, { input:close() })
      assert.matches("%(cancelled%)", read(folder .. "/err"))
      assert.same({ "user: A hard question" }, (stored "Guide"))
    end)

    it("ends the line of an answer that breaks off, before it says so", function()
      local broken = stream { "Let me ", "think." }
      broken.body = broken.body:match "^(data: .-\n\n)" .. 'data: {"error":{"message":"bad weather"}}\n\n'
      web:script { [PATH] = broken }
      local code, out, err = run(line "'A hard question'", nil, environment())
      assert.same({ 1, "Let me \n" }, { code, out })
      assert.matches("^moonpad: model: [^\n]*bad weather\n$", err)
      assert.same({ "user: A hard question" }, (stored "Guide"))
    end)

    it("Ctrl-C once more ends the command where the agent never comes back #posix", function()
      local agent = agentFile [[
        return require("moonpad").agent { name = "Guide", model = function()
          io.stdout:write("busy\n"):flush()
          while true do end
        end }
      ]]
      local input, pid = start(("run %s --db %s Hello"):format(agent, quote(db)))
      waitForText("out", "busy\n")
      waitUntil("its end", function()
        os.execute("kill -INT " .. pid)
        return read(("/proc/%d/stat"):format(pid)):find "%) Z "
      end)
      assert.same({ nil, "signal", 2 }, { input:close() })
      assert.same({ "user: Hello" }, (stored "Guide"))
    end)

    it("Ctrl-C while it waits for input that is no terminal ends it quietly #posix", function()
      local agent = agentFile [[
        return require("moonpad").agent { name = "Guide", model = function() return "Yes?" end }
      ]]
      local input, pid = start(("run %s --db %s"):format(agent, quote(db)))
      input:write("Hello?\n"):flush()
      waitForText("out", "Yes?\n")
      -- Nothing else puts it to sleep any more. (Not every system tells what it sleeps on.)
      waitUntil("the wait for input", function()
        local reason = read(("/proc/%d/wchan"):format(pid))
        return (reason:find "pipe" or not reason:find "%a") and read(("/proc/%d/stat"):format(pid)):find "%) S "
      end)
      assert(os.execute("kill -INT " .. pid))
      assert.same({ nil, "exit", 130 }, { input:close() })
      assert.equal("", read(folder .. "/err"))
    end)

    it("says which variable is missing", function()
      local code, out, err = run(line "Hello")
      assert.same({ 1, "" }, { code, out })
      local problem = 'model "gpt-4o": no API key: set the environment variable OPENAI_API_KEY, or give '
        .. "moonpad.models.openai an apiKey"
      assert.equal(("moonpad: invalid_argument: %s\n"):format(problem), err)
      code, out, err = run(line "--model gemini-2.0-flash Hello")
      assert.same({ 1, "" }, { code, out })
      assert.matches("GOOGLE_API_KEY or GEMINI_API_KEY", err)
      code, out, err = run(line "--model nonesuch Hello")
      assert.same({ 1, "" }, { code, out })
      assert.matches('model "nonesuch": no provider is known', err)
    end)

    it("tells the provider's errors in a line, without the key", function()
      web:script { [PATH] = server.json({ error = { message = "Incorrect API key provided: " .. KEY .. "." } },
        { status = 401 }) }
      for _, flag in ipairs { "", "--debug " } do
        local code, out, err = run(flag .. line "Hello", nil, environment())
        assert.same({ 1, "" }, { code, out })
        assert.matches("^moonpad: model: openai \"gpt%-4o\": HTTP 401: Incorrect API key provided: %[redacted%]", err)
        assert.is_nil(err:find(KEY, 1, true))
      end
      assert.same({ "user: Hello", "user: Hello" }, (stored "Guide"))
    end)

    local function startAtTerminal(more, script, words)
      local command = commandLine(words or line(more), environment())
      return terminal.start { folder = folder, command = command, script = script }
    end

    it("where no terminal can be made, this says at once why #posix", function()
      write(folder .. "/none", "#!/bin/sh\necho 'script: failed to create pseudo-terminal' >&2\nexit 1\n")
      assert(os.execute("chmod +x " .. quote(folder .. "/none")))
      for script, why in pairs {
        ["./none"] = "script: failed to create pseudo-terminal", ["./no-such-command"] = "not found",
      } do
        local ok, problem = pcall(startAtTerminal, nil, script)
        assert.is_false(ok)
        for _, text in ipairs { "a terminal is needed", script, "bsdutils", "/dev/ptmx", why } do
          assert.matches(text, tostring(problem), 1, true)
        end
      end
    end)

    it("at a terminal Ctrl-C cancels the turn, and the conversation goes on #posix", function()
      local held = stream { "Let me ", "think for ever." }
      held.hold = held.body:find("data: ", 2, true) - 1
      web:script { [PATH] = { held, stream { "Yes?" } } }
      local screen = startAtTerminal()
      screen:waitFor "> "
      screen:type "A hard question\n"
      screen:waitFor "Let me "
      screen:type "\3"
      screen:waitFor "(cancelled)"
      screen:type "Hello?\n/stat\n"
      screen:waitFor "Yes?"
      screen:waitFor "/stat is no command"
      assert.matches("code 0", screen:close "/quit\n")
      assert.same({ "user: A hard question", "user: Hello?", "Guide: Yes?" }, (stored "Guide"))
    end)

    it("at a terminal, what goes into a file has no prompt and no hint in it #posix", function()
      web:script { [PATH] = { stream { "Yes?" }, stream { "Still here." } } }
      local screen = startAtTerminal "> log"
      screen:waitFor "/help lists the commands"
      screen:waitFor "> "
      screen:type "One\nTwo\n"
      waitForText("log", "Still here.")
      assert.matches("code 0", screen:close "/quit\n")
      assert.equal("Yes?\nStill here.\n", read(folder .. "/log"))
    end)

    it("at a terminal Ctrl-C that nobody has looked at when the prompt comes gives another one #posix", function()
      local agent = agentFile [[
        return require("moonpad").agent { name = "Guide", model = function()
          io.popen("kill -INT $PPID"):close()
          error("bad weather", 0)
        end }
      ]]
      local screen = startAtTerminal(nil, nil, ("run %s --db %s"):format(agent, quote(db)))
      screen:waitForPrompts(1)
      screen:type "One\n"
      screen:waitFor "bad weather"
      screen:waitForPrompts(3)
      screen:type "\3"
      screen:waitForPrompts(4)
      assert.matches("code 0", screen:close "/quit\n")
    end)

    it("at a terminal goes on after an error, and after Ctrl-C at the prompt #posix", function()
      local failing = server.json({ error = { message = "bad weather" } }, { status = 400 })
      web:script { [PATH] = { failing, stream { "Yes?" } } }
      local screen = startAtTerminal()
      screen:waitFor "/help"
      screen:waitForPrompts(1)
      screen:type "One\n"
      screen:waitFor "bad weather"
      -- What is pressed while a turn comes to its end is no Ctrl-C at the prompt.
      for count = 2, 4 do
        screen:waitForPrompts(count)
        screen:type "\3"
      end
      screen:waitForPrompts(5)
      assert.matches("%^C\r?\n> %^C\r?\n> %^C\r?\n> ", screen:shown())
      screen:type "Two\n"
      screen:waitFor "Yes?"
      -- The exit code is the command's, and not that of `script`, which the sanitizers find
      -- fault with.
      assert.matches("code 0", screen:close "/quit\n")
      assert.same({ "user: One", "user: Two", "Guide: Yes?" }, (stored "Guide"))
    end)
  end)
end)
