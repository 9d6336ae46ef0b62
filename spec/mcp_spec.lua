-- moonpad.mcp with a process: a server of ours (spec/helpers/mcp_server.lua) that behaves as it is
-- told.
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local moonpad = require "moonpad"
local names = require "moonpad.mcp.names"
local processes = require "spec.support.processes"
local servers = require "spec.support.mcp"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(10)

local call, failure, late = servers.call, servers.failure, servers.late
local script, toolsOf = servers.script, servers.toolsOf

local NAME = 'MCP server "lua5.4 mcp_server.lua": '

local function runnerOf(agent, service)
  return moonpad.runner { appName = "app", agent = agent, sessionService = service or moonpad.open "memory:" }
end

-- A runner whose model calls these, all at once, and then says "done".
local function caller(set, ...)
  local model = moonpad.models.scripted { support.calls(...), "done" }
  return runnerOf(moonpad.agent { name = "A", model = model, tools = { set } }), model
end

local function responsesOf(events)
  local list = {}
  for index, response in ipairs(events[2]:functionResponses()) do list[index] = response.response end
  return list
end

local function lines(path)
  local list = {}
  for line in io.lines(path) do list[#list + 1] = line end
  return list
end

local function countIn(list, wanted)
  local count = 0
  for _, item in ipairs(list) do count = count + (item == wanted and 1 or 0) end
  return count
end

-- What the core is told for the log while that runs, and is told.
local function loggedBy(action, ...)
  local logged, log = {}, core.log
  core.log = function(session, code, message)
    logged[#logged + 1] = { session.id, code, message }
    return log(session, code, message)
  end
  local ok, err = pcall(action, ...)
  core.log = log
  assert.is_true(ok, err)
  return logged
end

after_each(function()
  servers.closeAll()
  support.cleanup()
end)

describe("moonpad.mcp", function()
  local function refusal(options)
    local err = failure(moonpad.mcp, options)
    assert.equal("invalid_argument", err.code)
    return err.message
  end

  it("refuses what it does not know and what cannot be", function()
    for _, case in ipairs {
      { nil, "moonpad.mcp: expected a table, got nil" },
      { {}, "moonpad.mcp: needs either `command`, for a server to be started, or `url`, for one that runs" },
      { { command = { "x" }, url = "http://h/" }, "moonpad.mcp: needs either `command`" },
      { { comand = { "x" } }, "moonpad.mcp: comand: unknown field, did you mean command?" },
      { { command = "npx -y x" }, "moonpad.mcp.command: expected a list of strings, the program first, got string" },
      { { command = {} }, "moonpad.mcp.command: is empty: the first is the program" },
      { { command = { "" } }, "moonpad.mcp.command[1]: expected a non-empty string" },
      { { command = { "x", 1 } }, "moonpad.mcp.command[2]: expected a string without NUL bytes, got number" },
      { { command = { "x", "a\0b" } }, "moonpad.mcp.command[2]: expected a string without NUL bytes" },
      { { command = { "x" }, env = { "A=1" } }, "moonpad.mcp.env: expected names of variables, got 1" },
      { { command = { "x" }, env = { ["A=B"] = "1" } }, "moonpad.mcp.env: expected names of variables, got A=B" },
      { { command = { "x" }, env = { A = 1 } }, "moonpad.mcp.env.A: expected a string without NUL bytes, got number" },
      { { command = { "x" }, env = { A = "a\0key" } }, "moonpad.mcp.env.A: expected a string without NUL bytes" },
      { { command = { "x" }, cwd = "" }, "moonpad.mcp.cwd: expected a non-empty string" },
      { { command = { "x" }, headers = {} }, "moonpad.mcp.headers: does not go with `command`" },
      { { url = "http://h/", env = {} }, "moonpad.mcp.env: does not go with `url`" },
      { { url = "http://h/", cwd = "/" }, "moonpad.mcp.cwd: does not go with `url`" },
      { { url = "ftp://h/" }, "moonpad.mcp.url: must begin with http:// or https:// and a host" },
      { { url = "http://ann:key@h/" }, "moonpad.mcp.url: must not contain a user or a password; give headers" },
      { { url = "HTTPS://ann@h?x" }, "moonpad.mcp.url: must not contain a user or a password; give headers" },
      { { url = 1 }, "moonpad.mcp.url: expected a string, got number" },
      { { url = "http://h/", headers = "x" }, "moonpad.mcp.headers: expected a table, got string" },
      { { url = "http://h/", headers = { "x" } }, "moonpad.mcp.headers: 1 is no name of a header" },
      { { url = "http://h/", headers = { A = "a\nb" } }, "moonpad.mcp.headers.A: must not contain line ends" },
      { { url = "http://h/", headers = { Host = "h", TE = "x" } }, "moonpad.mcp.headers.TE: is not for you to set" },
      { { url = "http://h/", headers = { A = 1 } }, "moonpad.mcp.headers.A: expected a string, got number" },
      { { command = { "x" }, prefix = "a b" }, "moonpad.mcp.prefix: \"a b\" is no name that models can call" },
      { { command = { "x" }, allow = "echo" }, "moonpad.mcp.allow: expected a list of names, got string" },
      { { command = { "x" }, allow = { 1 } }, "moonpad.mcp.allow[1]: expected a non-empty string, got number" },
      { { command = { "x" }, timeoutMs = 0 }, "moonpad.mcp.timeoutMs: expected an integer from 1, got 0" },
      { { command = { "x" }, timeoutMs = 1.5 }, "moonpad.mcp.timeoutMs: expected an integer from 1, got 1.5" },
    } do
      assert.equal(case[2], refusal(case[1]):sub(1, #case[2]))
    end
    assert.matches("call its functions with a dot", failure(function() moonpad:mcp { command = { "x" } } end).message)
  end)

  it("starts nothing before it is asked for something", function()
    local log = support.tmpdir() .. "/log"
    local set = script { "log=" .. log }
    assert.is_nil(io.open(log))
    set:tools()
    assert.same({ "start", "server/discover", "initialize", "notifications/initialized", "tools/list" }, lines(log))
  end)

  it("shows no secret when it is printed", function()
    local set = script({ "--token=sk-argument" }, { env = { KEY = "sk-environment" } })
    assert.equal('moonpad.mcp: MCP server "lua5.4 mcp_server.lua"', tostring(set))
    assert.is_nil(next(set))
  end)

  it("names a server by its program, and by no argument that may be a key", function()
    for _, case in ipairs {
      { { "npx", "-y", "@scope/server-memory" }, "npx server-memory" },
      { { "npx", "--yes", "--quiet", "server-memory" }, "npx server-memory" },
      { { "/usr/bin/node", "/a/b/tickets.mjs" }, "node tickets.mjs" },
      { { "python3", "-u", "-m", "tickets" }, "python3 tickets" },
      { { "uvx", "-q", "tool", "key" }, "uvx tool" }, { { "/opt/server", "sk-key" }, "server" },
      -- Behind any other option its value may stand, or code.
      { { "uvx", "--from=x", "tool", "key" }, "uvx" }, { { "npx", "--token", "key", "x" }, "npx" },
      { { "npx", "-y", "--token", "key", "x" }, "npx" }, { { "node", "-e", "key" }, "node" },
      { { "node", "--import", "key", "/a/b/c.js" }, "node" }, { { "python3", "-c", "key" }, "python3" },
      { { "npx", "postgres://user:key@host" }, "npx" }, { { "npx", "-y" }, "npx" }, { { "npx", "KEY=1" }, "npx" },
      { { "npx", "" }, "npx" }, { { "docker", "run", "-e", "KEY=1", "image" }, "docker" },
      -- Files of common names tell nothing without their folders.
      { { "node", "/srv/mcp/server-everything/dist/index.js" }, "node server-everything/dist/index.js" },
      { { "node", "dist/main.mjs" }, "node dist/main.mjs" }, { { "python3", "./server.py" }, "python3 server.py" },
      { { "node", "../../tickets/cli.js" }, "node tickets/cli.js" },
      { { "node", "a/b/indexes.js" }, "node indexes.js" },
    } do
      assert.equal(('moonpad.mcp: MCP server "%s"'):format(case[2]), tostring(servers.open { command = case[1] }))
    end
    for _, url in ipairs { "https://host.example:8080/s/key?key=1", "https://host.example:8080?key" } do
      assert.equal('moonpad.mcp: MCP server "https://host.example:8080"', tostring(servers.open { url = url }))
    end
  end)

  it("tells methods that are misspelt, and calls with a dot", function()
    local set = script()
    assert.matches("did you mean tools", failure(function() set:tolls() end).message)
    for _, method in ipairs { "tools", "prompts", "prompt", "resources", "resource", "close" } do
      local err = failure(set[method], {})
      assert.equal(("toolset:%s(...): call it with a colon, not with a dot"):format(method), err.message)
    end
  end)
end)

for _, era in ipairs { "legacy", "modern" } do
  describe("a server of the " .. era .. " era", function()
    local function open(words, more)
      return script({ era, table.unpack(words or {}) }, more)
    end

    it("has its tools called", function()
      local set = open()
      assert.same({ result = "hello" }, (call(set, "echo", { text = "hello" })))
      local tool = toolsOf(set).echo
      assert.same({ "echo", "Does echo", "object" }, { tool.name, tool.description, tool.parameters.type })
    end)

    it("gives structured results as they are, and texts as a result", function()
      local set = open()
      assert.same({ a = 1, list = { "x" } }, (call(set, "structured")))
      local result, files = call(set, "picture")
      assert.equal("look\nof a file\nb <file:///b.txt> (text/plain): the b\n"
        .. "[content of type hologram that cannot be shown]\n[content of type image that cannot be shown]",
        result.result)
      local types = {}
      for index, part in ipairs(files) do types[index] = part.inlineData.mimeType end
      assert.same({ "image/png", "audio/wav", "application/octet-stream" }, types)
      assert.equal("file:///a.bin", files[3].inlineData.displayName)
    end)

    it("answers models in a run, files beside the response", function()
      local set = open()
      local runner, model = caller(set, { "picture", {}, "c1" }, { "structured", {}, "c2" })
      local events = support.run(runner, "go")
      local responses = events[2]:functionResponses()
      assert.equal(3, #responses[1].parts)
      assert.same({ a = 1, list = { "x" } }, responses[2].response)
      assert.equal("done", events[3]:text())
      assert.equal(#set:tools(), #model.requests[1].tools)
      runner:close()
    end)

    it("fails in words of its own", function()
      local set = open()
      assert.same({ nil, "no such row" }, { call(set, "fail", { text = "no such row" }) })
      assert.same({ nil, '{"why":"no reason"}' }, { call(set, "fail", { structured = true }) })
      assert.equal(NAME .. "not like this (error -32602)", failure(call, set, "refuse").message)
      assert.equal(NAME .. "answered tools/call with no result", failure(call, set, "nothing").message)
      local needy = failure(call, set, "needy")
      assert.matches("asks for something of its user before it can answer tools/call", needy.message)
      local runner = caller(set, { "fail", { text = "no such row" }, "c1" }, { "refuse", {}, "c2" })
      assert.same({ { error = "no such row" }, { error = NAME .. "not like this (error -32602)" } },
        responsesOf(support.run(runner, "go")))
    end)

    it("has prompts and resources that can be read", function()
      local set = open()
      assert.same({ { name = "greet", arguments = { { name = "name", required = true } } } }, set:prompts())
      local messages = set:prompt("greet", { name = "Ann" })
      assert.same({ role = "user", parts = { { text = "Greet Ann" } } }, messages[1])
      assert.same({ "model", "image/png" }, { messages[2].role, messages[2].parts[1].inlineData.mimeType })
      assert.same({ { uri = "memo://1", name = "one" } }, set:resources())
      local file = { mimeType = "image/gif", data = "AAEC", displayName = "memo://1" }
      assert.same({ { text = "a memo" }, { inlineData = file } }, set:resource "memo://1")
      assert.equal(NAME .. "Resource not found (error -32002)", failure(set.resource, set, "memo://2").message)
    end)

    it("lists its tools page by page", function()
      local all, paged = open():tools(), open { "pages=4" }:tools()
      assert.is_true(#all > 12)
      assert.equal(#all, #paged)
      for index, tool in ipairs(all) do assert.equal(tool.name, paged[index].name) end
    end)

    it("answers calls side by side", function()
      local runner = caller(open(), { "hold", { text = "a" }, "c1" }, { "hold", { text = "b" }, "c2" },
        { "release", {}, "c3" })
      assert.same({ { result = "a" }, { result = "b" }, { result = "released" } },
        responsesOf(support.run(runner, "go")))
    end)

    it("is told when nobody waits for an answer any more", function()
      local message, code, set = late(function(timeoutMs) return open({}, { timeoutMs = timeoutMs }) end, "mute",
        "tools/call")
      assert.same({ "tool", NAME .. "did not answer tools/call within its time" }, { code, message })
      assert.matches("^%d+$", call(set, "cancelled").result)
    end)
  end)
end

describe("an MCP server", function()
  it("may not answer what it does not know before it is greeted", function()
    -- It waits some seconds for that.
    assert.same({ result = "x" }, (call(script { "silent" }, "echo", { text = "x" })))
  end)

  it("may end at what it does not know before it is greeted, and is greeted at once from then on", function()
    -- It is not given up because it has not even begun.
    local _ <close> = support.stopClock()
    local log = support.tmpdir() .. "/log"
    local set = script { "strict", "log=" .. log }
    assert.same({ result = "x" }, (call(set, "echo", { text = "x" })))
    failure(call, set, "die")
    assert.same({ result = "y" }, (call(set, "echo", { text = "y" })))
    local heard = lines(log)
    local counts = { countIn(heard, "start"), countIn(heard, "server/discover"), countIn(heard, "initialize") }
    assert.same({ 3, 1, 2 }, counts)
  end)

  it("that speaks another version is refused", function()
    local err = failure(function() script({ "version=1999-01-01" }):tools() end)
    assert.equal(NAME .. "speaks none of the versions of MCP that moonpad knows (2026-07-28 and before), but "
      .. "1999-01-01", err.message)
    assert.is_truthy(script({ "version=2024-11-05" }):tools())
  end)

  it("that cannot be started, or says nothing, ends the run with an error that tells why #posix", function()
    local folder = support.tmpdir()
    for _, case in ipairs {
      { { command = { "no-such-program", "key" } },
        'MCP server "no-such-program": could not be started: no-such-program: No such file or directory' },
      { { command = { "cat" }, cwd = folder .. "/none" },
        ('MCP server "cat": could not be started: cwd: %s/none: No such file or directory'):format(folder) },
      { { command = { "lua5.4", "spec/helpers/mcp_server.lua", "broken" } },
        NAME .. "it ended with exit code 4; it said: no such database" },
      { { command = { "lua5.4", "spec/helpers/mcp_server.lua", "deaf" }, timeoutMs = 300 },
        NAME .. "did not answer within 0.3 seconds" },
      { { command = { "sh", "-c", "printf 'no room\\r\\n' >&2; exit 1" } },
        'MCP server "sh": it ended with exit code 1; it said: no room' },
      { { command = { "sh", "-c", "exec >&-; cat >/dev/null" } }, 'MCP server "sh": it closed its output' },
    } do
      local runner = caller(servers.open(case[1]), { "echo", {}, "c1" })
      local err = failure(support.run, runner, "go")
      assert.same({ "tool", case[2] }, { err.code, err.message })
    end
  end)

  it("that dies in a call is a clear error, and is started again by the next request", function()
    local log = support.tmpdir() .. "/log"
    local set = script { "log=" .. log }
    local runner = caller(set, { "mute", {}, "c1" }, { "die", {}, "c2" })
    local expected = { error = NAME .. "it ended with exit code 3; it said: the disk is on fire" }
    assert.same({ expected, expected }, responsesOf(support.run(runner, "go")))
    assert.same({ result = "again" }, (call(set, "echo", { text = "again" })))
    local heard = lines(log)
    assert.same({ 2, 3 }, { countIn(heard, "start"), countIn(heard, "tools/call") })
  end)

  it("that is killed while nobody waits is started again #posix", function()
    local set = script()
    local id = call(set, "inside").id
    assert(os.execute("kill -9 " .. id))
    processes.awaitEnd(id)
    assert.not_equal(id, call(set, "inside").id)
  end)

  it("is started three times a minute at most", function()
    local clock <close> = support.stopClock()
    local log = support.tmpdir() .. "/log"
    local set = script { "log=" .. log }
    for _ = 1, 3 do failure(call, set, "die") end
    local err = failure(set.tools, set)
    assert.equal("tool", err.code)
    assert.matches("was started 3 times within a minute and is left alone for %d+ seconds?; the last time "
      .. "it ended with exit code 3; it said: the disk is on fire$", err.message)
    assert.equal(3, countIn(lines(log), "start"))
    clock:advance(59)
    assert.matches("is left alone for 1 second;", failure(set.tools, set).message)
    clock:advance(2)
    assert.same({ result = "x" }, (call(set, "echo", { text = "x" })))
  end)

  it("that ends at each start is started once for each request after the first", function()
    local _ <close> = support.stopClock()
    local log = support.tmpdir() .. "/log"
    local set = script { "log=" .. log, "broken" }
    for _, starts in ipairs { 2, 3 } do
      assert.equal(NAME .. "it ended with exit code 4; it said: no such database", failure(set.tools, set).message)
      assert.equal(starts, countIn(lines(log), "start"))
    end
    assert.matches("was started 3 times within a minute", failure(set.tools, set).message)
    assert.equal(3, countIn(lines(log), "start"))
  end)

  it("of today that could not start is greeted in its way when it can #posix", function()
    local _ <close> = support.stopClock()
    local folder = support.tmpdir()
    local log = folder .. "/log"
    local start = ("test -e %s/ready && exec lua5.4 spec/helpers/mcp_server.lua modern log=%s"):format(folder, log)
    local set = servers.open { command = { "sh", "-c", start } }
    assert.matches("it ended with exit code 1", failure(set.tools, set).message)
    assert(io.open(folder .. "/ready", "w")):close()
    assert.same({ result = "x" }, (call(set, "echo", { text = "x" })))
    assert.same({ "start", "initialize", "server/discover", "tools/list", "tools/call" }, lines(log))
  end)

  it("may say what nobody understands", function()
    local set = script()
    for name, text in pairs {
      garbage = "after the garbage", batch = "in a batch", twice = "first",
      ask = "s1 {}\ns2 -32601.0\ns3 -32601.0\ns4 -32601.0",
    } do
      assert.equal(text, call(set, name).result)
    end
    assert.equal(3000000, #call(set, "huge", { bytes = 3000000 }).result)
    assert.equal("x", call(set, "echo", { text = "x" }).result)
  end)

  it("is told large things", function()
    local text = ("0123456789"):rep(300000)
    assert.is_true(call(script(), "echo", { text = text }).result == text)
  end)

  it("that never ends a line is ended", function()
    local set = script()
    local err = failure(call, set, "endless")
    assert.equal(NAME .. "wrote a line of more than 67108864 bytes and was ended", err.message)
    assert.equal("x", call(set, "echo", { text = "x" }).result)
  end)

  it("may flood its standard error", function()
    assert.equal("flooded", call(script(), "flood", { lines = 20000 }).result)
  end)

  local MESSAGE = [['{"jsonrpc":"2.0","method":"notifications/x"}']]
  -- What floods, and what is told of it.
  local FLOODS = {
    ["exec yes"] = "; it wrote what is no message: y", ["exec yes " .. MESSAGE] = "",
    ["exec 3>&1; exec yes >&2"] = "; it said: y\ny\ny\ny\ny",
    ["yes & exec yes >&2"] = "; it wrote what is no message: y; it said: y\ny\ny\ny\ny",
  }

  -- By a clock that goes on a little each time that somebody looks, so that a step ends as it does
  -- on a machine that does nothing else.
  it("that floods one of its streams holds up nobody #posix", function()
    local TICK <const>, FULL <const>, MOST <const> = 0.00001, 0.0002, 0.002
    for command in pairs(FLOODS) do
      local set = servers.open { command = { "sh", "-c", command }, timeoutMs = 1000000000 }
      local clock <close> = support.stopClock(TICK)
      local invocation = caller(set, { "echo", {}, "c1" }):start { userId = "u", sessionId = "s", newMessage = "go" }
      local full, longest = 0, 0
      support.waitUntil("twenty steps that end before all is read", function()
        local begin = clock.time
        assert.equal("waiting", invocation:step())
        local seconds = clock.time - begin
        longest = math.max(longest, seconds)
        if seconds > FULL then full = full + 1 end
        return full == 20
      end)
      assert.is_true(longest < MOST, command .. " " .. longest)
      invocation:cancel()
      servers.closeAll()
    end
  end)

  it("that floods one of its streams has its time, and then it is over #posix", function()
    for command, expected in pairs(FLOODS) do
      local message, code = late(function(timeoutMs)
        return servers.open { command = { "sh", "-c", command }, timeoutMs = timeoutMs }
      end, "echo", expected)
      assert.same({ "tool", 'MCP server "sh": did not answer within its time' .. expected }, { code, message })
      servers.closeAll()
    end
  end)

  it("that is over is over, although what it has left behind floods its streams #posix", function()
    -- However late it is, it has said something before.
    for command, expected in pairs {
      ["echo y; yes &"] = "wrote what is no message: y", ["echo y >&2; yes >&2 &"] = "said: y",
    } do
      local set = servers.open { command = { "sh", "-c", command .. " sleep 0.1; exit 3" } }
      assert.matches("it ended with exit code 3; it " .. expected, failure(set.tools, set).message)
    end
  end)

  it("that writes no messages but text is quoted when it does not answer or ends, without secrets #posix", function()
    local env = { KEY = "the-secret-key" }
    local command = "echo $KEY is served at port 3000; "
    local quoted = "it wrote what is no message: [redacted] is served at port 3000"
    local message = late(function(timeoutMs)
      -- Its output stays open.
      local mute = command .. "exec cat 3>&1 >/dev/null"
      return servers.open { command = { "sh", "-c", mute }, timeoutMs = timeoutMs, env = env }
    end, "echo", quoted)
    assert.equal('MCP server "sh": did not answer within its time; ' .. quoted, message)
    local set = servers.open { command = { "sh", "-c", command .. "exit 2" }, env = env }
    assert.equal('MCP server "sh": it ended with exit code 2; ' .. quoted, failure(set.tools, set).message)
    -- What came before an answer has nothing to do with what is missing now.
    message = late(function(timeoutMs)
      local hello = "echo hello; exec lua5.4 spec/helpers/mcp_server.lua"
      return servers.open { command = { "sh", "-c", hello }, timeoutMs = timeoutMs }
    end, "mute", "tools/call")
    assert.equal('MCP server "sh": did not answer tools/call within its time', message)
  end)

  it("that asks and asks, and reads no answers, is not given all of them #posix", function()
    local set = script()
    -- The pipes hold two thousand of them at most, which are a thousand bytes each.
    local count = tonumber(call(set, "pester", { lines = 20000 }).result)
    assert.is_true(count < 10000, count .. " answers")
    assert.equal("x", call(set, "echo", { text = "x" }).result)
  end)

  it("has its log told little of a flood", function()
    -- The second in which it may say so much does not pass.
    local _ <close> = support.stopClock()
    local runner = caller(script(), { "garbage", {}, "c1" }, { "garbage", {}, "c2" },
      { "flood", { lines = 20000 }, "c3" })
    local strays, said = {}, {}
    for _, entry in ipairs(loggedBy(support.run, runner, "go")) do
      local text = entry[3]:sub(#NAME + 1)
      local list = text:find "no message" and strays or said
      list[#list + 1] = text
    end
    assert.equal(6, #strays)
    assert.equal("wrote what is no message: { not json", strays[1])
    assert.equal("writes more that is no message; it is left out", strays[6])
    assert.equal(1, countIn(said, "says more than 200 lines a second; the rest is left out"))
    assert.equal(201, #said)
  end)

  it("that has said much since is asked again for its tools", function()
    local log = support.tmpdir() .. "/log"
    local set = script { "log=" .. log }
    set:tools()
    call(set, "chatter", { lines = 900 })
    support.waitUntil("the end of it", function() return countIn(lines(log), "said") == 1 end)
    set:tools()
    assert.equal(2, countIn(lines(log), "tools/list"))
  end)

  it("that closes its output or its input is over #posix", function()
    local handshake = [[read line; echo '{"id":1,"error":{"code":-32601,"message":"no"}}'; read line
      echo '{"id":2,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}}}}'; read line; ]]
    local set = servers.open { command = { "sh", "-c", handshake .. "read line; exec >&-; cat >/dev/null" } }
    assert.equal('MCP server "sh": it closed its output', failure(set.tools, set).message)
    set = servers.open { command = { "sh", "-c", handshake .. "exec <&-; sleep 600" } }
    -- A small request may be in the pipe before that.
    support.waitUntil("the closed input", function()
      local err = failure(function() set:prompt(("x"):rep(1000000)) end)
      return err.message == 'MCP server "sh": it closed its input'
    end)
  end)

  it("has a process that inherits five variables, its own, and nothing else #posix", function()
    local own <close> = assert(io.open "spec/mcp_spec.lua")
    assert(own)
    local folder = support.tmpdir()
    local path = io.popen("pwd"):read "l" .. "/spec/helpers/mcp_server.lua"
    local set = servers.open {
      command = { "lua5.4", path }, env = { MY_KEY = "abc=def", TERM = "dumb" }, cwd = folder,
    }
    local inside, seen = call(set, "inside"), {}
    for name in inside.environment:gmatch "([^=%z]+)=[^%z]*%z" do seen[name] = true end
    local known = { PATH = true, HOME = true, LANG = true, USER = true, TERM = true, MY_KEY = true }
    for name in pairs(seen) do assert.is_true(known[name], name .. " is inherited") end
    assert.is_true(seen.PATH and seen.MY_KEY)
    assert.matches("MY_KEY=abc=def%z", inside.environment)
    assert.matches("TERM=dumb%z", inside.environment)
    assert.equal("0\n1\n2\n", (inside.descriptors:gsub("3\n$", "")))
    assert.equal(folder .. "\n", inside.folder)
  end)

  it("is not let to tell what it was not to tell #posix", function()
    local set = script({}, { env = { KEY = "the-secret-key" } })
    local _, message = call(set, "fail", { text = "bad key the-secret-key" })
    assert.equal("bad key [redacted]", message)
    local dying = servers.open {
      command = { "sh", "-c", "echo \"no access for $KEY\" >&2; exit 1" }, env = { KEY = "the-secret-key" },
    }
    assert.matches("it said: no access for [redacted]", failure(dying.tools, dying).message, 1, true)
  end)

  it("gets no key into what it answers, and everything else as it is #posix", function()
    local set = script({}, { env = { API_TOKEN = "tok-123456789", MODE = "production", DATA = "/srv/data/long" } })
    local inside = call(set, "inside")
    assert.matches("API_TOKEN=[redacted]\0", inside.environment, 1, true)
    assert.matches("MODE=production\0", inside.environment, 1, true)
    assert.matches("DATA=/srv/data/long\0", inside.environment, 1, true)
    local encoded = call(set, "echo", { text = moonpad.base64.encode "tok-123456789" }).result
    assert.matches("[redacted]", encoded, 1, true)
  end)

  it("tells the log what it says on standard error #posix", function()
    local set = servers.open {
      command = { "sh", "-c", "echo ready with the-secret-key >&2; exec lua5.4 spec/helpers/mcp_server.lua" },
      env = { KEY = "the-secret-key" },
    }
    local logged = loggedBy(support.run, caller(set, { "garbage", {}, "c1" }), "go")
    assert.same({ "s", "tool", 'MCP server "sh": ready with [redacted]' }, logged[1])
    assert.same({ "s", "tool", 'MCP server "sh": wrote what is no message: { not json' }, logged[2])
  end)

  it("is told apart from others by its prefix", function()
    local set = script({}, { prefix = "other_", allow = { "echo", "hold" } })
    local offered = toolsOf(set)
    assert.same({ result = "x" }, (offered.other_echo.run { text = "x" }))
    assert.equal(2, #set:tools())
    local both = moonpad.agent {
      name = "A", tools = { set, script({}, { allow = { "echo" } }) },
      model = moonpad.models.scripted {
        support.calls({ "other_echo", { text = "1" } }, { "echo", { text = "2" } }), "done",
      },
    }
    assert.same({ { result = "1" }, { result = "2" } }, responsesOf(support.run(runnerOf(both), "go")))
  end)

  it("shows the tools that are allowed, and must have them", function()
    local offered = {}
    for index, tool in ipairs(script({}, { allow = { "hold", "echo" } }):tools()) do offered[index] = tool.name end
    assert.same({ "echo", "hold" }, offered)
    assert.same({}, script({}, { allow = {} }):tools())
    local set = script({}, { allow = { "ecko" } })
    local err = failure(set.tools, set)
    assert.equal(NAME .. 'has no tool "ecko", which is in `allow`; did you mean "echo"?', err.message)
    set = script({}, { allow = { "zzzzzzzz" } })
    err = failure(set.tools, set)
    assert.matches('has no tool "zzzzzzzz", which is in `allow`; there are ask, batch,', err.message)
  end)

  it("may lose a tool that is allowed, later", function()
    local set = script({ "unannounced" }, { allow = { "echo", "remove" } })
    assert.equal(2, #set:tools())
    call(set, "remove", { name = "echo" })
    assert.equal(1, #set:tools())
  end)

  it("is asked again for its tools when it says that they have changed", function()
    local log = support.tmpdir() .. "/log"
    local set = script { "log=" .. log }
    local function asked() return countIn(lines(log), "tools/list") end
    set:tools()
    set:tools()
    assert.equal(1, asked())
    call(set, "change", { name = "brand_new" })
    assert.equal("x", call(set, "brand_new", { text = "x" }).result)
    assert.equal(2, asked())
  end)

  it("is asked each time when it does not promise to say so", function()
    local log = support.tmpdir() .. "/log"
    local set = script { "log=" .. log, "unannounced" }
    set:tools()
    set:tools()
    assert.equal(2, countIn(lines(log), "tools/list"))
  end)

  it("of today is believed as long as it says", function()
    for ttl, count in pairs { [0] = 2, [-5] = 2, [3600000] = 1 } do
      local log = support.tmpdir() .. "/log"
      local set = script { "modern", "log=" .. log, "ttl=" .. ttl }
      set:tools()
      set:tools()
      assert.equal(count, countIn(lines(log), "tools/list"))
    end
  end)

  it("is asked again after a call that failed, for it may have other tools now", function()
    local log = support.tmpdir() .. "/log"
    local set = script { "log=" .. log }
    failure(call, set, "refuse")
    set:tools()
    assert.equal(2, countIn(lines(log), "tools/list"))
  end)

  it("may have tools that cannot be used: they are left out", function()
    local set = script {
      'tool={"inputSchema":{"type":"object"}}', 'tool={"name":""}', 'tool={"name":"echo"}',
      'tool={"name":"odd","inputSchema":{"type":"strnig"}}', 'tool={"name":"array","inputSchema":{"type":"array"}}',
      'tool={"name":"marked","inputSchema":{"type":"object","x-mcp-header":"X"}}', 'tool={"name":"bare"}',
      'tool={"name":"titled","title":"A title","inputSchema":{"type":"object"}}',
    }
    local offered = toolsOf(set)
    assert.same({}, { offered.odd, offered.array, offered.marked })
    assert.same({ type = "object", properties = {} }, offered.bare.parameters)
    assert.equal("A title", offered.titled.description)
    assert.equal("Does echo", offered.echo.description)
  end)

  it("shows names that providers take", function()
    local set = script { 'tool={"name":"a.b/c"}', 'tool={"name":"9lives"}' }
    assert.matches("Unknown tool: a.b/c", failure(call, set, "a_b_c").message, 1, true)
    assert.matches("Unknown tool: 9lives", failure(call, set, "_9lives").message, 1, true)
  end)
end)

describe("names shown to models", function()
  it("are the server's where they fit, else as like them as can be, and never the same twice", function()
    local long = ("n"):rep(70)
    for _, case in ipairs {
      { { "echo" }, "", { "echo" } },
      { { "echo" }, "fs_", { "fs_echo" } },
      { { "a.b", "a_b", "a/b" }, "", { "a_b_2", "a_b", "a_b_3" } },
      { { "größe" }, "", { "gr__e" } },
      { { "1st" }, "", { "_1st" } },
      { { "1st" }, "p", { "p1st" } },
      { { long, long .. "x" }, "", { ("n"):rep(64), ("n"):rep(62) .. "_2" } },
      { { "a b", "a_b_2", "a_b" }, "", { "a_b_3", "a_b_2", "a_b" } },
    } do
      local shown, list = names.shown(case[1], case[2]), {}
      for index, name in ipairs(case[1]) do list[index] = shown[name] end
      assert.same(case[3], list)
    end
  end)
end)

describe("a run with an MCP server", function()
  -- One that begins when it is told to.
  local function heldServer(words)
    local go = support.tmpdir() .. "/go"
    local start = ("until test -e %s; do sleep 0.01; done; exec lua5.4 spec/helpers/mcp_server.lua %s"):format(go,
      words)
    local set = servers.open { command = { "sh", "-c", start } }
    return set, function() assert(io.open(go, "w")):close() end
  end

  it("holds no frame while it starts, lists and calls #posix", function()
    local set, begin = heldServer ""
    local runner = caller(set, { "echo", { text = "x" }, "c1" })
    local invocation <close> = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
    for _ = 1, 30 do assert.equal("waiting", invocation:step()) end
    begin()
    local texts = {}
    for event in function() return support.step(invocation) end do texts[#texts + 1] = event:text() end
    assert.equal("done", texts[#texts])
  end)

  it("that is cancelled tells the server, and the toolset goes on", function()
    local set = script()
    local runner = caller(set, { "mute", {}, "c1" })
    local invocation = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
    local event = support.step(invocation)
    assert.equal("mute", event:functionCalls()[1].name)
    support.stepUntil(invocation, function() return true end)
    invocation:cancel()
    assert.matches("^%d+$", call(set, "cancelled").result)
  end)

  it("that is cancelled while the server starts leaves the start to the next one #posix", function()
    local log = support.tmpdir() .. "/log"
    local set, begin = heldServer("log=" .. log)
    for _ = 1, 4 do
      local invocation = caller(set, { "echo", {}, "c1" }):start { userId = "u", sessionId = "s", newMessage = "go" }
      assert.equal("waiting", invocation:step())
      invocation:cancel()
    end
    begin()
    assert.equal("x", call(set, "echo", { text = "x" }).result)
    assert.equal(1, countIn(lines(log), "start"))
  end)

  it("shares the start with others that want it at the same time", function()
    local log = support.tmpdir() .. "/log"
    local set = script { "log=" .. log }
    local invocations = {}
    for index = 1, 3 do
      local runner = caller(set, { "echo", { text = tostring(index) }, "c1" })
      invocations[index] = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
    end
    for index = 1, 3 do
      local answer
      for event in function() return invocations[index]:wait() end do
        answer = event:functionResponses()[1] or answer
      end
      assert.same({ result = tostring(index) }, answer.response)
    end
    assert.equal(1, countIn(lines(log), "start"))
  end)

  it("waits in coroutines of moonpad's, and is refused in others", function()
    local set = script()
    local tool = moonpad.tool { name = "mine", run = function()
      return { message = failure(coroutine.wrap(function() set:tools() end)).message, count = #set:prompts() }
    end }
    local agent = moonpad.agent {
      name = "A", tools = { tool }, model = moonpad.models.scripted { support.calls { "mine", {} }, "done" },
    }
    local response = responsesOf(support.run(runnerOf(agent), "go"))[1]
    assert.matches("toolset:tools: in a run, call it from the coroutine", response.message)
    assert.equal(1, response.count)
  end)
end)

describe("closing a toolset", function()
  it("ends the process without waiting for it, and every use of it is an error #posix", function()
    local set = script()
    local tools, id = toolsOf(set), call(set, "inside").id
    set:close()
    processes.awaitEnd(id)
    set:close()
    for _, use in ipairs {
      function() set:tools() end, function() set:prompts() end, function() set:resource "memo://1" end,
      function() tools.echo.run {} end,
    } do
      local err = failure(use)
      assert.same({ "closed", NAME .. "the toolset is closed" }, { err.code, err.message })
    end
  end)

  it("does not wait for a process that does not end by itself #posix", function()
    local note = support.tmpdir() .. "/note"
    local stubborn = "trap '' TERM; echo $$ >" .. note
      .. "; lua5.4 spec/helpers/mcp_server.lua; while :; do sleep 0.1; done"
    -- It is ended after a while: on a machine that is busy it may be so before anybody has looked.
    support.waitUntil("a process that is there after its toolset is closed", function()
      local set = servers.open { command = { "sh", "-c", stubborn } }
      set:tools()
      local id = math.tointeger(lines(note)[1])
      set:close()
      local lives = processes.lives(id)
      processes.awaitEnd(id)
      return lives
    end)
  end)

  it("is what a runner does, the end of a block and the collector #posix", function()
    local function start()
      local set = moonpad.mcp { command = { "lua5.4", "spec/helpers/mcp_server.lua" } }
      return set, call(set, "inside").id
    end
    local set, id = start()
    caller(set, { "echo", {} }):close()
    processes.awaitEnd(id)
    do
      local blocked <close>, blockedId = start()
      assert(blocked)
      id = blockedId
    end
    processes.awaitEnd(id)
    set, id = start()
    assert(set)
    set = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    processes.awaitEnd(id)
  end)

  it("ends calls and starts that are under way #posix", function()
    local set = script()
    local runner = caller(set, { "mute", {}, "c1" })
    local invocation = runner:start { userId = "u", sessionId = "s", newMessage = "go" }
    support.step(invocation)
    support.stepUntil(invocation, function() return true end)
    set:close()
    local event = support.step(invocation)
    assert.same({ error = NAME .. "it was closed" }, event:functionResponses()[1].response)
    invocation:cancel()
    local starting = servers.open { command = { "sh", "-c", "cat >/dev/null" } }
    invocation = caller(starting, { "echo", {} }):start { userId = "u", sessionId = "s", newMessage = "go" }
    assert.equal("waiting", invocation:step())
    starting:close()
    assert.equal("closed", failure(support.step, invocation).code)
  end)

  it("leaves no process when the host ends #posix", function()
    for _, ending in ipairs { "", "os.exit(0)", "error 'no'", "set:close() os.exit(0)" } do
      local output = processes.lua([[
        local moonpad = require "moonpad"
        local set = moonpad.mcp { command = { "sh", "-c",
          "trap '' TERM; lua5.4 spec/helpers/mcp_server.lua; while :; do sleep 1; done" } }
        for _, tool in ipairs(set:tools()) do
          if tool.name == "inside" then print(tool.run({}).id) end
        end
        ]] .. ending)
      processes.awaitDeath(tonumber(output:match "^%d+"))
    end
  end)

  it("costs nothing that stays #posix", function()
    local set = script()
    local echo = toolsOf(set).echo
    local count = 0
    local function echoOnce()
      count = count + 1
      assert(echo.run { text = "call " .. count })
    end
    for _ = 1, 100 do echoOnce() end
    local descriptors = processes.descriptors()
    local grown = checks.growth(echoOnce, 500)
    assert.is_true(grown < 10, ("%.1f KB stay"):format(grown))
    assert.equal(descriptors, processes.descriptors())
  end)
end)
