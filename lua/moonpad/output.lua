--- The output of an agent: the text of its final event, checked where there is an outputSchema, kept under outputKey.
local core = require "moonpad.core"
local events = require "moonpad.event"
local schema = require "moonpad.schema"

local output = {}

local SHOWN = 200

-- Models like to wrap JSON into a code fence.
local function withoutFence(text)
  local trimmed = text:match "^%s*(.-)%s*$"
  return trimmed:match "^```[%w_-]*[ \t]*\r?\n(.-)\r?\n?```$" or trimmed
end

local function refuse(agent, text, problem)
  local shown = #text > SHOWN and text:sub(1, utf8.offset(text, 0, SHOWN + 1) - 1) .. "..." or text
  core.error("model", ('agent "%s".outputSchema: the answer does not fit: %s; it was: %s')
    :format(agent.name, problem, shown))
end

---The value that a text holds by an outputSchema; error `model` when it holds none.
---@param agent moonpad.Agent
---@param text string
---@return any
function output.parse(agent, text)
  local bare = withoutFence(text)
  local ok, value = pcall(core.json.decode, bare)
  if not ok then refuse(agent, bare, core.isError(value) and value.message or tostring(value)) end
  local problem = schema.check(agent.outputSchema, value, "the answer")
  if problem then refuse(agent, bare, problem) end
  return value
end

---The output that an event of an agent holds; nothing where it holds none.
---@param agent moonpad.Agent
---@param event table
---@return string? key nil where the agent has no outputKey: then the value has only been checked
---@return any value
function output.of(agent, event)
  if not (agent.outputKey or agent.outputSchema) or event.author ~= agent.name then return nil end
  if not events.isFinalResponse(event) or not events.hasText(event) then return nil end
  local value = events.text(event)
  if agent.outputSchema then
    -- A stream may end with an empty piece; that is no answer.
    if not value:find "%S" then return nil end
    value = output.parse(agent, value)
  end
  return agent.outputKey, value
end

---Puts the output that an event holds into what the phase has pending, so that it is stored with the event.
---@param phase moonpad.Phase
---@param event table
function output.save(phase, event)
  local key, value = output.of(phase.agent, event)
  if key then core.putUnchecked(phase.state, key, value) end
end

return output
