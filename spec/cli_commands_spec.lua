-- The command's ways to look at what is stored and to change it, as a process of its own.
local files = require "spec.support.files"
local moonpad = require "moonpad"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(5)

local quote, read, write = support.quote, files.read, files.write

describe("bin/moonpad", function()
  local folder, db

  before_each(function()
    folder = support.tmpdir()
    db = folder .. "/state.db"
  end)
  after_each(support.cleanup)

  -- Exit code, standard output, standard error.
  local function run(line, input)
    write(folder .. "/in", input or "")
    local _, _, code = os.execute(("env -u OPENAI_API_KEY -u OPENAI_BASE_URL XDG_DATA_HOME=%s USER=ann TZ=UTC "
      .. "bin/moonpad %s < %s > %s 2> %s"):format(quote(folder .. "/data"), line, quote(folder .. "/in"),
      quote(folder .. "/out"), quote(folder .. "/err")))
    return code, read(folder .. "/out"), read(folder .. "/err")
  end

  -- Runs what must succeed.
  local function output(line, input)
    local code, out, err = run(line, input)
    assert.same({ 0, "" }, { code, err })
    return out
  end

  local function fails(code, says, line, input)
    local exit, _, err = run(line, input)
    assert.equal(code, exit)
    assert.matches("^moonpad: [^\n]*\n$", err)
    assert.matches(says, err, 1, true)
  end

  local function store(app, user, id, state)
    local service <close> = moonpad.open("sqlite:" .. db, { clock = moonpad.testing.clock(1000) })
    local session = service:createSession { appName = app, userId = user, sessionId = id, state = state }
    service:appendEvent(session, { author = "user", content = { parts = { { text = "one" } } } })
    service:appendEvent(session, { author = "A", actions = { stateDelta = { n = 2 } } })
  end

  local function lines(text)
    local list = {}
    for line in text:gmatch "[^\n]+" do list[#list + 1] = moonpad.json.decode(line) end
    return list
  end

  describe("apps", function()
    it("lists the applications of a file, and of all files of the command", function()
      store("shop", "ann", "s1")
      store("another app", "bob", "s2")
      local out = output("apps --db " .. quote(db))
      assert.equal(("APP          SESSIONS  FILE\nanother app  1         %s\nshop         1         %s\n")
        :format(db, db), out)
      assert.same({ { app = "another app", sessions = 1, db = db }, { app = "shop", sessions = 1, db = db } },
        lines(output("apps --json --db " .. quote(db))))
      assert.equal("APP  SESSIONS  FILE\n", output "apps")
      write(folder .. "/agent.lua",
        "return require('moonpad').agent { name = 'Echo', model = function() return 'x' end }")
      output(("run %s hello"):format(quote(folder .. "/agent.lua")))
      assert.equal("Echo", lines(output "apps --json")[1].app)
    end)

    it("need not be named where there is one alone", function()
      store("shop", "ann", "default", { n = 1 })
      assert.equal("n = 2\n", output("state --db " .. quote(db)))
      store("bar", "ann", "default")
      fails(1, "holds several applications, say --app NAME: bar, shop", "state --db " .. quote(db))
      assert.equal("n = 2\n", output(("state --app shop --db %s"):format(quote(db))))
    end)
  end)

  describe("what is stored", function()
    it("is listed as JSON lines", function()
      store("shop", "ann", "s1")
      assert.same({ {
        app = "shop", user = "ann", session = "s1", events = 2, createTime = 1000.0, lastUpdateTime = 1000.0,
      } }, lines(output("sessions --json --db " .. quote(db))))
      assert.matches("ann   s1       2       1970%-01%-01 00:16:40 %+0000\n", output("sessions --db " .. quote(db)))
      assert.equal('{"n":2}\n', output(("state --json --session s1 --db %s"):format(quote(db))))
      assert.equal(2, #lines(output(("events --json --session s1 --db %s"):format(quote(db)))))
    end)

    it("stays one line each, whatever keys and names hold", function()
      store("shop", "a\27[31mn\nn", "s\t1", { ["a = b"] = 1, ["two\nlines"] = 2, [""] = 3, ["user:plain"] = 4 })
      assert.matches("a\\u001B[31mn\\nn  s\\t1", output("sessions --db " .. quote(db)), 1, true)
      local out = output(("state --db %s --user %s --session %s"):format(quote(db), quote "a\27[31mn\nn", quote "s\t1"))
      assert.equal('"" = 3\n"a = b" = 1\nn = 2\n"two\\nlines" = 2\nuser:plain = 4\n', out)
    end)

    it("is found by a URL as well", function()
      store("shop", "ann", "default")
      assert.equal("n = 2\n", output(("state --db sqlite:%s"):format(quote(db))))
      fails(1, "there is no file", "state --db sqlite:" .. quote(folder .. "/none.db"))
      assert.equal("n = 2\n", output(("state --db sqlite:///%s"):format(quote(db))))
      -- After three slashes the path is relative.
      fails(1, "there is no file nowhere/none.db", "state --db sqlite:///nowhere/none.db")
      fails(1, "unsupported", "state --db mongodb://localhost")
    end)
  end)

  describe("sessions", function()
    it("delete removes one, and says when there is none", function()
      store("shop", "ann", "s1")
      local line = ("sessions delete --db %s --session s1"):format(quote(db))
      assert.equal('Deleted session "s1" of user "ann" in application "shop".\n', output(line))
      fails(1, 'there is no session "s1" of user "ann"', line)
    end)

    it("export and import move one, under other names if asked", function()
      store("shop", "ann", "s1", { a = 1.5 })
      local exported = output(("sessions export --db %s --session s1"):format(quote(db)))
      assert.equal(3, #lines(exported))
      local path, other = folder .. "/s1.jsonl", folder .. "/other.db"
      assert.equal("", output(("sessions export --db %s --session s1 --output %s"):format(quote(db), quote(path))))
      assert.equal(exported, read(path))
      assert.equal('Imported session "s1" of user "ann" in application "shop".\n',
        output(("sessions import --db %s"):format(quote(other)), exported))
      assert.equal('Imported session "s9" of user "bob" in application "inn".\n',
        output(("sessions import %s --db %s --app inn --user bob --session s9"):format(quote(path), quote(other))))
      assert.equal("a = 1.5\nn = 2\n",
        output(("state --app inn --user bob --session s9 --db %s"):format(quote(other))))
      fails(1, "already_exists", ("sessions import --db %s"):format(quote(other)), exported)
      fails(1, "line 2", ("sessions import --db %s --session x"):format(quote(other)),
        exported:gsub("\n.-\n", "\nrubbish\n", 1))
      fails(1, "No such file", ("sessions import %s --db %s"):format(quote(folder .. "/none"), quote(other)))
    end)

    it("export says so when the disk is full #posix", function()
      store("shop", "ann", "s1")
      fails(1, "/dev/full: No space left on device", ("sessions export --db %s --session s1 --output /dev/full")
        :format(quote(db)))
    end)

    it("fork makes a new one, up to an event", function()
      store("shop", "ann", "s1", { n = 0 })
      assert.equal('Forked session "s2" of user "ann" in application "shop".\n',
        output(("sessions fork --db %s --session s1 --at 1 --to s2"):format(quote(db))))
      assert.equal("n = 0\n", output(("state --session s2 --db %s"):format(quote(db))))
      output(("sessions fork --db %s --session s1"):format(quote(db)))
      assert.equal(3, #lines(output("sessions --json --db " .. quote(db))))
      fails(1, "not_found", ("sessions fork --db %s --session s1 --at 7"):format(quote(db)))
    end)
  end)

  it("forget deletes all that is kept of a user", function()
    store("shop", "ann", "s1", { ["user:name"] = "Ann" })
    store("shop", "bob", "s1")
    local who = { appName = "shop", userId = "ann", sessionId = "s1" }
    do
      local artifacts <close> = moonpad.artifactService("sqlite:" .. db)
      artifacts:save { appName = "shop", userId = "ann", sessionId = "s1", filename = "a", part = "text" }
      local memory <close> = moonpad.memoryService("sqlite:" .. db)
      local service <close> = moonpad.open("sqlite:" .. db)
      memory:addSession(service:getSession(who))
    end
    assert.equal('Forgot 1 session, 1 file and 1 memory of user "ann" in application "shop".\n'
      .. "Wrote the file anew: it holds no byte of what was deleted.\n",
      output(("forget %s --app shop --user ann"):format(quote(db))))
    assert.same({ sessions = 0, files = 0, memories = 0 },
      lines(output(("forget %s --app shop --user ann --json"):format(quote("sqlite:" .. db))))[1])
    local left = lines(output("sessions --json --db " .. quote(db)))
    assert.same({ 1, "bob" }, { #left, left[1].user })
    assert.equal("Freed 0 sessions, the state of 0 users and of 0 apps, 0 events, 0 files and 0 memories.\n",
      output("sweep " .. quote(db) .. " --session-ttl 1000000d"))
    -- It was last used in 1970.
    assert.same({ sessions = 1, users = 0, apps = 0, events = 0, files = 0, memories = 0 },
      lines(output("sweep --json " .. quote(db) .. " --session-ttl 30d"))[1])
    fails(2, "say what is old", "sweep " .. quote(db))
    fails(2, "--session-ttl: expects a time such as 3600, 90s, 15m, 12h or 30d, got soon",
      "sweep " .. quote(db) .. " --session-ttl soon")
    fails(1, "there is no file", "forget nowhere.db --app shop --user ann")
    fails(2, "option '--user' must be used 1 time", "forget " .. quote(db) .. " --app shop --user ann --user bob")
    fails(1, "memory: keeps nothing from one program to the next", "forget memory: --app shop --user ann")
    fails(2, "the name of the file is empty", "forget '' --app shop --user ann")
  end)

  it("sweep frees files and memories", function()
    store("shop", "ann", "s1")
    local clock = moonpad.testing.clock(1000)
    do
      local artifacts <close> = moonpad.artifactService("sqlite:" .. db, { clock = clock })
      artifacts:save { appName = "shop", userId = "ann", sessionId = "s1", filename = "a", part = "text" }
      local memory <close> = moonpad.memoryService("sqlite:" .. db, { clock = clock })
      local service <close> = moonpad.open("sqlite:" .. db, { clock = clock })
      local session = service:getSession { appName = "shop", userId = "ann", sessionId = "s1" }
      memory:addSession(session)
    end
    assert.equal("Freed 0 sessions, the state of 0 users and of 0 apps, 0 events, 1 file and 0 memories.\n",
      output("sweep " .. quote(db) .. " --artifact-ttl 30d"))
    assert.same({ sessions = 0, users = 0, apps = 0, events = 0, files = 0, memories = 1 },
      lines(output("sweep --json " .. quote(db) .. " --artifact-ttl 30d --memory-ttl 30d"))[1])
    fails(2, "--memory-ttl: expects a time", "sweep " .. quote(db) .. " --memory-ttl soon")
  end)

  it("models lists names and keys, and never the value of a key", function()
    local rows = lines(output "models --json")
    local openai
    for _, row in ipairs(rows) do openai = row.keyVariables[1] == "OPENAI_API_KEY" and row or openai end
    assert.same({ "openai", false, "OPENAI_BASE_URL" }, { openai.adapter, openai.hasKey, openai.addressVariable })
    local pipe <close> = assert(io.popen "OPENAI_API_KEY=sk-secret bin/moonpad models")
    local out = pipe:read "a"
    assert.matches("\nopenai +OPENAI_API_KEY +set +https://api.openai.com/v1", out)
    local secret = "http://u:pw@host/v1?key=sk-secret"
    local hidden <close> = assert(io.popen(("OPENAI_BASE_URL='%s' bin/moonpad models --json"):format(secret)))
    assert.matches('"address":"http://host/v1"', hidden:read "a", 1, true)
    assert.is_nil(out:find("sk-secret", 1, true))
  end)

  it("completion prints a script that completes commands and options", function()
    local script = folder .. "/complete.bash"
    write(script, output "completion bash")
    local words = [[COMP_WORDS=(moonpad %s); COMP_CWORD=%d; _moonpad; echo "${COMPREPLY[@]}"]]
    local function complete(text, count)
      local pipe <close> = assert(io.popen(("bash -c %s"):format(
        quote(("source %s; %s"):format(script, words:format(text, count))))))
      return pipe:read "a"
    end
    assert.equal("serve sessions state sweep\n", (complete("s", 1):gsub("%s+", " "):gsub(" $", "\n")))
    assert.matches("--file", complete("run --f", 2), 1, true)
    for _, shell in ipairs { "zsh", "fish" } do assert.matches("moonpad", output("completion " .. shell)) end
  end)

  describe("eval", function()
    local agent = [[
      local greeting = require "greeting"
      return { agent = require("moonpad").agent { name = "Greeter", model = function(request)
        return greeting .. request.contents[#request.contents].parts[1].text
      end } }
    ]]

    local function evaluate(cases, more)
      write(folder .. "/agent.lua", agent)
      write(folder .. "/greeting.lua", "return 'Hello '")
      write(folder .. "/cases.lua", cases)
      return run(("eval %s %s %s"):format(quote(folder), quote(folder .. "/cases.lua"), more or ""))
    end

    it("prints a table, and ends with 1 where a case has failed", function()
      assert.same({ 0, "passed  case 1\n1 passed, 0 failed\n", "" },
        { evaluate [[return { { user = "Ann", expect = { answer = "Hello Ann" } } }]] })
      local code, out = evaluate [[return { runs = 2, cases = {
        { name = "greets", user = "Ann", expect = { answer = { contains = "Ann" } } },
        { name = "is silent", user = "Ann", expect = { answer = "" } },
      } }]]
      assert.equal(1, code)
      assert.matches("passed  greets     2 of 2 runs\nFAILED  is silent  0 of 2 runs\n        run 1: expected", out, 1,
        true)
      assert.matches("1 passed, 1 failed\n$", out)
    end)

    it("prints a line of JSON for each case", function()
      local code, out = evaluate([[return { { user = "Ann", expect = { answer = "x" } } }]], "--json --runs 1")
      assert.equal(1, code)
      assert.same({ name = "case 1", passed = false, runs = 1, passedRuns = 0,
        failures = { 'expected the answer "x", got "Hello Ann"' } }, lines(out)[1])
      code, out = evaluate([[return { { user = "Ann", expect = { answer = "Hello Ann" } } }]], "--json --runs 1")
      assert.equal(0, code)
      assert.matches('"failures":[]', out, 1, true)
    end)

    it("tells what is wrong with the cases", function()
      for says, cases in pairs {
        ["did you mean expect?"] = [[return { { user = "Ann", expct = {} } }]],
        ["must return a list of cases"] = "return 5", ["cases.lua:1:"] = "return {", ["oops"] = "error 'oops'",
      } do
        local code, _, err = evaluate(cases)
        assert.equal(1, code)
        assert.matches(says, err, 1, true)
      end
    end)
  end)
end)
