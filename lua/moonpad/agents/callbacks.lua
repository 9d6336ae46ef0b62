--- Hooks: who may answer at which point, and in which order.
local core = require "moonpad.core"
local lists = require "moonpad.util.list"

local callbacks = {}

-- What an agent may define. A plugin offers the same, and the four of the run as a whole.
callbacks.OF_AGENT = {
  "beforeAgentCallback", "afterAgentCallback", "beforeModelCallback", "afterModelCallback", "onModelErrorCallback",
  "beforeToolCallback", "afterToolCallback", "onToolErrorCallback",
}
callbacks.OF_RUN = { "onUserMessage", "beforeRun", "onEvent", "afterRun" }

---Can a value be called, as far as its metatable tells?
---@param value any
---@return boolean
local function isCallable(value)
  if type(value) == "function" then return true end
  local metatable = getmetatable(value)
  return type(metatable) == "table" and type(rawget(metatable, "__call")) == "function"
end
callbacks.isCallable = isCallable

---Makes a list of what a callback field holds: a function, a list of functions, or nothing.
---@param value any
---@param where string for messages
---@return function[]
function callbacks.list(value, where)
  if value == nil then return {} end
  if isCallable(value) then return { value } end
  if type(value) ~= "table" then
    core.error("invalid_argument", where .. ": expected a function or a list of functions, got " .. type(value))
  end
  local list = lists.of(value, where, "functions")
  for index, item in ipairs(list) do
    if not isCallable(item) then
      core.error("invalid_argument", ("%s[%d]: expected a function, got %s"):format(where, index, type(item)))
    end
  end
  return list
end

local OF_PLUGIN = table.move(callbacks.OF_RUN, 1, #callbacks.OF_RUN, 1, {})
table.move(callbacks.OF_AGENT, 1, #callbacks.OF_AGENT, #OF_PLUGIN + 1, OF_PLUGIN)

local function checkPlugin(plugin, index)
  local where = ("runner.plugins[%d]"):format(index)
  if type(plugin) ~= "table" then
    core.error("invalid_argument", ("%s: expected a table of hooks, got %s"):format(where, type(plugin)))
  end
  local functions = {}
  for name, value in pairs(plugin) do
    -- A plugin may keep data of its own beside its hooks; a function under an unknown name is a
    -- misspelt hook.
    if type(value) == "function" then functions[name] = value end
  end
  core.checkFields(functions, where, OF_PLUGIN)
  local hooks = { name = plugin.name }
  for _, hook in ipairs(OF_PLUGIN) do
    local list = callbacks.list(plugin[hook], where .. "." .. hook)
    if #list > 0 then hooks[hook] = list end
  end
  return hooks
end

---Checks the plugins of a runner.
---@param plugins table?
---@return table<string, function[]>[] plugins the hooks of each, as lists
function callbacks.plugins(plugins)
  local list, seen = lists.of(plugins, "runner.plugins", "plugins"), {}
  for index, plugin in ipairs(list) do
    list[index] = checkPlugin(plugin, index)
    if type(plugin.name) == "string" then
      if seen[plugin.name] then
        core.error("invalid_argument", ('runner.plugins[%d]: two plugins are called "%s"'):format(index, plugin.name))
      end
      seen[plugin.name] = true
    end
  end
  return list
end

-- Asks one function after the other; `call` runs each.
local function askEach(functions, call, ...)
  for _, run in ipairs(functions or {}) do
    local answer = call(run, ...)
    if answer ~= nil then return answer end
  end
  return nil
end

local function askPlugins(callbackState, hook, call, ...)
  for _, plugin in ipairs(callbackState.invocationContext.runner.plugins) do
    local answer = askEach(plugin[hook], call, ...)
    if answer ~= nil then return answer end
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
---@return any answer the first that is not nil
function callbacks.askPlugins(callbackState, hook, ...)
  return askPlugins(callbackState, hook, callIt, callbackState.context, ...)
end

---Asks the plugins, then the agent's own callbacks.
---@param callbackState moonpad.CallbackState
---@param hook string
---@param ... any passed after the context
---@return any answer the first that is not nil
function callbacks.ask(callbackState, hook, ...)
  return callbacks.askThrough(callIt, callbackState, hook, ...)
end

---The same, where each function is run by another one.
---@param call fun(run: function, ...): any
---@param callbackState moonpad.CallbackState
---@param hook string
---@param ... any passed after the context
---@return any answer the first that is not nil
function callbacks.askThrough(call, callbackState, hook, ...)
  local answer = askPlugins(callbackState, hook, call, callbackState.context, ...)
  if answer ~= nil then return answer end
  return askEach(callbackState.agent.callbacks[hook], call, callbackState.context, ...)
end

return callbacks
