--- Answers that come later: a message of the user that holds function responses belongs to
--- earlier calls.
local contents = require "moonpad.flow.contents"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local events = require "moonpad.events.event"
local history = require "moonpad.flow.history"
local lateAnswer = require "moonpad.flow.late_answer"

local resume = {}

local function callIn(event, id)
  for _, part in ipairs(events.parts(event)) do
    if part.functionCall and part.functionCall.id == id then return part.functionCall end
  end
  return nil
end

-- The latest event with a call of that id, and the call.
local function findCall(list, id)
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
  self.seen = self.seen or contents.history(self.invocationContext)
  local event, call = findCall(self.seen, id)
  if event then return event, call end
  self.before = self.before or readBefore(self.invocationContext)
  event, call = findCall(self.before, id)
  if event then self.callers[event] = true end
  return event, call
end

-- The model is to see the calls that were found before the run's part, and what they have been
-- answered so far.
function Search:finish()
  if next(self.callers) == nil then return end
  contents.showEarlier(self.invocationContext, lateAnswer.withAnswers(self.before, self.callers))
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
function resume.find(invocationContext)
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

return resume
