--- A plugin that tells of a run line by line (ADK's LoggingPlugin).
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local events = require "moonpad.events.event"
local fields = require "moonpad.schema.fields"
local shown = require "moonpad.util.shown"

local logging = {}

---@class moonpad.LoggingOptions
---@field name string? default "logging_plugin"; each line begins with it
---@field log (fun(line: string))? default: the line goes to standard error

local OPTIONS = fields.new {
  { "name", fields.text, default = "logging_plugin" },
  { "log", "function", arguments = "line" },
}:describes "moonpad.LoggingOptions"

---- Values

local OTHER_PARTS = { "inlineData", "fileData", "executableCode", "codeExecutionResult" }

local function short(value)
  return shown.cut(type(value) == "string" and value or shown.json(value))
end

local function describePart(part)
  if type(part.text) == "string" then
    return (part.thought and "thought: " or "text: ") .. shown.json(shown.cut(part.text))
  elseif type(part.functionCall) == "table" then
    return "functionCall: " .. short(part.functionCall.name)
  elseif type(part.functionResponse) == "table" then
    return "functionResponse: " .. short(part.functionResponse.name)
  end
  for _, kind in ipairs(OTHER_PARTS) do
    if part[kind] ~= nil then return kind end
  end
  return "another part"
end

local function describeContent(content)
  local texts = {}
  for _, part in ipairs(events.parts { content = content }) do texts[#texts + 1] = describePart(part) end
  return #texts > 0 and table.concat(texts, " | ") or "none"
end

local function describeTools(tools)
  local names = {}
  for _, tool in ipairs(type(tools) == "table" and tools or {}) do
    names[#names + 1] = short(type(tool) == "table" and tool.name or tool)
  end
  return #names > 0 and table.concat(names, ", ") or nil
end

local function describeTokens(usage)
  if type(usage) ~= "table" then return nil end
  return ("%s in, %s out"):format(errorText.show(usage.promptTokenCount), errorText.show(usage.candidatesTokenCount))
end

local function describeError(response)
  if response.errorCode == nil then return nil end
  return ("%s: %s"):format(errorText.show(response.errorCode), errorText.show(response.errorMessage))
end

---- Lines

-- What is cut piece by piece, so that what stands behind a long one is seen as well.
local IN_PIECES = { content = true, tools = true }

-- Makes what writes a line: what has happened, then pairs of a name and a value. A pair without a
-- value is left out.
local function newWriter(name, log)
  return function(what, ...)
    local texts, given = { ("[%s] %s"):format(name, what) }, table.pack(...)
    for index = 1, given.n, 2 do
      local label, value = given[index], given[index + 1]
      if value ~= nil then texts[#texts + 1] = label .. "=" .. (IN_PIECES[label] and value or short(value)) end
    end
    log(shown.escaped(errorText.valid(table.concat(texts, " "))))
  end
end

local function hooksOfRun(write)
  return {
    onUserMessage = function(context, content)
      local session = context.session
      write("USER MESSAGE", "invocation", context.invocationId, "session", session.id, "user", session.userId,
        "app", session.appName, "agent", context.agentName, "content", describeContent(content))
    end,
    beforeRun = function(context)
      write("RUN START", "invocation", context.invocationId, "agent", context.agentName)
    end,
    onEvent = function(_, event)
      write("EVENT", "id", event.id, "author", event.author, "final", event:isFinalResponse(),
        "partial", event.partial, "error", describeError(event), "longRunning", event.longRunningToolIds,
        "content", describeContent(event.content))
    end,
    afterRun = function(context)
      write("RUN END", "invocation", context.invocationId, "agent", context.agentName)
    end,
  }
end

local function addAgentHooks(hooks, write)
  function hooks.beforeAgentCallback(context)
    write("AGENT START", "agent", context.agentName, "invocation", context.invocationId)
  end
  function hooks.afterAgentCallback(context)
    write("AGENT END", "agent", context.agentName, "invocation", context.invocationId)
  end
end

local function addModelHooks(hooks, write)
  function hooks.beforeModelCallback(context, request)
    write("MODEL REQUEST", "agent", context.agentName, "model", request.model or "default",
      "tools", describeTools(request.tools), "systemInstruction", request.systemInstruction)
  end
  function hooks.afterModelCallback(context, response)
    write("MODEL ANSWER", "agent", context.agentName, "partial", response.partial,
      "error", describeError(response), "tokens", describeTokens(response.usageMetadata),
      "content", describeContent(response.content))
  end
  function hooks.onModelErrorCallback(context, _, err)
    write("MODEL ERROR", "agent", context.agentName, "error", errorText.of(err))
  end
end

local function addToolHooks(hooks, write)
  local function writeCall(what, context, tool, ...)
    write(what, "tool", tool.name, "agent", context.agentName, "call", context.functionCallId, ...)
  end
  function hooks.beforeToolCallback(context, tool, args)
    writeCall("TOOL START", context, tool, "args", args)
  end
  function hooks.afterToolCallback(context, tool, _, result)
    writeCall("TOOL END", context, tool, "result", result)
  end
  function hooks.onToolErrorCallback(context, tool, args, err)
    writeCall("TOOL ERROR", context, tool, "args", args, "error", errorText.of(err))
  end
end

---- The plugin

local function toStandardError(line)
  io.stderr:write(line, "\n")
end

local function standardError()
  if io then return toStandardError end
  return core.error("unsupported",
    "plugins.logging: this Lua state has no library io; give it { log = function(line) ... end }")
end

---Makes the plugin.
---@param given moonpad.LoggingOptions?
---@return table plugin
function logging.new(given)
  local options = OPTIONS:take(given == nil and {} or given, "plugins.logging")
  local write = newWriter(options.name, options.log or standardError())
  local hooks = hooksOfRun(write)
  addAgentHooks(hooks, write)
  addModelHooks(hooks, write)
  addToolHooks(hooks, write)
  hooks.name = options.name
  return hooks
end

return logging
