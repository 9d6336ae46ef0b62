-- Where code of a run may wait, and what becomes of it where it may not.
local core = require "moonpad.core"
local http = require "moonpad.http"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

local failure = require("spec.support.checks").failure

-- A job of moonpad's kind that is done when it has been asked so many times.
local function countdown(count)
  return { poll = function()
    count = count - 1
    return count <= 0, "done"
  end }
end

-- Nobody listens there.
local function request()
  return http.request { url = "http://127.0.0.1:1/", attempts = 1 }
end

-- All ways to wait; what each says of itself when it may not.
local waits = {
  ["context:await"] = function(context) return context:await(countdown(3)) end,
  ["context:await with a request"] = function(context) return context:await(request()) end,
  ["context:emit"] = function(context) return context:emit "x" end,
  ["context:runAgent"] = function(context) return context:runAgent "Child" end,
  ["job:wait"] = function() return request():wait() end,
  ["job:receive"] = function() return request():receive() end,
  ["job:collect"] = function() return request():collect() end,
}

local function runCustom(work, others)
  local runner = moonpad.runner {
    appName = "app", sessionService = moonpad.open "memory:",
    agent = moonpad.parallelAgent { name = "Both", subAgents = {
      moonpad.customAgent { name = "Top", run = work, subAgents = {
        moonpad.agent { name = "Child", model = function() return "child" end },
      } },
      moonpad.customAgent { name = "Beside", run = others or function() end },
    } },
  }
  return support.run(runner, "go")
end

describe("waiting in a run", function()
  for name, wait in pairs(waits) do
    local what = name .. ((name:find "^job:" or name:find "request") and " #http" or "")
    it(what .. " in a coroutine of one's own is an error, and nothing reaches that coroutine's owner", function()
      local got
      local events = runCustom(function(context)
        local generator = coroutine.wrap(function()
          coroutine.yield "first"
          local ok, err = pcall(wait, context)
          coroutine.yield(not ok and err or "waited")
          coroutine.yield "last"
        end)
        got = { generator(), generator(), generator() }
      end)
      assert.same({ "first", "last" }, { got[1], got[3] })
      assert.is_true(core.isError(got[2]))
      assert.equal("invalid_argument", got[2].code)
      assert.matches("^" .. name:gsub(" .*", "") .. ": .*not from a coroutine of your own", got[2].message)
      assert.equal(0, #events)
    end)
  end

  it("lets those beside it go on", function()
    local order = {}
    runCustom(function(context)
      local result = context:await(countdown(4))
      order[#order + 1] = result
    end, function() order[#order + 1] = "beside" end)
    assert.same({ "beside", "done" }, order)
  end)

  it("blocks where Lua cannot yield; an event cannot go out from there #http", function()
    local waited, refused = {}, {}
    runCustom(function(context)
      for name, wait in pairs(waits) do
        table.sort({ 1, 2 }, function()
          local ok, err = pcall(wait, context)
          if ok then waited[name] = true else refused[name] = err end
          return false
        end)
      end
    end)
    for _, name in ipairs { "context:await", "job:wait", "job:receive", "job:collect" } do
      assert.is_true(waited[name])
    end
    assert.equal("tool", refused["context:await with a request"].code) -- the connection was refused
    for _, name in ipairs { "context:emit", "context:runAgent" } do
      assert.matches("^" .. name .. ": .*table.sort", refused[name].message)
    end
  end)
end)

describe("waiting outside of a run", function()
  it("sleeps", function()
    assert.equal("done", testing.toolContext():await(countdown(3)))
  end)

  it("of a request sleeps #http", function()
    assert.is_nil(request():wait())
  end)

  it("of a request yields in a coroutine, also between the steps of a run #http", function()
    local job = request()
    local thread = coroutine.create(function() job:wait() end)
    local runner = moonpad.runner { appName = "app", sessionService = moonpad.open "memory:",
      agent = moonpad.agent { name = "A", model = function() return "x" end } }
    for _ in runner:run { userId = "u", newMessage = "go" } do
      support.waitUntil("the end of the request", function()
        if coroutine.status(thread) == "suspended" then assert(coroutine.resume(thread)) end
        return coroutine.status(thread) == "dead"
      end)
    end
    assert.is_truthy(job.failure)
  end)

  it("is not kept from it by a run that has failed", function()
    failure(runCustom, function() error "broken" end)
    assert.equal("done", coroutine.wrap(function() return testing.toolContext():await(countdown(3)) end)())
  end)
end)
