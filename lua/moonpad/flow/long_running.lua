--- Function responses that come later than in the turn of their call: messages of the user that
--- answer earlier calls. Who goes on is the agent that called; the model is shown the call and its
--- answer as if nothing had come between them, so that the request ends with what it is to go on
--- from.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local events = require "moonpad.events.event"
local history = require "moonpad.flow.history"

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

local function shareAny(left, right)
  for id in pairs(left) do
    if right[id] then return true end
  end
  return false
end

---The latest event before an answer with a call that it answers; nil where there is none in sight.
---@param list table[] events that a model would see
---@param last integer where the answer is
---@param isOthers fun(event: table): boolean events of other agents are retold, and call nothing
---@return integer? index
---@return table<string, true>? called the ids of all its calls
function longRunning.findCall(list, last, isOthers)
  local answered = idsIn(list[last], "functionResponse")
  if next(answered) == nil then return nil end
  for index = last - 1, 1, -1 do
    local called = not isOthers(list[index]) and idsIn(list[index], "functionCall") or {}
    if shareAny(called, answered) then return index, called end
  end
  return nil
end

-- What an event between says to the same calls: an interim answer, or that of a call beside it.
local function onlyAnswers(event, called)
  local parts = {}
  for _, part in ipairs(events.parts(event)) do
    if part.functionResponse and called[part.functionResponse.id] then parts[#parts + 1] = part end
  end
  if #parts == 0 then return nil end
  return { author = event.author, branch = event.branch, content = { role = event.content.role, parts = parts } }
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
      for id in pairs(idsIn(event, "functionCall")) do called[id] = true end
    else
      kept[#kept + 1] = onlyAnswers(event, called)
    end
  end
  return kept
end

---Where the last event answers an earlier call, what was said since that call is left out.
---@param list table[] events that a model would see
---@param isOthers fun(event: table): boolean
---@return table[] list
function longRunning.joined(list, isOthers)
  if #list == 0 or isOthers(list[#list]) then return list end
  local index, called = longRunning.findCall(list, #list, isOthers)
  if not index or index == #list - 1 then return list end
  local kept = table.move(list, 1, index, 1, {})
  for between = index + 1, #list - 1 do
    if not isOthers(list[between]) then kept[#kept + 1] = onlyAnswers(list[between], called) end
  end
  kept[#kept + 1] = list[#list]
  return kept
end

---- Who goes on

local function callIn(event, id)
  for _, part in ipairs(events.parts(event)) do
    if part.functionCall and part.functionCall.id == id then return part.functionCall end
  end
  return nil
end

-- The latest event with a call of that id, and the call.
local function findLatest(list, id)
  for index = #list, 1, -1 do
    local call = callIn(list[index], id)
    if call then return list[index], call end
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

function Search:find(id)
  self.seen = self.seen or history.seen(self.invocationContext)
  local event, call = findLatest(self.seen, id)
  if event then return event, call end
  self.before = self.before or readBefore(self.invocationContext)
  event, call = findLatest(self.before, id)
  if event then self.callers[event] = true end
  return event, call
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

-- Agents go on once each, however many of their calls are answered.
local function add(answered, event)
  for _, other in ipairs(answered) do
    if other.author == event.author and other.branch == event.branch then return end
  end
  answered[#answered + 1] = { author = event.author, branch = event.branch }
end

---Who made the calls that the user's message answers, in the order of the answers. Responses get
---the names of their calls.
---@param invocationContext moonpad.InvocationContext
---@return { author: string, branch: string? }[]
function longRunning.findCallers(invocationContext)
  local answered, search = {}, setmetatable({ invocationContext = invocationContext, callers = {} }, Search)
  for index, part in ipairs(invocationContext.userContent and invocationContext.userContent.parts or {}) do
    local response = part.functionResponse
    if response then
      local id = checkId(response, index)
      local event, call = search:find(id)
      if not event then
        core.error("invalid_argument",
          ("newMessage.parts[%d]: this session knows no function call with the id %s"):format(index, id))
      end
      response.name = response.name or call.name
      add(answered, event)
    end
  end
  search:finish()
  return answered
end

return longRunning
