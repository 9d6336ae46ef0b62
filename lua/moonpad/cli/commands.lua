--- Commands inside a conversation: lines that begin with a slash.
local failure = require "moonpad.cli.failure"
local history = require "moonpad.flow.history"
local moonpad = require "moonpad"

local commands = {}

commands.HINT = "Commands: /state  /events  /rewind (takes the last turn back)  /quit"

local function session(talk)
  return talk.service:getSession { appName = talk.appName, userId = talk.userId, sessionId = talk.sessionId }
end

local function showState(talk)
  local found = session(talk)
  for key, value in pairs(found and found.state or {}) do print(("%s = %s"):format(key, moonpad.json.encode(value))) end
end

local function showEvents(talk)
  local found = session(talk)
  for _, event in ipairs(found and found.events or {}) do print(moonpad.json.encode(event)) end
end

-- The invocation of the last message by the user that has not been taken back yet.
local function lastInvocation(events)
  for _, event in history.newestFirst(history.ofEvents(events)) do
    if event.author == "user" and event.content then return event.invocationId end
  end
  return nil
end

-- What a rewind leaves as it is: user and app state belongs to other sessions as well.
local function sharedKeys(events, invocationId)
  local isThere, keys = {}, {}
  for _, event in ipairs(events) do
    for key in pairs(event.invocationId == invocationId and event.actions.stateDelta or {}) do
      if (key:find "^user:" or key:find "^app:") and not isThere[key] then
        isThere[key], keys[#keys + 1] = true, key
      end
    end
  end
  table.sort(keys)
  return keys
end

local function rewind(talk)
  local found = session(talk)
  local invocationId = found and lastInvocation(found.events)
  if not invocationId then return io.stderr:write "There is no turn to take back.\n" end
  talk.service:rewind(found, { invocationId = invocationId })
  if talk.memory then talk.memory:addSession(found) end
  local kept = sharedKeys(found.events, invocationId)
  print("The last turn has been taken back." .. (#kept > 0
    and (" What other sessions share stays: %s."):format(table.concat(kept, ", ")) or ""))
end

local actions = {
  ["/state"] = showState,
  ["/events"] = showEvents,
  ["/rewind"] = rewind,
  ["/quit"] = function() return "quit" end,
}

---@param talk table the conversation
---@param line string
---@return "quit"|nil
function commands.run(talk, line)
  local name, rest = line:match "^(%S+)%s*(.-)%s*$"
  local action = actions[name]
  if not action then
    failure.raise("%s is no command (a message that begins with / has a blank before it). %s", name, commands.HINT)
  end
  if rest ~= "" then failure.raise("%s takes no argument, got %s", name, rest) end
  return action(talk) == "quit" and "quit" or nil
end

return commands
