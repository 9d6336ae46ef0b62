--- Answers that come later: a message of the user that holds function responses belongs to an earlier call.
local contents = require "moonpad.contents"
local core = require "moonpad.core"
local events = require "moonpad.event"

local resume = {}

-- The latest event with a call of that id, and the call.
local function findCall(history, id)
  for index = #history, 1, -1 do
    for _, part in ipairs(events.parts(history[index])) do
      if part.functionCall and part.functionCall.id == id then return history[index], part.functionCall end
    end
  end
  return nil
end

---The event whose call the user's message answers, or nil when it answers none. Responses get the names of their calls.
---@param run moonpad.Run
---@return moonpad.Event?
function resume.find(run)
  local history, found
  for index, part in ipairs(run.userContent and run.userContent.parts or {}) do
    local response = part.functionResponse
    if response then
      history = history or contents.history(run)
      local event, call = findCall(history, type(response) == "table" and response.id)
      if not event then
        core.error("invalid_argument", ("newMessage.parts[%d]: this session knows no function call with the id %s")
          :format(index, type(response) == "table" and tostring(response.id) or "nil"))
      end
      response.name = response.name or call.name
      found = event
    end
  end
  return found
end

return resume
