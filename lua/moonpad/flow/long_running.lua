--- Function responses that come later than in the turn of their call: messages of the user that
--- answer earlier calls, or confirm that they are to run. Who goes on is the agent that called; the
--- model is shown the call and its answer as if nothing had come between them, so that the request
--- ends with what it is to go on from.
local confirmation = require "moonpad.flow.confirmation"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local events = require "moonpad.events.event"
local history = require "moonpad.flow.history"
local trees = require "moonpad.agents.tree"

local longRunning = {}

---- Showing them to a model

local function idsIn(event, field)
  local ids = {}
  for _, part in ipairs(events.parts(event)) do
    local id = part[field] and part[field].id
    if id ~= nil then ids[id] = true end
  end
  return ids
end

local function addIds(ids, event, field)
  for id in pairs(idsIn(event, field)) do ids[id] = true end
end

local function shareAny(left, right)
  for id in pairs(left) do
    if right[id] then return true end
  end
  return false
end

-- To confirm a call is to answer it: its answer follows. The call was made before the request.
local function addConfirmed(answered, message, event)
  for id, confirmed in pairs(message.confirmed or {}) do
    if confirmed.request == event then answered[id] = true end
  end
end

---The latest event before an answer with a call that it answers; nil where there is none in sight.
---@param list table[] events that a model would see
---@param last integer where the answer is
---@param isOthers fun(event: table): boolean events of other agents are retold, and call nothing
---@return integer? index
function longRunning.findCall(list, last, isOthers)
  local answered = idsIn(list[last], "functionResponse")
  if next(answered) == nil and not list[last].confirmed then return nil end
  for index = last - 1, 1, -1 do
    addConfirmed(answered, list[last], list[index])
    local called = not isOthers(list[index]) and idsIn(list[index], "functionCall") or {}
    if shareAny(called, answered) then return index end
  end
  return nil
end

-- What an event between says to calls before it: an interim answer, that of a call beside it, or of
-- an earlier one.
local function onlyAnswers(event, called)
  local parts = {}
  for _, part in ipairs(events.parts(event)) do
    if part.functionResponse and called[part.functionResponse.id] then parts[#parts + 1] = part end
  end
  if #parts == 0 and not event.confirmed then return nil end
  return {
    author = event.author, branch = event.branch, content = { role = event.content.role, parts = parts },
    confirmed = event.confirmed,
  }
end

---Some events with calls, and what is said to these calls behind them.
---@param list moonpad.Event[]
---@param callers table<moonpad.Event, true> of these
---@return table[]
function longRunning.withAnswers(list, callers)
  local called, kept = {}, {}
  for _, event in ipairs(list) do
    if callers[event] then
      kept[#kept + 1] = event
      addIds(called, event, "functionCall")
    else
      kept[#kept + 1] = onlyAnswers(event, called)
    end
  end
  return kept
end

-- Where the message stands that has confirmed calls which the last event answers; nil where it
-- answers calls that have been made since.
local function findConfirming(list, isOthers)
  local answered = idsIn(list[#list], "functionResponse")
  for index = #list - 1, 1, -1 do
    local event = list[index]
    if shareAny(event.confirmed or {}, answered) then return index end
    if not isOthers(event) and shareAny(idsIn(event, "functionCall"), answered) then return nil end
  end
  return nil
end

-- Follows a history: which ids mean calls that are shown. A later call may have taken an id over.
local function follow(meant, event, isShown)
  for id in pairs(idsIn(event, "functionCall")) do meant.calls[id] = isShown or nil end
  for requestId, id in pairs(event.requests or {}) do meant.requests[requestId] = meant.calls[id] end
  for id, confirmed in pairs(event.confirmed or {}) do meant.calls[id] = meant.requests[confirmed.requestId] end
end

---Where the last event answers an earlier call, what was said since that call is left out. What the
---user said when confirming the call stays.
---@param list table[] events that a model would see
---@param isOthers fun(event: table): boolean
---@return table[] list
function longRunning.joined(list, isOthers)
  if #list == 0 or isOthers(list[#list]) then return list end
  local confirming = findConfirming(list, isOthers)
  local index = longRunning.findCall(list, confirming or #list, isOthers)
  if not index or index == #list - 1 then return list end
  local kept, meant = {}, { calls = {}, requests = {} }
  for position = 1, #list - 1 do
    local event, isOwn = list[position], not isOthers(list[position])
    if isOwn then follow(meant, event, position <= index) end
    if position <= index or position == confirming or event.requests then
      kept[#kept + 1] = event
    elseif isOwn then
      kept[#kept + 1] = onlyAnswers(event, meant.calls)
    end
  end
  kept[#kept + 1] = list[#list]
  return kept
end

---- Who goes on

local function findIn(event, field, id)
  for _, part in ipairs(events.parts(event)) do
    if part[field] and part[field].id == id then return part[field] end
  end
  return nil
end

-- The latest event with a call of that id, and the call; where a revision is given, before it.
local function findLatest(list, id, revision)
  for index = #list, 1, -1 do
    local event = list[index]
    local call = not (revision and event.revision >= revision) and findIn(event, "functionCall", id)
    if call then return event, call end
  end
  return nil
end

-- What is stored before the part of the history that the run sees, without what was rewound.
local function readBefore(invocationContext)
  local session = invocationContext.session
  if #session.events > 0 and history.read(session.events, 1).revision == 1 then return {} end
  local whole = invocationContext.runner.sessionService:getSession {
    appName = session.appName, userId = session.userId, sessionId = session.id, numRecentEvents = math.maxinteger,
  }
  if not whole then return {} end
  -- Others may have added to it meanwhile.
  local count = #whole.events - (whole.revision - session.revision)
  local rewound = history.rewound(whole.events, count, coroutines.giveWay)
  local before = {}
  for index = 1, count - #session.events do
    if not rewound[index] then before[#before + 1] = history.read(whole.events, index) end
    if index % history.BATCH == 0 then coroutines.giveWay() end
  end
  return before
end

---- Searching: what the run sees, and where that is not enough what is stored before it

local Search = {}
Search.__index = Search

function Search:find(id, revision)
  self.seen = self.seen or history.seen(self.invocationContext)
  local event, call = findLatest(self.seen, id, revision)
  if event then return event, call end
  self.before = self.before or readBefore(self.invocationContext)
  event, call = findLatest(self.before, id, revision)
  if event then self.callers[event] = true end
  return event, call
end

-- Of a call that was found.
function Search:isAnswered(id)
  for _, list in ipairs { self.seen, self.before } do
    for _, event in ipairs(list) do
      if findIn(event, "functionResponse", id) then return true end
    end
  end
  return false
end

-- The model is to see the calls that were found before the run's part, and what they have been
-- answered so far.
function Search:finish()
  if next(self.callers) == nil then return end
  history.showEarlier(self.invocationContext, longRunning.withAnswers(self.before, self.callers))
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

-- The call that a request was about, and what the user has said to it. Each request is answered
-- once: nobody wants a tool to run twice because a button was pressed twice.
function Search:confirmedCall(event, request, response, index)
  local id, original = request.id, confirmation.originalCall(event, request)
  if not original or not self:find(original.id, event.revision) then refuseUnknown(index, id) end
  if self.confirmed[id] or self:isAnswered(id) then
    refuse(index, ANSWERED, id)
  end
  local agent = trees.find(self.invocationContext.runner.agent, tostring(event.author))
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
  local search = setmetatable({ invocationContext = invocationContext, callers = {}, confirmed = {} }, Search)
  for index, part in ipairs(invocationContext.userContent and invocationContext.userContent.parts or {}) do
    local response = part.functionResponse
    if response then
      local id = checkId(response, index)
      local event, call = search:find(id)
      if not event then refuseUnknown(index, id) end
      local isRequest = call.name == confirmation.REQUEST_NAME
      add(answered, event, isRequest and search:confirmedCall(event, call, response, index) or nil)
      response.name = response.name or call.name
    end
  end
  search:finish()
  return answered
end

local function isAnsweredBefore(list, revision, id)
  for _, event in ipairs(list) do
    -- What is shown from before the run's part has been looked at already, and may have none.
    if (event.revision or revision) < revision and findIn(event, "functionResponse", id) then return true end
  end
  return false
end

---Raises where somebody else (another process) has answered a confirmation while the message was on
---its way: whose answer was stored first has the tool run.
---@param invocationContext moonpad.InvocationContext
---@param answered moonpad.AnsweredAgent[]
---@param message moonpad.Event as it was stored
function longRunning.checkFirst(invocationContext, answered, message)
  for _, agent in ipairs(answered) do
    for _, confirmed in ipairs(agent.confirmed) do
      if isAnsweredBefore(history.seen(invocationContext), message.revision, confirmed.requestId) then
        core.error("invalid_argument", "newMessage: " .. ANSWERED:format(confirmed.requestId))
      end
    end
  end
end

return longRunning
