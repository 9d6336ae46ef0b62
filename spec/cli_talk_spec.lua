-- What a user sees and says in `moonpad run`: at a terminal, and through pipes.
local files = require "spec.support.files"
local moonpad = require "moonpad"
local server = require "spec.support.http"
local support = require "spec.support"
local terminal = require "spec.support.terminal"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(7)

local quote = support.quote
local read, write, here = files.read, files.write, files.here

local GUIDE <const> = [[
local moonpad = require "moonpad"

local function tool(name, run, more)
  local definition = { name = name, description = name, run = run }
  for key, value in pairs(more or {}) do definition[key] = value end
  return moonpad.tool(definition)
end

local tools = {
  tool("look", function() return { sky = "clear\27[2J" } end),
  tool("breaks", function() error("bad weather\7", 0) end),
  tool("boss", function() return nil end, { longRunning = true }),
  tool("order", function() return { status = "on its way" } end, { longRunning = true }),
  tool("failing", function() return nil, "out of stock" end, { longRunning = true }),
  tool("pay", function(args) return { paid = args.amount } end, {
    requireConfirmation = true, parameters = { type = "object", properties = { amount = { type = "integer" } } },
  }),
}
local expert = moonpad.agent { name = "Expert", description = "knows", model = function() return "I know." end }

local NAMES = { look = true, breaks = true, boss = true, order = true, failing = true }

local function answer(text)
  if NAMES[text] then return moonpad.functionCall(text, {}) end
  if text == "pay" then return moonpad.functionCall("pay", { amount = 5 }) end
  if text == "expert" then return moonpad.functionCall("transfer_to_agent", { agent_name = "Expert" }) end
  if text == "escape" then return "a\27]0;title\7\n\tb\xC2\x9B31m" end
  if text == "fail" then error("no \27[31mluck", 0) end
  if text == "sleep" then moonpad.sleep(600) end
  return ("%d bytes: %s"):format(#text, text:sub(1, 40))
end

return moonpad.agent {
  name = "Guide", tools = tools, subAgents = { expert },
  model = function(request)
    local part = request.contents[#request.contents].parts[1]
    if part.text then return answer(part.text) end
    return "It says " .. moonpad.json.encode(part.functionResponse.response)
  end,
}
]]

-- Two begins and ends, and Whole answers, while One is streaming.
local PARALLEL <const> = [[
local moonpad = require "moonpad"
local step = 0

local whole = moonpad.agent { name = "Whole", model = function()
  while step < 4 do coroutine.yield() end
  return "all at once"
end }
return moonpad.parallelAgent { name = "Both", subAgents = {
  moonpad.agent { name = "One", model = function()
    local count = 0
    return function()
      count = count + 1
      if count <= 6 then
        step = count
        coroutine.yield()
        return ("one%d "):format(count)
      end
    end
  end },
  moonpad.agent { name = "Two", model = function()
    local count = 0
    return function()
      while step < 2 + count do coroutine.yield() end
      count = count + 1
      if count <= 2 then return ("two%d "):format(count) end
    end
  end },
  whole,
} }
]]

describe("moonpad run", function()
  local folder

  before_each(function()
    folder = support.tmpdir()
    write(folder .. "/agent.lua", GUIDE)
  end)
  after_each(support.cleanup)

  local function commandLine(line, environment)
    return ("env -u OPENAI_API_KEY -u OPENAI_BASE_URL -u NO_COLOR XDG_DATA_HOME=%s/data XDG_STATE_HOME=%s/state "
      .. "LC_ALL=C.UTF-8 USER=ann %s bin/moonpad %s"):format(folder, folder, environment or "", line)
  end

  -- Runs the agent to the end; returns the exit code, standard output and standard error.
  local function run(words, input, name)
    write(folder .. "/in", input or "")
    local agent = quote(("%s/%s.lua"):format(folder, name or "agent"))
    local _, _, code = os.execute(("%s < %s/in > %s/out 2> %s/err"):format(
      commandLine(("run %s %s"):format(agent, words or "")), folder, folder, folder))
    return code, read(folder .. "/out"), read(folder .. "/err")
  end

  local function start(environment, words)
    return terminal.start { folder = folder, type = "xterm", command = ("cd %s && exec %s"):format(
      quote(here()), commandLine(("run %s/agent.lua %s"):format(folder, words or ""), environment)) }
  end

  local function talk(...)
    local screen = start()
    for number, line in ipairs { ... } do
      screen:waitForPrompts(number)
      screen:type(line .. "\n")
    end
    screen:waitForPrompts(select("#", ...) + 1)
    local shown = screen:close "/quit\n"
    assert.matches("code 0", shown)
    return shown
  end

  describe("with a message", function()
    it("reads one of many lines from a file or standard input, behind the words", function()
      write(folder .. "/letter", "Dear friend,\n\nbye\n\n")
      local message = "17 bytes: Dear friend,\n\nbye\n"
      local path = quote(folder .. "/letter")
      assert.same({ 0, message, "" }, { run("--file " .. path) })
      assert.same({ 0, message, "" }, { run("--file -", "Dear friend,\n\nbye\n\n") })
      assert.same({ 0, message, "" }, { run("-", "Dear friend,\n\nbye\n\n") })
      assert.same({ 0, "29 bytes: Answer it:\n\nDear friend,\n\nbye\n", "" }, { run("Answer it: --file " .. path) })
    end)

    it("takes a long one, however many blanks are in it", function()
      write(folder .. "/letter", "a" .. (" "):rep(2 ^ 20) .. "b" .. (" "):rep(2 ^ 20))
      local code, out = run("--file " .. quote(folder .. "/letter"))
      assert.equal(0, code)
      assert.matches("^1048578 bytes: a ", out)
    end)

    it("says what is wrong with it", function()
      write(folder .. "/bad", "a\xFFb")
      write(folder .. "/empty", " \n")
      for words, problem in pairs {
        ["--file " .. folder .. "/bad"] = "the message is not valid UTF-8 (byte 2)",
        ["--file " .. folder .. "/empty"] = "--file: " .. folder .. "/empty holds no message",
        ["--file " .. folder .. "/none"] = "--file: " .. folder .. "/none: No such file or directory",
        ["-"] = "--file: standard input holds no message",
      } do
        assert.same({ 1, "", ("moonpad: %s\n"):format(problem) }, { run(words) })
      end
      -- The variable of a script may be empty: that is no wish for a conversation.
      for _, words in ipairs { "''", "' '" } do
        assert.same({ 2, "", "moonpad: the message is empty\n" }, { run(words, "one\n") })
      end
    end)

    it("is not read from a folder #posix", function()
      local problem = ("moonpad: --file: %s cannot be read: Is a directory\n"):format(folder)
      assert.same({ 1, "", problem }, { run("--file " .. folder) })
    end)
  end)

  describe("through pipes", function()
    it("names the line that failed, and ends there", function()
      local problem = 'moonpad: line 2: model: the model of agent "Guide" failed: no \27[31mluck\n'
      assert.same({ 1, "3 bytes: one\n", problem }, { run("", "one\nfail\nthree\n") })
      assert.same({ 1, "", "moonpad: line 1: the message is not valid UTF-8 (byte 4)\n" }, { run("", "one\xFF\n") })
    end)

    it("leaves texts as they are, but for the CR of lines that end in CR LF", function()
      assert.same({ 0, "a\27]0;title\7\n\tb\xC2\x9B31m\n3 bytes: one\n", "" },
        { run("", "escape\r\none\r\n/quit\r\n") })
    end)

    it("fails where its input cannot be read #posix", function()
      local command = commandLine(("run %s/agent.lua"):format(folder))
      local _, _, code = os.execute(("%s < %s 2> %s/err"):format(command, folder, folder))
      assert.same({ 1, "moonpad: standard input cannot be read: Is a directory\n" }, { code, read(folder .. "/err") })
    end)

    it("shows who speaks and which tools run with --verbose alone", function()
      assert.same({ 0, 'It says {"sky":"clear\\u001b[2J"}\n', "" }, { run "look" })
      local _, out, err = run("--verbose --session s", "look\nbreaks\nexpert\n")
      assert.equal("", err)
      assert.equal([[
  > look {}
  < look {"sky":"clear\u001b[2J"}
Guide: It says {"sky":"clear\u001b[2J"}
  > breaks {}
  < breaks {"error":"bad weather\u0007"}
Guide: It says {"error":"bad weather\u0007"}
  > transfer_to_agent {"agent_name":"Expert"}
  < transfer_to_agent {"result":"ok"}
  the conversation goes to Expert
Expert: I know.
]], out)
    end)

    it("--json prints the stored events, --events those of a streamed answer as well", function()
      write(folder .. "/streams.lua", [[
        return require("moonpad").agent { name = "Guide", model = function()
          local words = { "one ", "two" }
          return function() return table.remove(words, 1) end
        end }
      ]])
      for flag, expected in pairs { ["--json"] = { "one two" }, ["--events"] = { "one ", "two", "one two" } } do
        local code, out, err = run(flag .. " hi", "", "streams")
        assert.same({ 0, "" }, { code, err })
        local texts = {}
        for line in out:gmatch "[^\n]+" do texts[#texts + 1] = moonpad.json.decode(line).content.parts[1].text end
        assert.same(expected, texts)
      end
    end)

    it("shows answers that are streamed at the same time one after the other, each whole", function()
      write(folder .. "/parallel.lua", PARALLEL)
      local code, out, err = run("--verbose go", "", "parallel")
      assert.same({ 0, "" }, { code, err })
      local lines = {}
      for line in out:gmatch "[^\n]+" do lines[#lines + 1] = line end
      table.sort(lines)
      assert.same({ "One: one1 one2 one3 one4 one5 one6 ", "Two: two1 two2 ", "Whole: all at once" }, lines)
    end)

    it("shows what a callback has made of an answer that was streamed", function()
      write(folder .. "/changed.lua", [[
        return require("moonpad").agent { name = "Guide",
          model = function()
            local words = { "my ", "secret" }
            return function() return table.remove(words, 1) end
          end,
          afterModelCallback = function(_, response)
            if not response.partial then return { content = { parts = { { text = "no secret" } } } } end
          end,
        }
      ]])
      assert.same({ 0, "my secret\nno secret\n", "" }, { run("hi", "", "changed") })
    end)
  end)

  describe("with calls that wait", function()
    local BOSS <const> = "(waiting for the answer of boss {}: /answer%s TEXT or JSON)\n"
    local PAY <const> = '(waiting for your word on pay {"amount":5}: /approve%s or /reject%s)\n'

    it("lists them, also in a later start, and takes the answers", function()
      local code, out, err = run "boss"
      assert.same({ 0, "" }, { code, out })
      assert.matches("^%(waiting for the answer of boss {}, call [^;]+; in a conversation: /answer TEXT or JSON%)\n$",
        err)
      assert.same({ 0, BOSS:format "", "" }, { run("", "/waiting\n") })
      run "pay"
      assert.same({ 0, BOSS:format " 1" .. PAY:format(" 2", " 2"), "" }, { run("", "/waiting\n") })
      code, out = run("", "/approve\n/answer yes, 3 %\n")
      assert.same({ 0, 'It says {"paid":5}\nIt says {"result":"yes, 3 %"}\n' }, { code, out })
      assert.same({ 0, "Nothing waits for an answer.\n", "" }, { run("", "/waiting\n") })
    end)

    it("lists a call whose tool has said something for now", function()
      run "order"
      local waits = '(waiting for the answer of order {}: /answer TEXT or JSON)\n'
      assert.same({ 0, waits, "" }, { run("", "/waiting\n") })
      assert.same({ 0, 'It says {"came":true}\n', "" }, { run("", '/answer {"came":true}\n') })
      assert.same({ 0, "Nothing waits for an answer.\n", "" }, { run("", "/waiting\n") })
      run "failing"
      assert.same({ 0, "Nothing waits for an answer.\n", "" }, { run("", "/waiting\n") })
    end)

    it("takes JSON, and does not take an object that breaks off for a text", function()
      run "boss"
      local code, out, err = run("", '/answer {"raise":\n')
      assert.same({ 1, "" }, { code, out })
      assert.matches("^moonpad: line 1: [^\n]*byte", err)
      assert.same({ 0, 'It says {"raise":3}\n', "" }, { run("", '/answer {"raise":3}\n') })
      run "boss"
      assert.same({ 0, 'It says {"result":3}\n', "" }, { run("", "/answer 3\n") })
    end)

    it("rejects a call, named by its number or not", function()
      for _, line in ipairs { "/reject", "/reject 1", '/reject {"why":"no"}' } do
        run "pay"
        assert.same({ 0, 'It says {"error":"This tool call is rejected."}\n', "" }, { run("", line .. "\n") })
      end
    end)

    it("says which one an answer is missing for", function()
      for line, problem in pairs { ["/answer x"] = "an answer", ["/approve"] = "an approval" } do
        assert.same({ 1, "", ("moonpad: line 1: No tool waits for %s.\n"):format(problem) }, { run("", line .. "\n") })
      end
      run "boss"
      run "boss"
      run "pay"
      local code, _, err = run("", "/answer x\n")
      assert.equal(1, code)
      assert.matches("^moonpad: line 1: Which one%? Say its number: .*/answer 1 TEXT.*/answer 2 TEXT", err)
      assert.same({ 1, "", "moonpad: line 1: 3 is answered with /approve or /reject.\n" }, { run("", "/answer 3 x\n") })
      assert.same({ 1, "", "moonpad: line 1: 1 is answered with /answer.\n" }, { run("", "/approve 1\n") })
      assert.equal('It says {"result":"x"}\n', (select(2, run("", "/answer 2 x\n"))))
    end)
  end)

  describe("at a terminal #posix", function()
    it("shows who speaks, which tools run, and no character that steers it", function()
      local shown = talk("look", "breaks", "escape", "fail", "expert")
      for _, text in ipairs {
        '\27[2m  > look {}\27[0m\r\n\27[2m  < look {"sky":"clear\\u001b[2J"}\27[0m\r\n\27[1mGuide:\27[0m It says',
        '\27[31m  < breaks {"error":"bad weather\\u0007"}\27[0m',
        "Guide:\27[0m a\\u001B]0;title\\u0007\r\n\tb\\u009B31m\r\n",
        'moonpad: model: the model of agent "Guide" failed: no \\u001B[31mluck\r\n',
        "\27[2m  the conversation goes to Expert\27[0m\r\n\27[1mExpert:\27[0m I know.",
      } do
        assert.matches(text, shown, 1, true)
      end
    end)

    it("has no colours where NO_COLOR is set", function()
      local screen = start "NO_COLOR=1"
      screen:waitForPrompts(1)
      screen:type "look\n"
      screen:waitForPrompts(2)
      assert.is_nil(screen:close("/quit\n"):find("\27[1m", 1, true))
      assert.matches("Guide: It says", screen:shown(), 1, true)
    end)

    it("shows in short lines what has happened, and helps with commands", function()
      local shown = talk("look", "pay", "/approve", "/events", "/help", "/stat")
      for _, line in ipairs {
        "  1 %d%d:%d%d:%d%d user: look", "  2 [%d:]+ Guide: > look {}", "Guide: asks whether to run pay {\"amount\":5}",
        "user: approves", "  /rewind   takes the last turn back", "/stat is no command, did you mean /state%?",
      } do
        assert.matches(line .. "[^\n]*\r\n", shown)
      end
    end)

    it("shows a sign of life, and takes it away", function()
      local screen = start()
      screen:waitForPrompts(1)
      screen:type "sleep\n"
      -- It fits the narrowest terminal: what is too long does not go on in the next line.
      screen:waitFor "\27[?7l\27[2mGuide is thinking .\27[0m\27[?7h\r\27[K"
      screen:type "\3"
      screen:waitFor "\r\27[K(cancelled)\r\n"
      screen:waitForPrompts(2)
      assert.matches("code 0", screen:close "/quit\n")
    end)

    it("Ctrl-C gives a new prompt, Ctrl-D ends", function()
      local screen = start()
      screen:waitForPrompts(1)
      screen:type "\3"
      screen:waitForPrompts(2)
      screen:type "one\n"
      screen:waitFor "3 bytes: one"
      screen:waitForPrompts(3)
      assert.matches("\n> [^\n]*\ncode 0", screen:close "\4")
    end)
  end)

  -- Where libedit is not installed, lines cannot be edited.
  local hasEditor = pcall(require, "moonpad.editline_core")
  describe("with libedit #posix", hasEditor and function()
    local LEFT <const>, UP <const> = "\27[D", "\27[A"

    it("edits lines by keys, and brings earlier ones back, also in a later start", function()
      local shown = talk("hllo" .. LEFT:rep(3) .. "e", UP .. "!")
      assert.matches("5 bytes: hello\r\n", shown, 1, true)
      assert.matches("6 bytes: hello!\r\n", shown, 1, true)
      assert.matches("7 bytes: hello!?\r\n", talk(UP .. UP .. "?"), 1, true)
    end)

    it("keeps earlier lines where nobody else can read them", function()
      talk "a secret"
      local pipe <close> = io.popen(("stat -c '%%a' %s/state/moonpad %s/state/moonpad/history"):format(folder, folder))
      assert.equal("700\n600\n", pipe:read "a")
    end)

    it("goes on in the next line behind a backslash", function()
      local screen = start()
      screen:waitForPrompts(1)
      screen:type "one \\\n"
      screen:waitFor "... "
      screen:type "two\n"
      screen:waitFor "8 bytes: one \r\ntwo\r\n"
      screen:close "/quit\n"
    end)

    it("loses no letter and no tab that is typed or pasted, whatever the locale", function()
      for _, locale in ipairs { "C", "C.UTF-8" } do
        local screen = start("LC_ALL=" .. locale)
        screen:waitForPrompts(1)
        screen:type "gr\xC3\xBCn\tblau\n"
        screen:waitFor "10 bytes: gr\xC3\xBCn\tblau"
        screen:close "/quit\n"
      end
    end)
  end or function() end)

  describe("with a model over HTTP #http", function()
    local web

    setup(function() web = server.start() end)
    teardown(function() web:stop() end)

    it("says at a terminal why a model is asked again #posix", function()
      web:script { ["/chat/completions"] = {
        server.json({ error = { message = "on fire" } }, { status = 500, headers = { ["Retry-After"] = "1" } }),
        server.json { choices = { { message = { role = "assistant", content = "Here I am." } } } },
      } }
      local screen = start(("OPENAI_API_KEY=k OPENAI_BASE_URL=%s"):format(web.url), "--model gpt-4o")
      screen:waitForPrompts(1)
      screen:type "hello\n"
      screen:waitFor "HTTP 500; asking again in 1 s (attempt 2)"
      screen:waitFor "Guide:\27[0m Here I am."
      assert.matches("code 0", screen:close "/quit\n")
    end)
  end)
end)
