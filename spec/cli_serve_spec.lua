-- `moonpad serve`: the command as a process, what it says, how it ends; two of them on one store.
local files = require "spec.support.files"
local moonpad = require "moonpad"
local processes = require "spec.support.processes"
local serveCommand = require "spec.support.serve_command"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

local AGENT <const> = [[
local moonpad = require "moonpad"
return moonpad.agent { name = "%s", model = function(request)
  local text = request.contents[#request.contents].parts[1].text
  if text == "hang" then moonpad.sleep(1000) end
  while text == "slow" and not io.open "%s" do moonpad.sleep(0.01) end
  return "You said: " .. text
end, afterAgentCallback = function(context) context.state:increment("app:turns") end }
]]

local folder, started

local function serve(...)
  local command = serveCommand.start { ... }
  started[#started + 1] = command.process
  return command
end

local function request(url, method, path, body)
  local job = moonpad.http.request {
    method = method, url = url .. path, body = body and moonpad.json.encode(body), attempts = 1,
  }
  local text = assert(job:collect())
  return { status = job.status, json = text ~= "" and moonpad.json.decode(text) or nil }
end

local function message(text, app, session)
  return {
    appName = app or "clerk", userId = "ann", sessionId = session or "s", newMessage = { parts = { { text = text } } },
  }
end

local function signal(process, name)
  assert(os.execute(("kill -%s %d"):format(name, process:id())))
end

-- How it has ended, once it has.
local function endingOf(process)
  support.waitUntil("the end of the server", function() return process:ending() end)
  return process:ending()
end

before_each(function()
  folder, started = support.tmpdir(), {}
  files.write(folder .. "/clerk.lua", AGENT:format("clerk", folder .. "/go"))
end)

after_each(function()
  for _, process in ipairs(started) do process:close() end
  support.cleanup()
end)

describe("moonpad serve", function()
  it("says in one line where it serves, and answers", function()
    local command = serve(folder .. "/clerk.lua", "--db", folder .. "/a.db")
    assert.are.equal(("Serving clerk at %s/ (Ctrl-C ends it)"):format(command.url), command.line)
    assert.are.same({ "clerk" }, request(command.url, "GET", "/list-apps").json)
    request(command.url, "POST", "/apps/clerk/users/ann/sessions/s", {})
    local events = request(command.url, "POST", "/run", message "hi").json
    assert.are.equal("You said: hi", events[1].content.parts[1].text)
  end)

  it("takes several agents, and folders of them", function()
    for _, name in ipairs { "one", "two" } do
      assert(os.execute(("mkdir -p %s/agents/%s"):format(support.quote(folder), name)))
      files.write(("%s/agents/%s/agent.lua"):format(folder, name), AGENT:format(name, folder .. "/go"))
    end
    local command = serve(folder .. "/agents", folder .. "/clerk.lua", "--db", "memory:")
    assert.are.same({ "clerk", "one", "two" }, request(command.url, "GET", "/list-apps").json)
  end)

  it("says what is wrong, and ends with 1", function()
    local function told(arguments)
      local pipe <close> = assert(io.popen("bin/moonpad serve " .. arguments .. " 2>&1; echo $?"))
      return pipe:read "a"
    end
    local agent = support.quote(folder .. "/clerk.lua")
    assert.is_truthy(told "/nowhere.lua":find 'there is no agent file "/nowhere.lua"\n1\n')
    assert.is_truthy(told(agent .. " " .. agent .. " --db memory:"):find "another agent of the name clerk")
    assert.is_truthy(told(agent .. " --db memory: --port 0 --host 0.0.0.0"):find "beyond loopback")
    assert.is_truthy(told(agent .. " --db memory: --port 0 --ui /nowhere"):find "no index.html in /nowhere")
    assert.is_truthy(told "":find "missing argument" or told "":find "2\n$")
    local command = serve(folder .. "/clerk.lua", "--db", "memory:")
    local port = command.url:match "%d+$"
    assert.is_truthy(told(agent .. " --db memory: --port " .. port):find "in use")
  end)

  for name, ending in pairs { TERM = 0, INT = 130 } do
    it(("ends with %d at SIG%s, after the runs under way"):format(ending, name), function()
      local command = serve(folder .. "/clerk.lua", "--db", folder .. "/a.db")
      request(command.url, "POST", "/apps/clerk/users/ann/sessions/s", {})
      local job = moonpad.http.request {
        method = "POST", url = command.url .. "/run", body = moonpad.json.encode(message "slow"), attempts = 1,
      }
      support.waitUntil("the run", function()
        return #request(command.url, "GET", "/apps/clerk/users/ann/sessions/s").json.events > 0
      end)
      signal(command.process, name)
      files.write(folder .. "/go", "")
      assert.is_truthy(job:collect():find "You said: slow")
      assert.are.equal("it ended with exit code " .. ending, endingOf(command.process))
      -- No connection is taken any more.
      local late = moonpad.http.request { url = command.url .. "/health", attempts = 1 }
      assert.is_nil((late:wait()))
      local service <close> = moonpad.open("sqlite:" .. folder .. "/a.db")
      local session = service:getSession { appName = "clerk", userId = "ann", sessionId = "s" }
      assert.are.equal("You said: slow", session.events[2]:text())
    end)
  end

  it("does nothing while nobody asks", function()
    local command = serve(folder .. "/clerk.lua", "--db", "memory:")
    request(command.url, "GET", "/health")
    local function ticks()
      local stat = files.read(("/proc/%d/stat"):format(command.process:id()))
      local user, system = stat:match "%) %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ %S+ (%d+) (%d+)"
      return user + system
    end
    -- It may still have something to do that it does once.
    support.waitUntil("a second in which it does nothing", function()
      local before = ticks()
      moonpad.sleep(1)
      return ticks() - before <= 1
    end)
    assert.is_true(processes.lives(command.process:id()))
  end)
end)

describe("examples/serve.lua", function()
  it("keeps users apart by their tokens", function()
    local command = serveCommand.run({ "lua5.4", "examples/serve.lua", "0" }, { "SERVE_TOKENS=aa=ann bb=bob" })
    started[#started + 1] = command.process
    local function status(token, path)
      local job = moonpad.http.request {
        url = command.url .. path, attempts = 1, headers = token and { Authorization = "Bearer " .. token } or nil,
      }
      job:collect()
      return job.status
    end
    assert.are.equal(200, status("aa", "/apps/clerk/users/ann/sessions"))
    assert.are.equal(403, status("bb", "/apps/clerk/users/ann/sessions"))
    assert.are.equal(401, status("cc", "/apps/clerk/users/ann/sessions"))
    assert.are.equal(401, status(nil, "/apps/clerk/users/ann/sessions"))
    assert.are.equal(200, status(nil, "/"))
  end)
end)

describe("two servers", function()
  local function test(store)
    local database = support.freshUrl(store)
    local first = serve(folder .. "/clerk.lua", "--db", database)
    local second = serve(folder .. "/clerk.lua", "--db", database)
    request(first.url, "POST", "/apps/clerk/users/ann/sessions/s", {})
    local jobs, asked, answered, refused = {}, 20, 0, 0
    for index = 1, asked do
      local url = index % 2 == 0 and first.url or second.url
      jobs[index] = moonpad.http.request {
        method = "POST", url = url .. "/run", body = moonpad.json.encode(message("m" .. index)), attempts = 1,
      }
    end
    for _, job in ipairs(jobs) do
      job:collect()
      -- A conflict is told (contract 2.2); what was answered was stored.
      if job.status == 200 then answered = answered + 1 end
      if job.status == 409 then refused = refused + 1 end
    end
    assert.are.equal(asked, answered + refused)
    assert.is_true(answered > 0)
    local one = request(first.url, "GET", "/apps/clerk/users/ann/sessions/s").json
    local two = request(second.url, "GET", "/apps/clerk/users/ann/sessions/s").json
    assert.are.same(one, two)
    assert.are.equal(answered, one.state["app:turns"])
    local texts = 0
    for _, event in ipairs(one.events) do
      if event.author == "clerk" and event.content then texts = texts + 1 end
    end
    assert.is_true(texts >= answered)
    -- What the one has written, the other sees; and goes on with.
    assert.are.equal(200, request(second.url, "POST", "/run", message "last").status)
    one = request(first.url, "GET", "/apps/clerk/users/ann/sessions/s").json
    assert.are.equal(answered + 1, one.state["app:turns"])
  end

  for _, store in ipairs(support.servers { "sqlite:FILE" }) do
    it("serve the same sessions, and lose nothing, on " .. store, function() test(store) end)
  end
end)
