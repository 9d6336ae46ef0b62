--- Calling one tool as a run does.
local confirmation = require "moonpad.flow.confirmation"
local contexts = require "moonpad.runtime.context"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local errorText = require "moonpad.util.error_text"
local failures = require "moonpad.testing.failure"
local fields = require "moonpad.schema.fields"
local results = require "moonpad.tools.result"
local schema = require "moonpad.schema.validate"
local toolContext = require "moonpad.testing.tool_context"
local tools = require "moonpad.tools.tool"

local WHERE <const> = "testing.callTool"

local function contextOf(given)
  return contexts.stateOf(given) and given or toolContext(given)
end

local function checkArguments(tool, args)
  if type(args) ~= "table" then fields.refuse(WHERE .. ": args", "expected a table, got " .. fields.describe(args)) end
  local problem = schema.check(tool.parameters, args)
  if problem then failures.raise("tool", ("%s: bad arguments: %s"):format(tool.name, problem)) end
end

-- A tool may wait, which only a coroutine can.
local function drive(body)
  local thread = coroutines.newThread(body)
  local ok, err = coroutines.resume(thread)
  while ok and coroutine.status(thread) ~= "dead" do
    core.idle(0.001)
    ok, err = coroutines.resume(thread)
  end
  return ok, err, not ok and debug.traceback(thread, nil) or nil
end

local function call(tool, args, context)
  local result, parts
  local ok, err, traceback = drive(function()
    result = confirmation.answerInstead(tool, args, contexts.stateOf(context))
    if result ~= nil then return end
    result, parts = results.read(tool.name, tool.run(args, context))
    core.encodeWithin({ result = result, parts = parts }, contexts.stateOf(context).invocationContext.session)
  end)
  if ok then return result, parts end
  local message = ('the tool "%s" failed: %s'):format(tool.name, errorText.of(err))
  -- A text is what the tool returned behind nil, or has its line in front.
  if type(err) ~= "string" or err:find "^[^\n]-:%d+: " then message = message .. "\n" .. traceback end
  return failures.raise(core.isError(err) and err.code or "tool", message, { cause = err })
end

---Calls a tool as a run does: its arguments must fit its schema, what it returns must be something
---that an event can carry, and it may wait. What it raises, and `nil, "message"`, fails the test.
---@param tool moonpad.Tool|moonpad.ToolDefinition
---@param args table? default: none
---@param context moonpad.Context|moonpad.ToolContextOptions|nil a context, or what testing.toolContext takes
---@return any result
---@return moonpad.Context context that the tool got: what it wrote is pending in `context.state`
---@return moonpad.Part[]? parts the files that go along
return function(tool, args, context)
  tool, args, context = tools.of(tool, WHERE .. ": tool"), args or {}, contextOf(context)
  checkArguments(tool, args)
  contexts.stateOf(context).isRunningTool = true
  local result, parts = call(tool, args, context)
  return result, context, parts
end
