-- moonpad.mcp with servers of others: the official ones, and one of today written with the official
-- SDK (spec/peers/package.json; scripts/deps.sh checks installs them).
local core = require "moonpad.core"
local moonpad = require "moonpad"
local processCore = require "moonpad.process_core"
local processes = require "spec.support.processes"
local servers = require "spec.support.mcp"
local socket = require "socket"
local support = require "spec.support"

local call, failure, toolsOf = servers.call, servers.failure, servers.toolsOf

local PEERS = "spec/peers/node_modules/.bin/"
local STRICT = "spec/peers/strict_server.mjs"

assert(io.open(PEERS .. "mcp-server-everything"), "the peers are not installed: run scripts/deps.sh checks"):close()

-- A server that runs by itself, until the specs are over.
local function start(command, environment)
  environment = environment or {}
  environment[#environment + 1] = "PATH=" .. os.getenv "PATH"
  return assert(processCore.start { command = command, environment = environment })
end

local function firstLine(process)
  local line = ""
  support.waitUntil("a server", function()
    line = line .. (process:read "output" or "")
    return line:find "\n"
  end)
  return line:match "^[^\n]*"
end

-- Node.js 18 has a name that the server uses for the asking only.
local function isOldNode()
  local pipe <close> = assert(io.popen "node --version")
  return pipe:read "l":find "^v18%." ~= nil
end

local function freePort()
  local listener = assert(socket.bind("127.0.0.1", 0))
  local _, port = listener:getsockname()
  listener:close()
  return port
end

local function answers(port)
  local connection = socket.connect("127.0.0.1", port)
  if connection then connection:close() end
  return connection ~= nil
end

-- What a model is told that calls these tools, all at once.
local function responsesTo(set, ...)
  local model = moonpad.models.scripted { support.calls(...), "done" }
  local agent = moonpad.agent { name = "A", model = model, tools = { set } }
  local runner = moonpad.runner { appName = "app", agent = agent, sessionService = moonpad.open "memory:" }
  local events = support.run(runner, "go")
  assert.equal("done", events[#events]:text())
  return events[2]:functionResponses()
end

after_each(function()
  servers.closeAll()
  support.cleanup()
end)

describe("the official server for everything", function()
  local http, port
  setup(function()
    port = freePort()
    local environment = { "PORT=" .. math.tointeger(port) }
    if isOldNode() then environment[2] = "NODE_OPTIONS=--experimental-global-webcrypto" end
    http = start({ "node", PEERS .. "mcp-server-everything", "streamableHttp" }, environment)
    support.waitUntil("the server", function()
      http:read "error"
      return answers(port)
    end)
  end)
  teardown(function() http:close() end)

  for _, way in ipairs { "as a process", "behind an address" } do
    describe(way, function()
      local set
      before_each(function()
        if way == "as a process" then
          set = servers.open { command = { "node", PEERS .. "mcp-server-everything" }, env = { MARK = "of ours" } }
        else
          set = servers.open { url = ("http://127.0.0.1:%d/mcp"):format(port) }
        end
      end)

      it("has its tools called side by side in a run", function()
        local responses = responsesTo(set, { "echo", { message = "hello" }, "c1" },
          { "get-sum", { a = 2, b = 3 }, "c2" }, { "get-tiny-image", {}, "c3" },
          { "get-structured-content", { location = "Chicago" }, "c4" },
          { "get-resource-reference", { resourceType = "Blob", resourceId = 1 }, "c5" },
          { "get-resource-links", { count = 2 }, "c6" })
        assert.same({ result = "Echo: hello" }, responses[1].response)
        assert.same({ result = "The sum of 2 and 3 is 5." }, responses[2].response)
        assert.equal("image/png", responses[3].parts[1].inlineData.mimeType)
        assert.equal("number", type(responses[4].response.temperature))
        assert.equal(1, #responses[5].parts)
        assert.is_truthy(responses[6].response.result:find "<demo://resource")
      end)

      it("answers a slow call while others are made", function()
        local begin = core.monotonic()
        local slow = { duration = 1, steps = 2 }
        local responses = responsesTo(set, { "trigger-long-running-operation", slow, "c1" },
          { "trigger-long-running-operation", slow, "c2" }, { "echo", { message = "x" }, "c3" })
        assert.matches("Long running operation completed", responses[1].response.result)
        assert.matches("Long running operation completed", responses[2].response.result)
        assert.is_true(core.monotonic() - begin >= 1)
      end)

      it("has prompts and resources", function()
        local prompts = set:prompts()
        assert.is_true(#prompts >= 4)
        local messages = set:prompt("args-prompt", { city = "Rome" })
        assert.matches("Rome", messages[1].parts[1].text)
        local resources = set:resources()
        assert.is_true(#resources > 0)
        assert.is_true(#set:resource(resources[1].uri)[1].text > 0)
        assert.matches("not found", failure(set.resource, set, "demo://nothing").message)
      end)

      it("refuses arguments in words of its own", function()
        local message = select(2, call(set, "get-sum", { a = "x", b = 1 }))
        assert.matches("[Ii]nvalid", message)
      end)
    end)
  end

  it("sees of our variables those that it was given", function()
    local set = servers.open { command = { "node", PEERS .. "mcp-server-everything" }, env = { MARK = "of ours" } }
    local seen = moonpad.json.decode(call(set, "get-env").result)
    local known = { PATH = true, HOME = true, LANG = true, USER = true, TERM = true, MARK = true }
    for name in pairs(seen) do assert.is_true(known[name], name) end
    assert.equal("of ours", seen.MARK)
  end)

  it("is started again when it has been killed, and is gone when its toolset is closed", function()
    local isOld = {}
    local function newChild()
      local found
      for _, id in ipairs(processes.childrenOf(processes.own())) do
        if not isOld[id] then found = id end
        isOld[id] = true
      end
      return found
    end
    newChild()
    local set = servers.open { command = { "node", PEERS .. "mcp-server-everything" } }
    call(set, "echo", { message = "x" })
    local id = newChild()
    assert(os.execute("kill -9 " .. id))
    processes.awaitEnd(id)
    assert.same({ result = "Echo: y" }, (call(set, "echo", { message = "y" })))
    id = newChild()
    set:close()
    processes.awaitEnd(id)
  end)
end)

describe("the official server for files", function()
  it("works in its folder", function()
    local folder = support.tmpdir()
    local set = servers.open {
      command = { "node", io.popen("pwd"):read "l" .. "/" .. PEERS .. "mcp-server-filesystem", "." }, cwd = folder,
      prefix = "fs_", allow = { "write_file", "read_text_file", "list_directory" },
    }
    local responses = responsesTo(set, { "fs_write_file", { path = "a.txt", content = "of an agent" }, "c1" })
    assert.is_nil(responses[1].response.error)
    local file <close> = assert(io.open(folder .. "/a.txt"))
    assert.equal("of an agent", file:read "a")
    responses = responsesTo(set, { "fs_read_text_file", { path = "a.txt" }, "c1" },
      { "fs_list_directory", { path = "." }, "c2" }, { "fs_read_text_file", { path = "/etc/passwd" }, "c3" })
    assert.equal("of an agent", responses[1].response.content)
    assert.matches("a.txt", responses[2].response.content)
    assert.matches("Access denied", responses[3].response.error)
    assert.equal(3, #set:tools())
  end)
end)

describe("the official server for memories", function()
  it("keeps what it is told in the file that its variable names", function()
    local path = support.tmpdir() .. "/memory.jsonl"
    local set = servers.open { command = { "node", PEERS .. "mcp-server-memory" }, env = { MEMORY_FILE_PATH = path } }
    local entity = { name = "Ann", entityType = "person", observations = { "likes tea" } }
    local responses = responsesTo(set, { "create_entities", { entities = { entity } }, "c1" })
    assert.is_nil(responses[1].response.error)
    local found = call(set, "search_nodes", { query = "tea" })
    assert.equal("Ann", found.entities[1].name)
    local file <close> = assert(io.open(path))
    assert.matches("likes tea", file:read "a")
  end)
end)

describe("a strict server of 2026-07-28", function()
  local http, url
  setup(function()
    http = start { "node", STRICT, "http" }
    url = ("http://127.0.0.1:%s/mcp"):format(firstLine(http))
  end)
  teardown(function() http:close() end)

  for _, way in ipairs { "as a process", "behind an address" } do
    it("answers " .. way, function()
      local set = servers.open(way == "as a process" and { command = { "node", STRICT, "stdio" } } or { url = url })
      local responses = responsesTo(set, { "add", { a = 2, b = 3 }, "c1" }, { "picture", {}, "c2" },
        { "regional_query", { region = " Süd " }, "c3" }, { "fail", {}, "c4" }, { "wait", { milliseconds = 20 }, "c5" })
      assert.same({ sum = 5 }, responses[1].response)
      assert.equal("image/png", responses[2].parts[1].inlineData.mimeType)
      assert.same({ result = "asked in  Süd " }, responses[3].response)
      assert.same({ error = "out of order" }, responses[4].response)
      assert.same({ result = "waited" }, responses[5].response)
      assert.same({ { role = "user", parts = { { text = "Greet Ann" } } } }, set:prompt("greet", { name = "Ann" }))
      assert.equal("model", set:prompt("größe")[1].role)
      assert.same({ { text = "a memo" } }, set:resource "memo://list")
      assert.matches("Resource not found", failure(set.resource, set, "memo://none").message)
    end)
  end

  it("checks what stands in headers", function()
    local offered = toolsOf(servers.open { url = url })
    for _, region in ipairs { "eu", "=?base64?eA==?=", "a\nb", "", "日本" } do
      assert.same({ result = "asked in " .. region }, (offered.regional_query.run { region = region, limit = 1 }))
    end
  end)

  it("is left alone by a call that is too late", function()
    local message, _, set = servers.late(function(timeoutMs)
      return servers.open { url = url, timeoutMs = timeoutMs }
    end, "wait", "tools/call", { milliseconds = 3600000 })
    assert.matches("did not answer tools/call within its time", message)
    assert.same({ sum = 3 }, (call(set, "add", { a = 1, b = 2 })))
  end)
end)
