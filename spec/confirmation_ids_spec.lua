-- Confirmations where ids of calls are no help: models give the same ones again and again, agents
-- have them in common, one message answers several.
local moonpad = require "moonpad"
local support = require "spec.support"

local checks = require "spec.support.checks"

local REQUIRED = { error = "This tool call requires confirmation, please approve or reject." }
local REJECTED = { error = "This tool call is rejected." }

local function requestsIn(events)
  local ids = {}
  for _, event in ipairs(events) do
    for _, call in ipairs(event:functionCalls()) do
      if call.name == "adk_request_confirmation" then ids[#ids + 1] = call.id end
    end
  end
  return ids
end

-- A message: pairs of a request and whether it is approved.
local function answer(...)
  local parts = {}
  for index, given in ipairs { ... } do
    parts[index] = { functionResponse = { id = given[1], response = { confirmed = given[2] } } }
  end
  return { role = "user", parts = parts }
end

-- The answers to calls that a request shows, in order.
local function answersIn(contents)
  local list = {}
  for _, content in ipairs(contents) do
    for _, part in ipairs(content.parts) do
      if part.functionResponse then list[#list + 1] = part.functionResponse.response end
    end
  end
  return list
end

support.any_store(function(open)
  local service, ran, told
  before_each(function() service, ran, told = open(), {}, {} end)

  -- An agent that pays once it is told to, with the ids that it is given, and keeps what it is
  -- told.
  local function payer(name, ids, more)
    local fields = {
      name = name,
      tools = { { name = "pay", requireConfirmation = true, run = function(args)
        ran[#ran + 1] = name .. (args.sum or "")
        return { paidBy = name, sum = args.sum }
      end } },
      model = function(request)
        local last = request.contents[#request.contents].parts[1]
        if last.functionResponse then
          told[name] = request.contents
          return name .. " is done"
        end
        local calls = {}
        for index, id in ipairs(ids) do
          calls[index] = { "pay", { sum = math.tointeger(tonumber(last.text)) or index }, id }
        end
        return support.calls(table.unpack(calls))
      end,
    }
    for field, value in pairs(more or {}) do fields[field] = value end
    return moonpad.agent(fields)
  end

  local function runnerOf(agent)
    return moonpad.runner { appName = "app", agent = agent, sessionService = service }
  end

  for _, kind in ipairs { "parallelAgent", "sequentialAgent" } do
    it("two agents of a " .. kind .. " with one id are told of their own tools", function()
      local agents = { payer("A", { "call_0" }), payer("B", { "call_0" }) }
      local runner = runnerOf(moonpad[kind] { name = "Both", subAgents = agents })
      local requests = requestsIn(support.run(runner, "go"))
      assert.equal(2, #requests)
      local events = support.run(runner, answer({ requests[1], true }, { requests[2], true }))
      table.sort(ran)
      assert.same({ "A1", "B1" }, ran)
      assert.same({}, requestsIn(events))
      for _, name in ipairs { "A", "B" } do
        assert.same({ { paidBy = name, sum = 1 } }, answersIn(told[name]))
      end
    end)
  end

  for _, includeContents in ipairs { "default", "none" } do
    describe('with includeContents = "' .. includeContents .. '"', function()
      local runner, first, second
      before_each(function()
        runner = runnerOf(payer("A", { "c" }, { includeContents = includeContents }))
        first = requestsIn(support.run(runner, "1"))[1]
        second = requestsIn(support.run(runner, "2"))[1]
      end)

      it("the calls of two turns with one id are answered in one message", function()
        support.run(runner, answer({ first, true }, { second, true }))
        assert.same({ "A1", "A2" }, ran)
        assert.same({ { paidBy = "A", sum = 1 }, { paidBy = "A", sum = 2 } }, answersIn(told.A))
        support.run(runner, "3")
        support.run(runner, answer({ requestsIn(support.stored(service).events)[3], false }))
        local answers = answersIn(told.A)
        assert.same(REJECTED, answers[#answers])
        if includeContents == "default" then assert.equal(3, #answers) end
      end)

      it("the later one first, then the earlier one", function()
        support.run(runner, answer { second, true })
        local answers = answersIn(told.A)
        assert.same({ paidBy = "A", sum = 2 }, answers[#answers])
        if includeContents == "default" then assert.same(REQUIRED, answers[1]) end
        support.run(runner, answer { first, true })
        assert.same({ { paidBy = "A", sum = 1 } }, answersIn(told.A))
        assert.same({ "A2", "A1" }, ran)
      end)
    end)
  end

  it("two calls of one answer with one id get what their own runs gave", function()
    local runner = runnerOf(payer("A", { "c", "c" }))
    local requests = requestsIn(support.run(runner, "go"))
    support.run(runner, answer { requests[2], true })
    assert.same({ REQUIRED, { paidBy = "A", sum = 2 } }, answersIn(told.A))
    support.run(runner, answer { requests[1], true })
    assert.same({ { paidBy = "A", sum = 1 }, { paidBy = "A", sum = 2 } }, answersIn(told.A))
  end)

  it("two calls of one answer with one id are answered in any order", function()
    local runner = runnerOf(payer("A", { "c", "c" }))
    local requests = requestsIn(support.run(runner, "go"))
    support.run(runner, answer({ requests[2], true }, { requests[1], false }))
    assert.same({ REJECTED, { paidBy = "A", sum = 2 } }, answersIn(told.A))
    assert.same({ "A2" }, ran)
  end)

  it("a failing agent does not take the approvals of the others along", function()
    local isDown = false
    local failing = payer("A", { "a" }, {
      beforeModelCallback = function() if isDown then error("HTTP 503", 0) end end,
    })
    local runner = runnerOf(moonpad.parallelAgent { name = "Both", subAgents = { failing, payer("B", { "b" }) } })
    local requests = requestsIn(support.run(runner, "go"))
    isDown = true
    local message = answer({ requests[1], true }, { requests[2], true })
    assert.equal("HTTP 503", checks.failure(support.run, runner, message))
    assert.same({ "A1", "B1" }, ran)
    assert.same({ { paidBy = "B", sum = 1 } }, answersIn(told.B))
    isDown = false
    support.run(runner, "1")
  end)

  it("an answer to the call in place of the request is refused, and stores nothing", function()
    local runner = runnerOf(payer("A", { "c" }))
    local request = requestsIn(support.run(runner, "go"))[1]
    local revision = support.stored(service).revision
    checks.raises("invalid_argument", request, support.run, runner, answer { "c", true })
    assert.equal(revision, support.stored(service).revision)
    support.run(runner, answer { request, true })
    assert.same({ "A1" }, ran)
  end)

  it("an answer has the name of its call, whatever it came with", function()
    local agent = moonpad.agent {
      name = "A", tools = { { name = "later", longRunning = true, run = function() end } },
      model = function(request)
        told.A = request.contents
        return #request.contents == 1 and support.calls { "later", {}, "L" } or "ok"
      end,
    }
    local runner = runnerOf(agent)
    support.run(runner, "go")
    support.run(runner, { parts = { { functionResponse = {
      id = "L", name = "adk_request_confirmation", response = { done = true },
    } } } })
    assert.same({ { done = true } }, answersIn(told.A))
  end)
end)

describe('includeContents = "none"', function()
  it("goes back to the first call that a message answers", function()
    local service = moonpad.open "memory:"
    local told
    local agent = moonpad.agent {
      name = "A", includeContents = "none", tools = { { name = "later", longRunning = true, run = function() end } },
      model = function(request)
        told = request.contents
        local last = request.contents[#request.contents].parts[1]
        return last.text and last.text:find "^ask" and support.calls { "later", {}, last.text } or "ok"
      end,
    }
    local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
    for _, message in ipairs { "hello", "ask 1", "ask 2", "well" } do support.run(runner, message) end
    support.run(runner, { parts = {
      { functionResponse = { id = "ask 1", response = { n = 1 } } },
      { functionResponse = { id = "ask 2", response = { n = 2 } } },
    } })
    assert.same({ { n = 1 }, { n = 2 } }, answersIn(told))
    assert.equal("ask 1", told[1].parts[1].text)
  end)
end)
