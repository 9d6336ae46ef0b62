--- Running the tool calls of one model answer side by side, and answering all of them in one event.
local callbacks = require "moonpad.callbacks"
local contexts = require "moonpad.context"
local copy = require "moonpad.copy"
local core = require "moonpad.core"
local publish = require "moonpad.publish"
local schema = require "moonpad.schema"
local signals = require "moonpad.signals"

local toolsRun = {}

local ARRAY = getmetatable(core.array({}))

---- One call

local function unknownTool(agent, name)
  local names = {}
  for index, tool in ipairs(agent.tools) do names[index] = tool.name end
  return ('unknown tool "%s"; %s'):format(tostring(name),
    #names > 0 and "available: " .. table.concat(names, ", ") or "this agent has no tools")
end

-- What is wrong with a call before anything runs, or nil.
local function findProblem(agent, call)
  local tool = agent.toolsByName[call.name]
  if tool == nil then return unknownTool(agent, call.name) end
  if type(call.args) ~= "table" then
    return ('%s: expected an object of arguments, got %s'):format(call.name, type(call.args))
  end
  local problem = schema.check(tool.parameters, call.args)
  return problem and ("%s: bad arguments: %s"):format(call.name, problem)
end

local function messageOf(err)
  if type(err) ~= "table" then return tostring(err) end
  local metatable = getmetatable(err)
  if core.isError(err) then return tostring(err.message) end
  if type(metatable) == "table" and metatable.__tostring then return tostring(err) end
  if type(err.message) == "string" then return err.message end
  local ok, text = pcall(core.json.encode, err)
  return ok and text or tostring(err)
end

-- A function response is an object; anything else goes into one.
local function wrap(result)
  if type(result) == "userdata" and result ~= core.null then result = core.toTable(result) end
  if result == nil then return { result = core.null } end
  if type(result) ~= "table" or getmetatable(result) == ARRAY or result[1] ~= nil then return { result = result } end
  return result
end

local function checkResult(call, result)
  local ok, err = pcall(core.json.encode, wrap(result))
  if not ok then core.error("tool", ("%s: cannot be answered to the model: %s"):format(call.name, messageOf(err))) end
end

local function withTraceback(err)
  local text = type(err) == "string" and err or messageOf(err)
  return { err = err, traceback = debug and debug.traceback(text, 2) or text }
end

local function runTool(call)
  local result = call.tool.run(call.args, call.phase.context)
  checkResult(call, result)
  return result
end

-- The error callbacks may answer for a failed call; otherwise the model is told, and the event tells the developer.
local function answerFailure(call, err, traceback)
  local answer = callbacks.ask(call.phase, "onToolErrorCallback", call.tool, call.args, err)
  if answer == nil then
    call.response, call.traceback = { error = messageOf(err) }, traceback
    return false
  end
  return true, answer
end

-- Runs the tool itself. Whatever it wrote before it failed is taken back; what the callbacks before it wrote stays.
local function attempt(call)
  local phase = call.phase
  core.savepoint(phase.state)
  local actions = copy(phase.actions)
  local ok, result = xpcall(runTool, withTraceback, call)
  signals.raiseIfEnding(phase.invocation)
  if ok then return true, result end
  core.rollback(phase.state)
  phase.actions = actions
  return answerFailure(call, result.err, result.traceback)
end

-- All that happens for one call, in its own coroutine.
local function perform(call)
  local phase = call.phase
  if call.problem then
    local answered, answer = answerFailure(call, core.newError("tool", call.problem), call.problem)
    if answered then call.response = wrap(answer) end
    return
  end
  local answer = callbacks.ask(phase, "beforeToolCallback", call.tool, call.args)
  if answer == nil then
    local ok
    ok, answer = attempt(call)
    if not ok then return end
  end
  local replaced = callbacks.ask(phase, "afterToolCallback", call.tool, call.args, answer)
  if replaced ~= nil then answer = replaced end
  checkResult(call, answer)
  call.response = wrap(answer)
end

---- All calls of one answer

local function prepare(invocation, agent, functionCall)
  local call = { id = functionCall.id, name = functionCall.name }
  call.args = functionCall.args
  if call.args == nil or call.args == core.null then call.args = {} end
  call.problem = findProblem(agent, call)
  call.tool = agent.toolsByName[call.name] or { name = call.name, description = "an unknown tool" }
  call.phase = contexts.open(invocation, agent, call.id)
  call.thread = signals.newThread(function() perform(call) end)
  return call
end

-- One round: everybody goes on until it waits or is done.
local function resumeAll(calls)
  local waiting = false
  for _, call in ipairs(calls) do
    if coroutine.status(call.thread) == "suspended" then
      local ok, err = coroutine.resume(call.thread)
      if not ok then
        coroutine.close(call.thread)
        error(err, 0)
      end
      waiting = waiting or coroutine.status(call.thread) == "suspended"
    end
  end
  return waiting
end

local function stopAll(invocation, calls)
  invocation.ending = true
  for _, call in ipairs(calls) do signals.interrupt(call.thread) end
end

local function runAll(invocation, calls)
  -- Known to the run, so that cancelling it reaches the tools that wait.
  for _, call in ipairs(calls) do invocation.threads[call.thread] = true end
  local ok, err = pcall(function()
    while resumeAll(calls) do coroutine.yield() end
  end)
  if not ok then
    stopAll(invocation, calls)
    error(err, 0)
  end
  for _, call in ipairs(calls) do invocation.threads[call.thread] = nil end
end

local function mergeArtifacts(target, source)
  for file, version in pairs(source) do
    if target[file] == nil or target[file] < version then target[file] = version end
  end
end

local function mergeActions(target, source)
  for name, value in pairs(source) do
    if name == "artifactDelta" and target.artifactDelta then
      mergeArtifacts(target.artifactDelta, value)
    else
      target[name] = copy(value)
    end
  end
end

-- The writes of the calls, in call order, in one phase (contract 1.4 point 3).
local function merged(invocation, agent, calls)
  if #calls == 1 then return calls[1].phase end
  local target = contexts.open(invocation, agent)
  for _, call in ipairs(calls) do
    core.merge(target.state, call.phase.state)
    mergeActions(target.actions, call.phase.actions)
  end
  return target
end

local function toEvent(calls)
  local parts, errors = {}, {}
  for index, call in ipairs(calls) do
    parts[index] = { functionResponse = { id = call.id, name = call.name, response = call.response } }
    if call.traceback then errors[call.id] = call.traceback end
  end
  return {
    content = { role = "user", parts = parts },
    customMetadata = next(errors) and { toolErrors = errors } or nil,
  }
end

---Runs function calls and publishes the one event that answers them.
---@param invocation moonpad.Run
---@param agent moonpad.Agent
---@param functionCalls table[] copies of what the model's event holds
---@return { isFinal: boolean } summary of the event
function toolsRun.answer(invocation, agent, functionCalls)
  local calls = {}
  for index, functionCall in ipairs(functionCalls) do calls[index] = prepare(invocation, agent, functionCall) end
  runAll(invocation, calls)
  local phase = merged(invocation, agent, calls)
  local told = publish.event(phase, toEvent(calls))
  for _, call in ipairs(calls) do contexts.close(call.phase, "its tool call is over") end
  if #calls > 1 then contexts.close(phase, "its tool call is over") end
  return told
end

return toolsRun
