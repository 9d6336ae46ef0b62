--- History as a model gets to see it: the contents of a request, made from the events of
--- the session.
local confirmation = require "moonpad.flow.confirmation"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local events = require "moonpad.events.event"
local history = require "moonpad.flow.history"
local longRunning = require "moonpad.flow.long_running"

local contents = {}

local function isPartVisible(part)
  if part.functionCall or part.functionResponse then return true end
  return not part.thought and part.text ~= ""
end

-- A branch sees itself and what is above it, the steps of the names being compared as a whole.
local function isOnBranch(event, branch)
  local other = event.branch
  if branch == nil or type(other) ~= "string" or other == "" or other == branch then return true end
  return branch:sub(1, #other + 1) == other .. "."
end

-- Events that only change state, and those of which only thoughts or nothing are left, say nothing
-- to a model.
local function isVisible(event)
  for _, part in ipairs(events.parts(event)) do
    if isPartVisible(part) then return true end
  end
  return false
end

local function isFromOtherAgent(event, agent)
  return event.author ~= "user" and event.author ~= agent.name
end

-- A message that answers a call goes on with the turn in which the call was made.
local function startOfTurn(list, isFromOtherHere)
  local index = #list
  while index >= 1 do
    local event = list[index]
    if isFromOtherHere(event) then return index end
    if event.author == "user" then
      local call = longRunning.findCall(list, index, isFromOtherHere)
      if not call then return index end
      index = call
    end
    index = index - 1
  end
  return 1
end

local function retell(author, part)
  local call, response = part.functionCall, part.functionResponse
  if call then
    return ("[%s] called tool `%s` with parameters: %s"):format(author, call.name, core.json.encode(call.args or {}))
  elseif response then
    return ("[%s] `%s` tool returned result: %s"):format(author, response.name,
      core.json.encode(response.response or {}))
  elseif part.text and not part.thought then
    return ("[%s] said: %s"):format(author, part.text)
  end
  return nil
end

-- What another agent did is told as context: the model must not take it for its own words.
local function presentOtherAgent(event)
  local parts = { { text = "For context:" } }
  for _, part in ipairs(events.parts(event)) do
    local text = retell(event.author, part)
    if text then
      parts[#parts + 1] = { text = text }
    elseif not part.thought and part.text == nil then
      parts[#parts + 1] = copy(part)
    end
  end
  return { role = "user", parts = parts }
end

-- Answers stand right after the content that calls. `pending` finds the answer to a call by its id,
-- or by its name.
local function addCalls(list, pending, event, parts)
  local answers, byId, mayComeLater = {}, {}, {}
  for _, id in ipairs(type(event.longRunningToolIds) == "table" and event.longRunningToolIds or {}) do
    mayComeLater[id] = true
  end
  for _, part in ipairs(parts) do
    local call = part.functionCall
    if call then
      local answer = { call = call, isLongRunning = call.id ~= nil and mayComeLater[call.id] }
      answers[#answers + 1] = answer
      pending.list[#pending.list + 1] = answer
      if call.id then
        byId[call.id] = byId[call.id] or {}
        table.insert(byId[call.id], answer)
      end
    end
  end
  -- Some models count their ids anew in every answer: the latest call of an id is the one that
  -- is meant.
  for id, same in pairs(byId) do pending.byId[id] = same end
  if #answers > 0 then list[#list + 1] = { role = "user", answers = answers } end
end

local function answerFor(pending, response)
  local same = response.id and pending.byId[response.id] or {}
  for _, answer in ipairs(same) do
    if not answer.part then return answer end
  end
  if response.id then return same[#same] end
  for _, answer in ipairs(pending.list) do
    if not answer.part and answer.call.name == response.name then return answer end
  end
  return nil
end

-- The answer to a confirmed call is not that of a later call with the same id.
local function noteConfirmations(pending, event)
  for requestId, id in pairs(event.requests or {}) do pending.ofRequest[requestId] = pending.byId[id] end
  for id, confirmed in pairs(event.confirmed or {}) do pending.byId[id] = pending.ofRequest[confirmed.requestId] end
end

local function addEvent(list, pending, event)
  noteConfirmations(pending, event)
  local kept = {}
  for _, part in ipairs(events.parts(event)) do
    if part.functionResponse then
      -- An answer whose call is not in sight (cut off, rewound) would be refused by every model.
      local answer = answerFor(pending, part.functionResponse)
      if answer then answer.part = part end
    else
      kept[#kept + 1] = copy(part)
    end
  end
  if #kept == 0 then return end
  list[#list + 1] = { role = event.content.role or (event.author == "user" and "user" or "model"), parts = kept }
  addCalls(list, pending, event, kept)
end

-- A call without an answer: it was broken off, or its answer comes later.
local function placeholderResponse(answer)
  local call = answer.call
  local response = answer.isLongRunning and { status = "pending" } or { error = "cancelled" }
  return { functionResponse = { id = call.id, name = call.name, response = response } }
end

local function fillAnswers(list)
  for _, item in ipairs(list) do
    if item.answers then
      item.parts = {}
      for index, answer in ipairs(item.answers) do
        item.parts[index] = answer.part and copy(answer.part) or placeholderResponse(answer)
      end
      item.answers = nil
    end
  end
  return list
end

contents.isVisible = isVisible

---@param invocationContext moonpad.InvocationContext
---@param agent moonpad.Agent
---@return moonpad.Content[]
function contents.build(invocationContext, agent)
  local function isFromOtherHere(event) return isFromOtherAgent(event, agent) end
  local visible = {}
  for _, event in ipairs(confirmation.hide(history.seen(invocationContext))) do
    local isShown = isVisible(event) or event.confirmed or event.requests and not isFromOtherHere(event)
    if isShown and isOnBranch(event, invocationContext.branch) then visible[#visible + 1] = event end
  end
  visible = longRunning.joined(visible, isFromOtherHere)
  local first = agent.includeContents == "none" and startOfTurn(visible, isFromOtherHere) or 1
  local list, pending = {}, { byId = {}, ofRequest = {}, list = {} }
  for index = first, #visible do
    local event = visible[index]
    if isFromOtherHere(event) then
      list[#list + 1] = presentOtherAgent(event)
    else
      addEvent(list, pending, event)
    end
  end
  return fillAnswers(list)
end

return contents
