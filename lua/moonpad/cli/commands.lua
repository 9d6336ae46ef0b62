--- Commands inside a conversation: lines that begin with a slash.
local compaction = require "moonpad.events.compaction"
local confirmation = require "moonpad.flow.confirmation"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local failure = require "moonpad.cli.failure"
local history = require "moonpad.flow.history"
local input = require "moonpad.cli.input"
local moonpad = require "moonpad"
local pending = require "moonpad.cli.pending"
local screen = require "moonpad.cli.screen"
local shown = require "moonpad.util.shown"

local commands = {}

local function showState(talk)
  local found = talk:session()
  for key, value in pairs(found and found.state or {}) do
    print(("%s = %s"):format(shown.escaped(key), screen.text(moonpad.json.encode(value))))
  end
end

local function callText(event, call)
  local original = confirmation.originalCall(event, call)
  if original then return ("asks whether to run %s %s"):format(original.name, shown.json(original.args or {})) end
  return ("> %s %s"):format(errorText.show(call.name), shown.json(call.args or {}))
end

local function responseText(response)
  local answer = response.response
  if response.name == confirmation.REQUEST_NAME and type(answer) == "table" and type(answer.confirmed) == "boolean" then
    local payload = answer.payload ~= nil and ": " .. shown.json(answer.payload) or ""
    return (answer.confirmed and "approves" or "rejects") .. payload
  end
  return ("< %s %s"):format(errorText.show(response.name), shown.json(answer))
end

-- What happened in an event, as one line.
local function eventText(event)
  local said = { event:text() ~= "" and event:text() or nil }
  local summary = compaction.of(event)
  if summary then said[#said + 1] = "sums up what came before: " .. summary.text end
  for _, call in ipairs(event:functionCalls()) do said[#said + 1] = callText(event, call) end
  for _, response in ipairs(event:functionResponses()) do said[#said + 1] = responseText(response) end
  local delta = event.actions.stateDelta
  if type(delta) == "table" and next(delta) ~= nil then said[#said + 1] = "state " .. shown.json(delta) end
  return table.concat(said, "  ")
end

-- At a terminal a line for people, else the whole event as JSON.
local function showEvent(event)
  if not screen.isOut then return print(moonpad.json.encode(event)) end
  local time = os.date("%H:%M:%S", math.floor(event.timestamp))
  local line = ("%3d %s %s: %s"):format(event.revision, time, event.author, eventText(event))
  print(shown.cut(shown.escaped(errorText.valid(line))))
end

local function showEvents(talk)
  local found = talk:session()
  for _, event in ipairs(found and found.events or {}) do showEvent(event) end
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
  local found = talk:session()
  local invocationId = found and lastInvocation(found.events)
  if not invocationId then return io.stderr:write "There is no turn to take back.\n" end
  talk.service:rewind(found, { invocationId = invocationId })
  if talk.memory then talk.memory:addSession(found) end
  local kept = sharedKeys(found.events, invocationId)
  print("The last turn has been taken back." .. (#kept > 0
    and (" What other sessions share stays: %s."):format(screen.text(table.concat(kept, ", "))) or ""))
end

local function waiting(talk)
  return pending.of(talk:session())
end

local function showPending(talk)
  local text = pending.describe(waiting(talk), true)
  io.stdout:write(text ~= "" and text or "Nothing waits for an answer.\n")
end

local showHelp

-- In the order in which /help shows them.
local LIST = {
  { "/help", "lists these commands", run = function() showHelp() end },
  { "/state", "shows the state as this session sees it", run = showState },
  { "/events", "shows what has happened, a line for each event", run = showEvents },
  { "/rewind", "takes the last turn back", run = rewind },
  { "/waiting", "shows the calls that wait for an answer of yours", run = showPending },
  { "/answer", "answers such a call: /answer [NUMBER] TEXT or JSON", takesWords = true, run = function(talk, words)
    return talk:answer(pending.answer(waiting(talk), words))
  end },
  { "/approve", "lets a tool run that asked for it: /approve [NUMBER] [JSON]", takesWords = true,
    run = function(talk, words) return talk:answer(pending.confirm(waiting(talk), words, true)) end },
  { "/reject", "does not let it run: /reject [NUMBER] [JSON]", takesWords = true,
    run = function(talk, words) return talk:answer(pending.confirm(waiting(talk), words, false)) end },
  { "/quit", "ends the conversation", run = function() return "quit" end },
}

local byName, names = {}, {}
for index, command in ipairs(LIST) do byName[command[1]], names[index] = command, command[1] end

local HINT = "Commands: " .. table.concat(names, "  ")

showHelp = function()
  for _, command in ipairs(LIST) do print(("  %-9s %s"):format(command[1], command[2])) end
  if not input.isTerminal then return end
  print "A message that begins with / has a blank before it. A line that ends in \\ goes on in the next one."
  print "Ctrl-C cancels the answer, Ctrl-D ends the conversation."
end

---@param talk table the conversation
---@param line string
---@return "quit"|"done"|"cancelled"|nil
function commands.run(talk, line)
  local name, words = line:match "^(%S+)%s*(.-)%s*$"
  local command = byName[name]
  if not command then
    local nearest = core.nearestName(name, names)
    failure.raise("%s is no command%s (a message that begins with / has a blank before it). %s", name,
      nearest and (", did you mean %s?"):format(nearest) or "", HINT)
  end
  if words ~= "" and not command.takesWords then failure.raise("%s takes no argument, got %s", name, words) end
  return command.run(talk, words)
end

return commands
