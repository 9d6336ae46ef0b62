-- Answers of every kind from callbacks, models, tools, plugins and services of the user's own: a
-- run ends well or with an error object, its session stays usable, and state and history agree.
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local hostile = require "spec.support.hostile_values"
local moonpad = require "moonpad"
local support = require "spec.support"

local AROUND = {
  "beforeAgentCallback", "afterAgentCallback", "beforeModelCallback", "afterModelCallback", "onModelErrorCallback",
  "beforeToolCallback", "afterToolCallback", "onToolErrorCallback",
}
local OF_RUN = { "onUserMessage", "beforeRun", "onEvent", "afterRun" }

local isChosen = checks.chooser()
local problems, judge, store, answers

-- What the test has put there answers; otherwise nothing does.
local function ask(name, ...)
  local answer = answers[name]
  if answer then return answer(...) end
end

local function asking(name)
  return function(...) return ask(name, ...) end
end

local function toolThenDone(request)
  local parts = request.contents[#request.contents].parts
  return parts[#parts].functionResponse and "done" or support.calls { "t", { x = 1 } }
end

local function serviceWith(prefix, methods)
  local service = {}
  for _, method in ipairs(methods) do
    service[method] = function(_, ...) return ask(prefix .. method, ...) end
  end
  return service
end

local function runnerOf(agent)
  local plugin = {}
  for _, hook in ipairs(AROUND) do plugin[hook] = asking("plugin " .. hook) end
  for _, hook in ipairs(OF_RUN) do plugin[hook] = asking("plugin " .. hook) end
  return moonpad.runner {
    appName = "app", agent = agent, sessionService = store, plugins = { plugin }, maxLlmCalls = 5,
    artifactService = serviceWith("artifacts ", { "save", "load", "list" }),
    memoryService = serviceWith("memory ", { "searchMemory" }),
  }
end

local function hooked()
  local definition = {
    name = "A", instruction = asking "instruction", outputKey = "said",
    model = function(request, context)
      if answers.model then return answers.model(request, context) end
      return toolThenDone(request)
    end,
    tools = { { name = "t", run = function(_, context)
      context.state.count = (context.state.count or 0) + 1
      return ask("tool", context)
    end } },
  }
  for _, hook in ipairs(AROUND) do definition[hook] = asking(hook) end
  return moonpad.agent(definition)
end

-- State as history tells it.
local function told(session)
  local state = {}
  for _, event in ipairs(session.events) do
    for key, value in pairs(event.actions.stateDelta) do
      if value == moonpad.removed then state[key] = nil else state[key] = value end
    end
  end
  return moonpad.json.encode(state)
end

local function complain(where, what)
  problems[#problems + 1] = where .. ": " .. what
end

-- The same session must take a plain message afterwards.
local function checkSession(where, runner)
  answers = { ["artifacts load"] = function() return { text = "fine" } end }
  local ok, err = pcall(support.run, runner, "again")
  local session = support.stored(store)
  if not ok then complain(where, "the session is unusable: " .. tostring(err)) end
  local shown = moonpad.json.encode(session.state:getAll())
  if told(session) ~= shown then complain(where, "state and history differ: " .. shown .. told(session)) end
  store:deleteSession { appName = "app", userId = "u", sessionId = "s" }
end

-- The words of Lua must not reach the model either.
local function checkResponses(where, events)
  for _, event in ipairs(events) do
    for _, response in ipairs(event:functionResponses()) do
      local problem = type(response.response) == "table" and response.response.error
      if type(problem) == "string" and problem:find "^[^ ]*moonpad/[%w_/]+%.lua:%d+:" then complain(where, problem) end
    end
  end
end

local function run(where, runner, given)
  if not isChosen() then return end
  answers = given
  local ok, events = pcall(support.run, runner, "go")
  if ok then checkResponses(where, events) else judge(where, events) end
  checkSession(where, runner)
end

local function always(make)
  return function() return make() end
end

local function raise() error("broken", 0) end

describe("a hostile answer", function()
  before_each(function()
    problems, judge = hostile.newJudge()
    store = moonpad.open "memory:"
  end)

  after_each(function()
    store:close()
    collectgarbage()
    assert.same({}, problems)
  end)

  it("of a hook, a tool or an instruction", function()
    local runner, names = runnerOf(hooked()), { "tool", "instruction", "plugin beforeModelCallback" }
    for _, hook in ipairs(AROUND) do names[#names + 1] = hook end
    for _, hook in ipairs(OF_RUN) do names[#names + 1] = "plugin " .. hook end
    for _, value in ipairs(hostile.values) do
      for _, name in ipairs(names) do
        local given = { [name] = always(value[2]) }
        if name:find "onModelError" then given.model = raise end
        if name:find "onToolError" then given.tool = raise end
        run(name .. ": " .. value[1], runner, given)
      end
    end
  end)

  it("that is raised as an error reaches the caller as it is, and the model as a text", function()
    local runner = runnerOf(hooked())
    for _, value in ipairs(hostile.values) do
      for _, name in ipairs { "tool", "model", "beforeAgentCallback", "plugin onEvent" } do
        local raised = value[2]()
        answers = { [name] = function() error(raised, 0) end }
        local ok, err = pcall(support.run, runner, "go")
        local isSame = core.isError(err) or rawequal(err, raised) or raised ~= raised
        local isExpected = name == "tool" and ok or name ~= "tool" and not ok and isSame
        if not isExpected then complain(name .. " raises " .. value[1], type(err)) end
        checkSession(name .. " raises " .. value[1], runner)
      end
    end
  end)

  -- Models answer with a shape around a value; at once, and as a stream.
  local function tryShapes(shapes)
    local runner = runnerOf(hooked())
    for _, value in ipairs(hostile.few) do
      for name, shape in pairs(shapes) do
        local where, isAsked = ("%s: %s"):format(name, value[1]), false
        local function once(answer)
          return function()
            if isAsked then return "done" end
            isAsked = true
            return answer()
          end
        end
        run(where, runner, { model = once(function() return shape(value[2]()) end) })
        isAsked = false
        run(where .. ", streamed", runner, { model = once(function()
          local count = 0
          return function()
            count = count + 1
            if count > 3 then return nil end
            local response = shape(value[2]())
            if count < 3 and response.partial == nil then response.partial = true end
            return response
          end
        end) })
      end
    end
  end

  local function inTable(names, wrap)
    local shapes = {}
    for name in names:gmatch "%S+" do shapes[name] = function(value) return wrap(name, value) end end
    return shapes
  end

  it("of a model: a field of the response", function()
    tryShapes(inTable([[content partial turnComplete interrupted errorCode errorMessage finishReason usageMetadata
      modelVersion customMetadata groundingMetadata id author timestamp actions branch nobody]], function(name, value)
        return { content = { parts = { { text = "x" } } }, [name] = value }
      end))
    tryShapes(inTable("errorCode errorMessage usageMetadata finishReason", function(name, value)
      return { [name] = value }
    end))
  end)

  it("of a model: a field of the content, or of a part", function()
    tryShapes(inTable("role parts nobody", function(name, value)
      return { content = { role = "model", parts = { { text = "x" } }, [name] = value } }
    end))
    tryShapes(inTable("text thought functionCall functionResponse inlineData codeExecutionResult mine",
      function(name, value)
        return { content = { parts = { { [name] = value }, { text = "x", [name] = value } } } }
      end))
    tryShapes { part = function(value) return { content = { parts = { value, { text = "x" }, value } } } end }
  end)

  it("of a model: a field of a function call or of the usage", function()
    tryShapes(inTable("id name args", function(name, value)
      local call = { id = "c", name = "t", args = {} }
      call[name] = value
      return { content = { parts = { { functionCall = call } } } }
    end))
    tryShapes(inTable("promptTokenCount mine", function(name, value)
      return { content = { parts = { { text = "x" } } }, usageMetadata = { [name] = value } }
    end))
  end)

  it("to a request: each of its fields, as a callback has replaced it", function()
    local runner = runnerOf(hooked())
    local scripted = moonpad.models.scripted
    for _, value in ipairs(hostile.values) do
      for name in ("model systemInstruction contents tools config"):gmatch "%S+" do
        run(("request.%s: %s"):format(name, value[1]), runner, {
          beforeModelCallback = function(_, request) request[name] = value[2]() end,
          model = function(request) return scripted({ "x" }):generate(request) end,
        })
      end
      run("arguments: " .. value[1], runner, { beforeToolCallback = function(_, _, args) args.x = value[2]() end })
    end
  end)

  it("in what a tool leaves behind", function()
    local runner = runnerOf(hooked())
    for _, value in ipairs(hostile.values) do
      for name, work in pairs {
        value = function() return { value = value[2]() } end,
        state = function(context) context.state.x = value[2]() end,
        action = function(context) context.actions.mine = value[2]() end,
        artifactDelta = function(context) context.actions.artifactDelta = { file = value[2]() } end,
      } do run(("%s: %s"):format(name, value[1]), runner, { tool = work }) end
    end
  end)

  it("of an artifact or memory service", function()
    local runner = runnerOf(hooked())
    local calls = {
      ["artifacts save"] = function(context) return context:saveArtifact("f", "x") end,
      ["artifacts load"] = function(context) return context:loadArtifact "f" end,
      ["artifacts list"] = function(context) return context:listArtifacts() end,
      ["memory searchMemory"] = function(context) return context:searchMemory "x" end,
    }
    local template = runnerOf(moonpad.agent {
      name = "B", instruction = "See {artifact.f}.", model = function() return "x" end,
    })
    for _, value in ipairs(hostile.few) do
      for name, call in pairs(calls) do
        local where = name .. ": " .. value[1]
        run(where .. ", in a tool", runner, { [name] = always(value[2]), tool = call })
        run(where .. ", in a callback", runner, {
          [name] = always(value[2]), beforeAgentCallback = function(context) call(context) end,
        })
      end
      for name, shape in pairs {
        part = function(given) return given end,
        text = function(given) return { text = given } end,
        inlineData = function(given) return { inlineData = given } end,
        mimeType = function(given) return { inlineData = { mimeType = given, data = "x" } } end,
        data = function(given) return { inlineData = { mimeType = "text/plain", data = given } } end,
      } do
        run(("template, %s: %s"):format(name, value[1]), template, {
          ["artifacts load"] = function() return shape(value[2]()) end,
        })
      end
    end
  end)

  it("in an event of a custom agent or of onEvent", function()
    local custom = runnerOf(moonpad.customAgent { name = "Top", run = function(context)
      context.state.count = (context.state.count or 0) + 1
      context:emit(answers.event and answers.event() or "fine")
    end })
    local runner = runnerOf(hooked())
    local function try(where, event)
      run("emit " .. where, custom, { event = event })
      run("onEvent " .. where, runner, { ["plugin onEvent"] = event })
    end
    for _, value in ipairs(hostile.few) do
      for name in ("id invocationId author timestamp content actions partial branch longRunningToolIds customMetadata "
        .. "errorCode mine"):gmatch "%S+" do
        try(name .. ": " .. value[1], function()
          local event = { content = "x" }
          event[name] = value[2]()
          return event
        end)
      end
      for name in ("stateDelta artifactDelta transferToAgent escalate skipSummarization mine"):gmatch "%S+" do
        try(name .. ": " .. value[1], function() return { content = "x", actions = { [name] = value[2]() } } end)
      end
    end
  end)
end)
