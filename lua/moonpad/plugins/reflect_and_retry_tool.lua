--- A plugin that lets models think about the errors of tools and try again (ADK's
--- ReflectAndRetryToolPlugin).
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local failureCounts = require "moonpad.plugins.failure_counts"
local fields = require "moonpad.schema.fields"
local shown = require "moonpad.util.shown"

local reflectAndRetryTool = {}

---@class moonpad.ReflectAndRetryToolOptions
---@field name string? default "reflect_retry_tool_plugin"
---@field maxRetries integer? how often in a row a tool may fail before it is given up; default 3, 0 for no retries
---@field throwExceptionIfRetryExceeded boolean? raise the tool's error then (the default), or tell the model to stop

local RESPONSE_TYPE = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"

local OPTIONS = fields.new {
  { "name", fields.text, default = "reflect_retry_tool_plugin" },
  { "maxRetries", fields.integerFrom(0), default = 3 },
  { "throwExceptionIfRetryExceeded", "boolean", default = true },
}:describes "moonpad.ReflectAndRetryToolOptions"

local REFLECTION = [[
The call to tool `%s` failed.

**Error Details:**
```
%s
```

**Tool Arguments Used:**
```json
%s
```

**Reflection Guidance:**
This is retry attempt **%d of %d**. Analyze the error and the arguments you provided. ]] .. [[
Do not repeat the exact same call. Consider the following before your next attempt:

1.  **Invalid Parameters**: Does the error suggest that one or more arguments are incorrect, badly formatted, ]] .. [[
or missing? Review the tool's schema and your arguments.
2.  **State or Preconditions**: Did a previous step fail or not produce the necessary state/resource for this ]] .. [[
tool to succeed?
3.  **Alternative Approach**: Is this the right tool for the job? Could another tool or a different sequence of ]] .. [[
steps achieve the goal?
4.  **Simplify the Task**: Can you break the problem down into smaller, simpler steps?
5.  **Wrong Function Name**: Does the error indicates the tool is not found? Please check again and only use ]] .. [[
available tools.

Formulate a new plan based on your analysis and try a corrected or different approach.]]

local EXCEEDED = [[
The tool `%s` has failed consecutively %d times and the retry limit has been exceeded.

**Last Error:**
```
%s
```

**Last Arguments Used:**
```json
%s
```

**Final Instruction:**
**Do not attempt to use the `%s` tool again for this task.** You must now try a different approach. ]] .. [[
Acknowledge the failure and devise a new strategy, potentially using other available tools or informing the ]] .. [[
user that the task cannot be completed.]]

local function errorType(err)
  return core.isError(err) and err.code or "ToolError"
end

local function response(err, retryCount, guidance)
  return {
    response_type = RESPONSE_TYPE, error_type = errorType(err), error_details = errorText.of(err),
    retry_count = retryCount, reflection_guidance = guidance,
  }
end

local function detailsOf(err)
  return core.isError(err) and err.code .. ": " .. errorText.of(err) or errorText.of(err)
end

local function reflection(tool, args, err, count, maxRetries)
  return response(err, count, REFLECTION:format(tool.name, detailsOf(err), shown.json(args), count, maxRetries))
end

local function exceeded(tool, args, err, maxRetries)
  return response(err, maxRetries,
    EXCEEDED:format(tool.name, maxRetries, detailsOf(err), shown.json(args), tool.name))
end

---Makes the plugin.
---@param given moonpad.ReflectAndRetryToolOptions?
---@return table plugin
function reflectAndRetryTool.new(given)
  local options = OPTIONS:take(given == nil and {} or given, "plugins.reflectAndRetryTool")
  local maxRetries, raises = options.maxRetries, options.throwExceptionIfRetryExceeded
  local counts = failureCounts.new()
  return {
    name = options.name,
    onToolErrorCallback = function(context, tool, args, err)
      local count = counts:add(context.invocationId, tool.name)
      if count <= maxRetries then return reflection(tool, args, err, count, maxRetries) end
      if not raises then return exceeded(tool, args, err, maxRetries) end
      counts:forget(context.invocationId)
      error(err, 0)
    end,
    -- It is asked about what onToolErrorCallback has answered, too.
    afterToolCallback = function(context, tool, _, result)
      if type(result) == "table" and result.response_type == RESPONSE_TYPE then return end
      counts:reset(context.invocationId, tool.name)
    end,
    afterRun = function(context)
      counts:forget(context.invocationId)
    end,
  }
end

return reflectAndRetryTool
