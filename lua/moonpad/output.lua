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

---Puts the output that an event holds into what the phase has pending, so that it is stored with the event.
---@param phase moonpad.Phase
---@param event table
function output.save(phase, event)
  local agent = phase.agent
  local key = agent.outputKey
  if not (key or agent.outputSchema) or event.author ~= agent.name then return end
  if not events.isFinalResponse(event) or not events.hasText(event) then return end
  local value = events.text(event)
  if agent.outputSchema then
    -- A stream may end with an empty piece; that is no answer.
    if not value:find "%S" then return end
    value = output.parse(agent, value)
  end
  if key then core.putUnchecked(phase.state, key, value) end
end

return output
