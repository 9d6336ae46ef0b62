--- Function responses that come later than in the turn of their call: who made the calls that a
--- message of the user answers, or confirms. Who goes on is the agent that called.
local confirmation = require "moonpad.flow.confirmation"
local core = require "moonpad.core"
local events = require "moonpad.events.event"
local history = require "moonpad.flow.history"
local lateAnswers = require "moonpad.flow.late_answers"
local sessionHistory = require "moonpad.flow.session_history"
local trees = require "moonpad.agents.tree"

local longRunning = {}

local function findIn(event, field, id)
  for _, part in ipairs(events.parts(event)) do
    if part[field] and part[field].id == id then return part[field] end
  end
  return nil
end

-- The whole stored history, as far as the run knows the session; its last position there.
local function openWhole(invocationContext, seen)
  local session = invocationContext.session
  local service = invocationContext.sessionService
  local whole = service:getSession {
    appName = session.appName, userId = session.userId, sessionId = session.id, numRecentEvents = math.maxinteger,
  }
  if not whole then return nil end
  local list = sessionHistory.open(whole, service)
  -- Others may have added to it meanwhile.
  return list, seen:last() - list.first + 1
end

---- Searching: what the run sees, and where that is not enough what is stored before it

---@class moonpad.CallSearch
---@field invocationContext moonpad.InvocationContext
---@field seen moonpad.SessionHistory
---@field following fun(): table? the next event that has not been looked at, newest first
---@field calls table<string, { event: table, call: table }[]> by id, those that have been looked at, newest first
---@field requests table<string, string[]> ids of requests for confirmations, by the id of the call
---@field answers table<string, true> ids that are answered in events that have been looked at
---@field before table[] events from before what the run sees, newest first
---@field confirmed table<string, true> ids of requests that the message answers
---@field isBefore boolean? it looks at events from before what the run sees
---@field callers table<table, true> those of them whose calls were found
local Search = {}
Search.__index = Search

local function newSearch(invocationContext)
  local seen = invocationContext:history()
  return setmetatable({
    invocationContext = invocationContext, seen = seen, following = seen:newestFirst(), calls = {}, answers = {},
    requests = {}, before = {}, callers = {}, confirmed = {},
  }, Search)
end

-- Goes on with what is stored before the run's part.
function Search:lookBefore()
  self.isBefore = true
  if self.seen.first == 1 then return end
  local whole, last = openWhole(self.invocationContext, self.seen)
  if not whole then return end
  local following = history.newestFirst(whole, last)
  self.following = function()
    local event
    repeat
      local _
      _, event = following()
    until not event or event.revision < self.seen.first
    self.before[#self.before + 1] = event
    return event
  end
end

-- By the id of the call that it is about.
function Search:noteRequest(event, call)
  local original = confirmation.originalCall(event, call)
  if not original then return end
  self.requests[original.id] = self.requests[original.id] or {}
  table.insert(self.requests[original.id], call.id)
end

-- Looks at one event more; false where there is none.
function Search:look()
  local event = self.following()
  if not event and not self.isBefore then
    self:lookBefore()
    event = self.following()
  end
  if not event then return false end
  for _, part in ipairs(events.parts(event)) do
    local call, response = part.functionCall, part.functionResponse
    if response and response.id ~= nil then self.answers[response.id] = true end
    if call and call.id ~= nil then
      self.calls[call.id] = self.calls[call.id] or {}
      table.insert(self.calls[call.id], { event = event, call = call })
      self:noteRequest(event, call)
    end
  end
  return true
end

-- The latest event with a call of that id, and the call; where a revision is given, before it.
function Search:find(id, revision)
  local index = 1
  repeat
    local found = self.calls[id] and self.calls[id][index]
    if found and not (revision and found.event.revision >= revision) then
      if found.event.revision < self.seen.first then self.callers[found.event] = true end
      return found.event, found.call
    end
    if found then index = index + 1 end
  until not found and not self:look()
  return nil
end

-- Of a call that was found: what answers it stands behind it, and so has been looked at.
function Search:isAnswered(id)
  return self.answers[id] == true
end

-- The model is to see the calls that were found before the run's part, and what they have been
-- answered so far.
function Search:finish()
  if next(self.callers) == nil then return end
  local before, count = {}, #self.before
  for index = 1, count do before[index] = self.before[count - index + 1] end
  self.seen:showEarlier(lateAnswers.withAnswers(before, self.callers))
end

---- The message

local function checkId(response, index)
  local id = type(response) == "table" and response.id
  if type(id) == "string" then return id end
  return core.error("invalid_argument",
    ("newMessage.parts[%d].functionResponse.id: expected the id of the call that is answered, got %s"):format(
      index, (id == nil or id == false or id == core.null) and "nothing" or type(id)))
end

local function refuse(index, message, ...)
  core.error("invalid_argument", ("newMessage.parts[%d]: " .. message):format(index, ...))
end

local function refuseUnknown(index, id)
  refuse(index, "this session knows no function call with the id %s", id)
end

local ANSWERED = "the confirmation %s has been answered already"

-- A confirmation belongs to the request, not to the call that it is about.
function Search:checkOpenRequest(id, response, index)
  local confirmed = type(response.response) == "table" and response.response.confirmed
  for _, requestId in ipairs(type(confirmed) == "boolean" and self.requests[id] or {}) do
    if not self:isAnswered(requestId) then
      refuse(index, "the call %s waits for a confirmation; answer the request for it, %s", id, requestId)
    end
  end
end

-- The call that a request was about, and what the user has said to it. Each request is answered
-- once: nobody wants a tool to run twice because a button was pressed twice.
function Search:confirmedCall(event, request, response, index)
  local id, original = request.id, confirmation.originalCall(event, request)
  if not original or not self:find(original.id, event.revision) then refuseUnknown(index, id) end
  if self.confirmed[id] or self:isAnswered(id) then
    refuse(index, ANSWERED, id)
  end
  local agent = trees.find(self.invocationContext.rootAgent, tostring(event.author))
  if not (agent and agent.isLlm) then
    refuse(index, 'agent "%s", which has asked for the confirmation %s, is not in this tree', event.author, id)
  end
  self.confirmed[id] = true
  response.name = confirmation.REQUEST_NAME
  local where = ("newMessage.parts[%d].functionResponse.response"):format(index)
  local said = confirmation.ofAnswer(response.response, confirmation.hintOf(request), where)
  return { requestId = id, functionCall = original, toolConfirmation = said }
end

---@class moonpad.AnsweredAgent an agent that has made some of the calls that a message answers
---@field author string
---@field branch string?
---@field confirmed moonpad.ConfirmedCall[] calls of it that are to be run now

-- Agents go on once each, however many of their calls are answered.
local function add(answered, event, confirmed)
  local entry
  for _, other in ipairs(answered) do
    if other.author == event.author and other.branch == event.branch then entry = other end
  end
  if not entry then
    entry = { author = event.author, branch = event.branch, confirmed = {} }
    answered[#answered + 1] = entry
  end
  entry.confirmed[#entry.confirmed + 1] = confirmed
end

---Who made the calls that the user's message answers, in the order of the answers. Responses get
---the names of their calls.
---@param invocationContext moonpad.InvocationContext
---@return moonpad.AnsweredAgent[]
function longRunning.findCallers(invocationContext)
  local answered = {}
  local search = newSearch(invocationContext)
  for index, part in ipairs(invocationContext.userContent and invocationContext.userContent.parts or {}) do
    local response = part.functionResponse
    if response then
      local id = checkId(response, index)
      local event, call = search:find(id)
      if not event then refuseUnknown(index, id) end
      local isRequest = call.name == confirmation.REQUEST_NAME
      if not isRequest then search:checkOpenRequest(id, response, index) end
      add(answered, event, isRequest and search:confirmedCall(event, call, response, index) or nil)
      response.name = call.name
    end
  end
  search:finish()
  return answered
end

local function isAnsweredAfter(seen, revision, message, id)
  for event in seen:newestFirst() do
    -- What is shown from before the run's part is older still.
    if (event.revision or 0) <= revision then return false end
    if event.revision < message.revision and findIn(event, "functionResponse", id) then return true end
  end
  return false
end

---Raises where somebody else (another process) has answered a confirmation while the message was on
---its way: whose answer was stored first has the tool run.
---@param invocationContext moonpad.InvocationContext
---@param answered moonpad.AnsweredAgent[]
---@param revision integer up to which findCallers has looked
---@param message moonpad.Event as it was stored
function longRunning.checkFirst(invocationContext, answered, revision, message)
  for _, agent in ipairs(answered) do
    for _, confirmed in ipairs(agent.confirmed) do
      if isAnsweredAfter(invocationContext:history(), revision, message, confirmed.requestId) then
        core.error("invalid_argument", "newMessage: " .. ANSWERED:format(confirmed.requestId))
      end
    end
  end
end

return longRunning
