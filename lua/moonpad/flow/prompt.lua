--- The contents of a request for one agent, which grow with the history: an event that was added
--- once is not looked at again. Contents are shared by all requests, and never changed.
local confirmation = require "moonpad.flow.confirmation"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local lateAnswers = require "moonpad.flow.late_answers"

local prompts = {}

-- What takes memory beside the events, in bytes: a place in the list; a part of a content that was
-- made here; a call with its answer.
local BYTES_FOR_PLACE, BYTES_FOR_PART, BYTES_FOR_CALL = 16, 150, 600

---@class moonpad.Prompt
---@field agentName string
---@field branch string?
---@field contents moonpad.Content[]
---@field newest table? the last event in it, without what is about confirmations
---@field growth integer see takeGrowth
---@field first integer? the revision that it begins with (contents.lua)
---@field last integer? the revision that it goes up to
---@field requests table see confirmation.shown
---@field callsById table<string, moonpad.PromptCall[]> the calls of the latest event that has the id
---@field callsByName table<string, table> all calls of a name, and which of them may lack an answer
---@field callsOfRequest table<string, moonpad.PromptCall> by the id of the request to confirm it
---@field runAnew table<string, moonpad.PromptCall|false> confirmed calls whose answers are to come
---@field answered table<integer, table> where answers stand that have come since
local Prompt = {}
Prompt.__index = Prompt

---An empty one. What agents on other branches say is left out of it.
---@param agentName string
---@param branch string?
---@return moonpad.Prompt
function prompts.new(agentName, branch)
  return setmetatable({
    agentName = agentName, branch = branch, contents = {}, growth = 0,
    -- See confirmation.shown.
    requests = {},
    -- The calls of the latest event that has the id.
    callsById = {},
    -- All calls of a name, and which of them may lack an answer.
    callsByName = {},
    -- The call that the user was asked to confirm, by the id of the request for it.
    callsOfRequest = {},
    -- Confirmed calls whose answers are still to come, by their id; false where the call itself is
    -- not in the prompt.
    runAnew = {},
    -- Where answers stand that have come since the contents were made: position -> calls.
    answered = {},
  }, Prompt)
end

---- Which events it shows

local function isPartVisible(part)
  if part.functionCall or part.functionResponse then return true end
  return not part.thought and part.text ~= ""
end

---Does an event say anything to a model? Those that only change state, and those of which only
---thoughts or nothing are left, do not.
---@param event table as session_history keeps it
---@return boolean
function prompts.isVisible(event)
  if not event.content then return false end
  for _, part in ipairs(event.content.parts) do
    if isPartVisible(part) then return true end
  end
  return false
end

-- A branch sees itself and what is above it, the steps of the names being compared as a whole.
local function isOnBranch(event, branch)
  local other = event.branch
  if branch == nil or type(other) ~= "string" or other == "" or other == branch then return true end
  return branch:sub(1, #other + 1) == other .. "."
end

---What another agent says is retold to this one.
---@param event table
---@return boolean
function Prompt:isFromOther(event)
  return event.author ~= "user" and event.author ~= self.agentName
end

---The next event of a history as it is shown, without adding it; nil where it is not.
---@param event table as session_history keeps it
---@return table?
function Prompt:show(event)
  if not event.content then return nil end
  local shown = confirmation.shown(event, self.requests)
  local isShown = shown.confirmed or prompts.isVisible(shown) or shown.requests and not self:isFromOther(shown)
  return isShown and isOnBranch(shown, self.branch) and shown or nil
end

---- What other agents said

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

-- What another agent did is told as context: the model must not take it for its own words. Returns
-- about how many bytes that takes, too.
local function presentOtherAgent(event)
  local parts, bytes = { { text = "For context:" } }, 2 * BYTES_FOR_PART
  for _, part in ipairs(event.content.parts) do
    local text = retell(event.author, part)
    if text then
      parts[#parts + 1] = { text = text }
      bytes = bytes + BYTES_FOR_PART + #text
    elseif not part.thought and part.text == nil then
      parts[#parts + 1] = part
    end
  end
  return { role = "user", parts = parts }, bytes
end

---- Calls and their answers, which stand right behind the content that calls

---@class moonpad.PromptCall
---@field functionCall table
---@field part table? its answer
---@field place table the calls of the same content; `position`: where their answers stand

-- A call without an answer: it was broken off, or its answer comes later.
local function placeholderResponse(call)
  local functionCall = call.functionCall
  local response = call.mayComeLater and { status = "pending" } or { error = "cancelled" }
  return { functionResponse = { id = functionCall.id, name = functionCall.name, response = response } }
end

local function answersOf(place)
  local parts = {}
  for index, call in ipairs(place) do parts[index] = call.part or placeholderResponse(call) end
  return { role = "user", parts = parts }
end

local function noteCall(self, call, sameEvent)
  local id, name = call.functionCall.id, call.functionCall.name
  if id then
    -- Some models count their ids anew in every answer: the latest call of an id is the one that is
    -- meant.
    sameEvent[id] = sameEvent[id] or {}
    table.insert(sameEvent[id], call)
    self.callsById[id], self.runAnew[id] = sameEvent[id], nil
  end
  if name == nil then return end
  local named = self.callsByName[name] or { next = 1 }
  self.callsByName[name] = named
  named[#named + 1] = call
end

local function addCalls(self, event, parts)
  local place, sameEvent, mayComeLater = { position = #self.contents + 1 }, {}, {}
  for _, id in ipairs(type(event.longRunningToolIds) == "table" and event.longRunningToolIds or {}) do
    mayComeLater[id] = true
  end
  for _, part in ipairs(parts) do
    local functionCall = part.functionCall
    if functionCall then
      self.growth = self.growth + BYTES_FOR_CALL
      local isLater = functionCall.id ~= nil and mayComeLater[functionCall.id]
      local call = { functionCall = functionCall, mayComeLater = isLater, place = place }
      place[#place + 1] = call
      noteCall(self, call, sameEvent)
    end
  end
  self.contents[place.position] = answersOf(place)
end

-- The oldest call of a name that has no answer yet.
local function unansweredOf(named)
  while named and named[named.next] do
    if not named[named.next].part then return named[named.next] end
    named.next = named.next + 1
  end
  return nil
end

local function callOf(self, response)
  local id = response.id
  if not id then return unansweredOf(self.callsByName[response.name]) end
  local anew = self.runAnew[id]
  if anew and anew[1] ~= nil then
    local call = table.remove(anew, 1)
    -- What answers it later has its id, too.
    if call then self.callsById[id] = { call } end
    return call
  end
  local same = self.callsById[id] or {}
  for _, call in ipairs(same) do
    if not call.part then return call end
  end
  return same[#same]
end

-- An answer whose call is not in sight (cut off, rewound) would be refused by every model.
local function addAnswer(self, part)
  local call = callOf(self, part.functionResponse)
  if not call then return end
  call.part = part
  self.answered[call.place.position] = call.place
end

local function isSameCall(call, other)
  return call.name == other.name and core.json.encode(call.args or {}) == core.json.encode(other.args or {})
end

-- The call that a request is about: of several of one id in one answer the one that says the same,
-- each for one request.
local function callAskedAbout(same, asked, taken)
  local free
  for _, call in ipairs(same or {}) do
    if not taken[call] then
      if #same == 1 or isSameCall(call.functionCall, asked) then return call end
      free = free or call
    end
  end
  return free
end

local function noteRequests(self, requests)
  local taken = {}
  for _, request in ipairs(requests) do
    local asked = request.functionCall
    local call = callAskedAbout(asked.id and self.callsById[asked.id], asked, taken)
    if call then taken[call], self.callsOfRequest[request.requestId] = true, call end
  end
end

-- Their answers come in this order, and are not those of later calls with the same ids.
local function noteConfirmed(self, confirmations)
  for _, confirmed in ipairs(confirmations) do
    local id = confirmed.id
    if id and not self:isFromOther(confirmed.request) then
      self.runAnew[id] = self.runAnew[id] or {}
      table.insert(self.runAnew[id], self.callsOfRequest[confirmed.requestId] or false)
    end
  end
end

---- Adding

-- Most events neither call nor answer.
local function contentWithoutAnswers(event, hasAnswers)
  if not hasAnswers then return event.content end
  local parts = {}
  for _, part in ipairs(event.content.parts) do
    if not part.functionResponse then parts[#parts + 1] = part end
  end
  return { role = event.content.role, parts = parts }
end

local function addOwn(self, event)
  if event.requests then noteRequests(self, event.requests) end
  if event.confirmed then noteConfirmed(self, event.confirmed) end
  local hasCalls, hasAnswers = false, false
  for _, part in ipairs(event.content.parts) do
    if part.functionResponse then
      hasAnswers = true
      addAnswer(self, part)
    elseif part.functionCall then
      hasCalls = true
    end
  end
  local content = contentWithoutAnswers(event, hasAnswers)
  if #content.parts == 0 then return end
  self.contents[#self.contents + 1] = content
  if hasCalls then addCalls(self, event, content.parts) end
end

---Adds an event as `show` gives it.
---@param event table
function Prompt:addVisible(event)
  coroutines.keepPace()
  self.newest = event
  self.growth = self.growth + BYTES_FOR_PLACE
  if self:isFromOther(event) then
    local content, bytes = presentOtherAgent(event)
    self.contents[#self.contents + 1], self.growth = content, self.growth + bytes
  else
    addOwn(self, event)
  end
end

---Adds the next event of the history, which must be no rewind.
---@param event table as session_history keeps it
function Prompt:add(event)
  local shown = self:show(event)
  if shown then self:addVisible(shown) end
end

---- Giving

---Does the last event answer calls of the agent, or confirm that they are to run?
---@return boolean
function Prompt:endsInAnswer()
  local newest = self.newest
  return newest ~= nil and not self:isFromOther(newest) and lateAnswers.answersAny(newest)
end

---About how many bytes it takes more than when it was last asked, the events apart.
---@return integer
function Prompt:takeGrowth()
  local bytes = self.growth
  self.growth = 0
  return bytes
end

local PIECE = 2048

---@return moonpad.Content[] list a new one; what is in it must not be changed
function Prompt:list()
  local contents = self.contents
  for position, place in pairs(self.answered) do
    contents[position], self.answered[position] = answersOf(place), nil
  end
  local list = {}
  for first = 1, #contents, PIECE do
    table.move(contents, first, math.min(first + PIECE - 1, #contents), first, list)
    coroutines.keepPace(16)
  end
  return list
end

---Copies the contents of a request, however deep: for whoever may change them.
---@param list moonpad.Content[]
---@return moonpad.Content[]
function prompts.copyOf(list)
  local copied = {}
  for index, item in ipairs(list) do
    copied[index] = copy(item)
    coroutines.keepPace()
  end
  return copied
end

return prompts
