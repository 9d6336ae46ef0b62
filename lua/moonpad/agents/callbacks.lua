--- Hooks: who may answer at which point, and in which order.
local callable = require "moonpad.util.callable"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local lists = require "moonpad.util.list"

local callbacks = {}

---May answer in place of the agent.
---@alias moonpad.BeforeAgentCallback fun(context: moonpad.Context): moonpad.ContentLike|false|nil

---May say something behind the agent.
---@alias moonpad.AfterAgentCallback fun(context: moonpad.Context): moonpad.ContentLike|false|nil

---May change the request, or answer in place of the model.
---@alias moonpad.BeforeModelCallback
---| fun(context: moonpad.Context, request: moonpad.Request): moonpad.ResponseLike|false|nil

---May change the answer of the model, or replace it.
---@alias moonpad.AfterModelCallback
---| fun(context: moonpad.Context, response: moonpad.Response): moonpad.ResponseLike|false|nil

---May answer for an error of the model.
---@alias moonpad.OnModelErrorCallback
---| fun(context: moonpad.Context, request: moonpad.Request, err: any): moonpad.ResponseLike|false|nil

---May answer in place of the tool; it may change `args`.
---@alias moonpad.BeforeToolCallback fun(context: moonpad.Context, tool: moonpad.Tool, args: table): any

---May replace the result of the tool.
---@alias moonpad.AfterToolCallback fun(context: moonpad.Context, tool: moonpad.Tool, args: table, result: any): any

---May answer for an error of the tool.
---@alias moonpad.OnToolErrorCallback fun(context: moonpad.Context, tool: moonpad.Tool, args: table, err: any): any

---May replace the message of the user.
---@alias moonpad.OnUserMessage
---| fun(context: moonpad.Context, message: moonpad.Content): moonpad.ContentLike|false|nil

---Is asked before or after a run; may say something.
---@alias moonpad.OnRun fun(context: moonpad.Context): moonpad.ContentLike|false|nil

---May change an event before it is stored.
---@alias moonpad.OnEvent fun(context: moonpad.Context, event: moonpad.Event): moonpad.Event|false|nil

---Hooks for all agents of a runner, asked before the agents' own callbacks. They are called without
---a self. The hooks of a run may have ADK's names as well, with Callback at their end.
---@class moonpad.Plugin
---@field name string? for messages; no two plugins of a runner have the same
---@field onUserMessage? moonpad.OnUserMessage|moonpad.OnUserMessage[] may replace the message
---@field beforeRun? moonpad.OnRun|moonpad.OnRun[] may answer in place of the run
---@field onEvent? moonpad.OnEvent|moonpad.OnEvent[] may change an event before it is stored
---@field afterRun? moonpad.OnRun|moonpad.OnRun[] may say a last word
---@field onUserMessageCallback? moonpad.OnUserMessage|moonpad.OnUserMessage[]
---@field beforeRunCallback? moonpad.OnRun|moonpad.OnRun[]
---@field onEventCallback? moonpad.OnEvent|moonpad.OnEvent[]
---@field afterRunCallback? moonpad.OnRun|moonpad.OnRun[]
---@field beforeAgentCallback? moonpad.BeforeAgentCallback|moonpad.BeforeAgentCallback[]
---@field afterAgentCallback? moonpad.AfterAgentCallback|moonpad.AfterAgentCallback[]
---@field beforeModelCallback? moonpad.BeforeModelCallback|moonpad.BeforeModelCallback[]
---@field afterModelCallback? moonpad.AfterModelCallback|moonpad.AfterModelCallback[]
---@field onModelErrorCallback? moonpad.OnModelErrorCallback|moonpad.OnModelErrorCallback[]
---@field beforeToolCallback? moonpad.BeforeToolCallback|moonpad.BeforeToolCallback[]
---@field afterToolCallback? moonpad.AfterToolCallback|moonpad.AfterToolCallback[]
---@field onToolErrorCallback? moonpad.OnToolErrorCallback|moonpad.OnToolErrorCallback[]

-- What an agent may define, each with what it is called with. A plugin offers the same, and the
-- four of the run as a whole, for which ADK has other names.
local AROUND_AGENTS = { { "beforeAgentCallback", "context" }, { "afterAgentCallback", "context" } }
local AROUND_MODELS = {
  { "beforeModelCallback", "context, request" }, { "afterModelCallback", "context, response" },
  { "onModelErrorCallback", "context, request, err" }, { "beforeToolCallback", "context, tool, args" },
  { "afterToolCallback", "context, tool, args, result" }, { "onToolErrorCallback", "context, tool, args, err" },
}
local OF_RUN = {
  { "onUserMessage", "context, message", "onUserMessageCallback" }, { "beforeRun", "context", "beforeRunCallback" },
  { "onEvent", "context, event", "onEventCallback" }, { "afterRun", "context", "afterRunCallback" },
}

-- The functions that a callback field holds: one, or a list.
local function functionsOf(value, where, arguments)
  if callable.is(value) then
    fields.checkNoSelf(value, where, arguments)
    return { value }
  end
  if type(value) ~= "table" then
    fields.refuse(where, "expected a function or a list of functions, got " .. lists.kindOf(value))
  end
  local list = lists.of(value, where, "functions")
  for index, item in ipairs(list) do
    local place = ("%s[%d]"):format(where, index)
    if not callable.is(item) then fields.refuse(place, "expected a function, got " .. lists.kindOf(item)) end
    fields.checkNoSelf(item, place, arguments)
  end
  return list
end

local function declare(...)
  local declared = {}
  for _, hooks in ipairs { ... } do
    for _, hook in ipairs(hooks) do
      local takes = function(value, where) return functionsOf(value, where, hook[2]) end
      declared[#declared + 1] = { hook[1], takes, alias = hook[3] }
    end
  end
  return declared
end

---The fields of callbacks that every agent has, and those of an agent with a model besides.
---@type moonpad.Field[]
callbacks.OF_AGENT, callbacks.OF_MODEL = declare(AROUND_AGENTS), declare(AROUND_MODELS)

---The names of all of them.
---@type string[]
callbacks.NAMES_OF_AGENT = fields.new(declare(AROUND_AGENTS, AROUND_MODELS)).names

local OF_PLUGIN = fields.new(declare(OF_RUN, AROUND_AGENTS, AROUND_MODELS))

-- No hook: it is told apart from data of the plugin's own by its name alone.
local OF_ITSELF = fields.new { { "name", fields.text } }
OF_PLUGIN:with(OF_ITSELF.list):describes "moonpad.Plugin"

local function isFunctionList(value)
  if type(value) ~= "table" or rawget(value, 1) == nil then return false end
  for _, item in next, value do
    if not callable.is(item) then return false end
  end
  return true
end

-- What nobody keeps as data.
local function isMeantAsHook(value)
  return type(value) == "function" or isFunctionList(value)
end

-- A method of a class, or an object that can be called, say the class itself, may well be there for
-- another purpose. What is nearly called like a hook is meant to be one.
local function checkNearMisses(object, where)
  for name, value in next, object do
    local canBeHook = type(name) == "string" and (isMeantAsHook(value) or callable.is(value))
    local nearest = canBeHook and core.nearestName(name, OF_PLUGIN.known)
    if nearest and nearest ~= name then fields.refuseName(where, name, OF_PLUGIN.known) end
  end
end

-- A plugin may keep data of its own beside its hooks. Functions of its own under an unknown name
-- are a misspelt hook, those of a class only where they are nearly called like one.
local function checkHookNames(plugin, where)
  local meant = {}
  for name, value in next, plugin do
    if isMeantAsHook(value) then meant[name] = value end
  end
  OF_PLUGIN:checkNames(meant, where)
  local seen, class = {}, plugin
  while type(class) == "table" and not seen[class] do
    checkNearMisses(class, where)
    seen[class] = true
    local metatable = getmetatable(class)
    class = type(metatable) == "table" and rawget(metatable, "__index") or nil
  end
end

local function readPlugin(plugin, where)
  if type(plugin) ~= "table" then
    fields.refuse(where, "expected a table of hooks, got " .. lists.kindOf(plugin))
  end
  local name = OF_ITSELF:readOne(plugin, "name", where)
  checkHookNames(plugin, where)
  local hooks = OF_PLUGIN:read(plugin, where)
  hooks.name = name
  return hooks
end

---Checks the plugins of a runner.
---@param plugins table
---@param where string for messages
---@return table<string, function[]>[] plugins the hooks of each, as lists
function callbacks.plugins(plugins, where)
  local list, seen = lists.of(plugins, where, "plugins"), {}
  for index, plugin in ipairs(list) do
    local place = ("%s[%d]"):format(where, index)
    local hooks = readPlugin(plugin, place)
    if hooks.name then
      if seen[hooks.name] then fields.refuse(place, ('two plugins are called "%s"'):format(hooks.name)) end
      seen[hooks.name] = true
    end
    list[index] = hooks
  end
  return list
end

-- Asks one function after the other; `call` runs each. False is no answer, as nil is none, for
-- `return cond and answer` is a way to give one or none.
local function askEach(functions, call, ...)
  for _, run in ipairs(functions or {}) do
    local answer = call(run, ...)
    if answer then return answer end
  end
  return nil
end

local function askPlugins(callbackState, hook, call, ...)
  for _, plugin in ipairs(callbackState.invocationContext.plugins) do
    local answer = askEach(plugin[hook], call, ...)
    if answer then return answer end
  end
  return nil
end

local function callIt(run, ...)
  return run(...)
end

---Asks the plugins.
---@param callbackState moonpad.CallbackState
---@param hook string
---@param ... any passed after the context
---@return any answer the first that is one
function callbacks.askPlugins(callbackState, hook, ...)
  return askPlugins(callbackState, hook, callIt, callbackState.context, ...)
end

---Is there anybody to ask, a plugin or the agent's own callback?
---@param callbackState moonpad.CallbackState
---@param hook string
---@return boolean
function callbacks.has(callbackState, hook)
  for _, plugin in ipairs(callbackState.invocationContext.plugins) do
    if plugin[hook] and #plugin[hook] > 0 then return true end
  end
  return #(callbackState.agent.callbacks[hook] or {}) > 0
end

---Asks the plugins, then the agent's own callbacks.
---@param callbackState moonpad.CallbackState
---@param hook string
---@param ... any passed after the context
---@return any answer the first that is one
function callbacks.ask(callbackState, hook, ...)
  return callbacks.askThrough(callIt, callbackState, hook, ...)
end

---The same, where each function is run by another one.
---@param call fun(run: function, ...): any
---@param callbackState moonpad.CallbackState
---@param hook string
---@param ... any passed after the context
---@return any answer the first that is one
function callbacks.askThrough(call, callbackState, hook, ...)
  local answer = askPlugins(callbackState, hook, call, callbackState.context, ...)
  if answer then return answer end
  return askEach(callbackState.agent.callbacks[hook], call, callbackState.context, ...)
end

return callbacks
