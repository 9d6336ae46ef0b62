--- The output of an agent: the text of its model's final answer, or of what a callback around the
--- model put in its place. It is checked where there is an outputSchema, and kept under outputKey.
local core = require "moonpad.core"
local events = require "moonpad.events.event"
local luaError = require "moonpad.util.lua_error"
local optionalNulls = require "moonpad.schema.optional_nulls"
local schema = require "moonpad.schema.validate"

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
  if not ok then
    luaError.passOn(value)
    refuse(agent, bare, core.isError(value) and value.message or tostring(value))
  end
  local problem = schema.check(agent.outputSchema, value, "the answer")
  if problem then
    optionalNulls.drop(agent.outputSchema, value)
    problem = schema.check(agent.outputSchema, value, "the answer")
  end
  if problem then refuse(agent, bare, problem) end
  return value
end

---The same for a text that need not fit.
---@param agent moonpad.Agent
---@param text string
---@return boolean fits
---@return any value
function output.tryParse(agent, text)
  local ok, value = pcall(output.parse, agent, text)
  if not ok and not (core.isError(value) and value.code == "model") then error(value, 0) end
  return ok, value
end

---@class moonpad.Origin of an event that answers in a model's turn; events of other origin hold no output
---@field said string? the model's own words; nil where a callback has answered in its place

-- Only an answer in the model's own words must fit the schema: what callbacks and plugins say
-- instead is for the user, and text beside a call is no answer yet.
local function mustFit(event, origin, text)
  return text == origin.said and not events.holdsCallOrResponse(event)
end

---The output that an event of an agent holds; nothing where it holds none.
---@param agent moonpad.Agent
---@param event table
---@param origin moonpad.Origin?
---@return string? key nil where the agent has no outputKey: then the value has only been checked
---@return any value
function output.of(agent, event, origin)
  if not origin or not (agent.outputKey or agent.outputSchema) or event.author ~= agent.name then return nil end
  if not events.isFinalResponse(event) or not events.hasText(event) then return nil end
  local text = events.text(event)
  if not agent.outputSchema then return agent.outputKey, text end
  -- A stream may end with an empty piece; that is no answer.
  if not text:find "%S" then return nil end
  if mustFit(event, origin, text) then return agent.outputKey, output.parse(agent, text) end
  local fits, value = output.tryParse(agent, text)
  if fits then return agent.outputKey, value end
  return nil
end

---Puts the output that an event holds into what the callback state has pending, so that it is
---stored with the event.
---@param callbackState moonpad.CallbackState
---@param event table
---@param origin moonpad.Origin?
function output.save(callbackState, event, origin)
  local key, value = output.of(callbackState.agent, event, origin)
  if key then core.putLastWriterWins(callbackState.state, key, value) end
end

return output
