--- Calls that wait for an answer of the user's: of long-running tools, and tools that ask for
--- a confirmation.
local confirmation = require "moonpad.flow.confirmation"
local errorText = require "moonpad.util.error_text"
local failure = require "moonpad.cli.failure"
local history = require "moonpad.flow.history"
local moonpad = require "moonpad"
local shown = require "moonpad.util.shown"

local pending = {}

---@class moonpad.cli.PendingCall
---@field call moonpad.FunctionCall the one to answer
---@field original moonpad.FunctionCall? what is asked about, where that is a request for a confirmation
---@field hint string? what the tool wants the user to be told

local function waitingIn(event, answered)
  local found, isLong = {}, {}
  for _, id in ipairs(event.longRunningToolIds or {}) do isLong[id] = true end
  for _, call in ipairs(event:functionCalls()) do
    if call.id ~= nil and isLong[call.id] and not answered[call.id] then
      local original = confirmation.originalCall(event, call)
      found[#found + 1] = {
        call = call, original = original or nil, hint = original and confirmation.ownHintOf(call),
      }
    end
  end
  return found
end

-- What a long-running tool returned at once, such as { status = "started" }, is not the answer yet,
-- unless it is an error.
local function isAnswer(event, response)
  local said = response.response
  return response.id ~= nil and (event.author == "user" or type(said) == "table" and said.error ~= nil)
end

---The calls of a session that wait, oldest first. What was rewound waits for nothing.
---@param session moonpad.Session?
---@return moonpad.cli.PendingCall[]
function pending.of(session)
  local answered, list = {}, {}
  if not session then return list end
  for _, event in history.newestFirst(history.ofEvents(session.events)) do
    if event.functionResponses then
      for _, response in ipairs(event:functionResponses()) do
        if isAnswer(event, response) then answered[response.id] = true end
      end
      local found = waitingIn(event, answered)
      list = table.move(list, 1, #list, #found + 1, found)
    end
  end
  return list
end

local function callText(call)
  return ("%s %s"):format(errorText.show(call.name), shown.cut(shown.json(call.args or {})))
end

---Tells what waits, and how to answer.
---@param list moonpad.cli.PendingCall[]
---@param isConversation boolean can it be answered by a command here?
---@return string text with an end of line behind each line
function pending.describe(list, isConversation)
  local lines = {}
  for number, entry in ipairs(list) do
    local which = #list > 1 and " " .. number or ""
    local what, how = "(waiting for the answer of " .. callText(entry.call), "/answer" .. which .. " TEXT or JSON"
    if entry.original then
      what = "(waiting for your word on " .. callText(entry.original) .. (entry.hint and ": " .. entry.hint or "")
      how = ("/approve%s or /reject%s"):format(which, which)
    end
    local line = isConversation and ("%s: %s)"):format(what, how)
      or ("%s, call %s; in a conversation: %s)"):format(what, errorText.show(entry.call.id), how)
    lines[#lines + 1] = shown.escaped(errorText.valid(line)) .. "\n"
  end
  return table.concat(lines)
end

local function named(list, name)
  for number, entry in ipairs(list) do
    if name == entry.call.id or name == tostring(number) then return entry end
  end
  return nil
end

-- Of a list, those that ask for a confirmation, or those that do not.
local function ofKind(list, isConfirmation)
  local found = {}
  for _, entry in ipairs(list) do
    if (entry.original ~= nil) == isConfirmation then found[#found + 1] = entry end
  end
  return found
end

-- The entry that words name (by its number, its id, or as the only one), and the words behind
-- its name. Where there is one alone, a number may be its answer: an approval needs none.
local function choose(list, words, isConfirmation)
  local wanted = ofKind(list, isConfirmation)
  if #wanted == 0 then
    failure.raise(isConfirmation and "No tool waits for an approval." or "No tool waits for an answer.")
  end
  local first, rest = words:match "^(%S*)%s*(.*)$"
  local entry = named(list, first)
  if entry and (#list > 1 or isConfirmation or first == entry.call.id) then
    if (entry.original ~= nil) == isConfirmation then return entry, rest end
    failure.raise("%s is answered with %s.", first, isConfirmation and "/answer" or "/approve or /reject")
  end
  if #wanted == 1 then return wanted[1], words end
  return failure.raise("Which one? Say its number: %s", pending.describe(list, true))
end

-- Text needs no quotes; what begins like an object or an array is meant to be one.
local function valueOf(words)
  local ok, value = pcall(moonpad.json.decode, words)
  if ok then return value end
  if words:find "^[{%[]" then failure.raise("%s", failure.text(value)) end
  return words
end

---The message that answers a long-running call.
---@param list moonpad.cli.PendingCall[]
---@param words string [NUMBER or ID] TEXT or JSON
---@return moonpad.Part
function pending.answer(list, words)
  local entry, rest = choose(list, words, false)
  if rest == "" then failure.raise "/answer needs a text or JSON" end
  return moonpad.functionResponse(entry.call, valueOf(rest))
end

---The message that approves or rejects a call.
---@param list moonpad.cli.PendingCall[]
---@param words string [NUMBER or ID] [PAYLOAD as JSON]
---@param confirmed boolean
---@return moonpad.Part
function pending.confirm(list, words, confirmed)
  local entry, rest = choose(list, words, true)
  local payload = nil
  if rest ~= "" then payload = valueOf(rest) end
  return moonpad.functionResponse(entry.call, { confirmed = confirmed, payload = payload })
end

return pending
