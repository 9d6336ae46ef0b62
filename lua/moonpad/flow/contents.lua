--- History as a model gets to see it: the contents of a request, made from the events of the
--- session. Those of one request are kept, and extended for the next one, in later runs, too.
local historyCache = require "moonpad.flow.history_cache"
local lateAnswers = require "moonpad.flow.late_answers"
local prompts = require "moonpad.flow.prompt"

local contents = {}

---- The whole history

-- Has what is there been made of the same events, and have they only become more?
local function isCurrent(prompt, seen)
  if not prompt or prompt.first ~= seen.first then return false end
  for revision = prompt.last + 1, seen:last() do
    if seen:changesEarlier(revision) then return false end
  end
  return prompt.last <= seen:last()
end

-- The prompt of an agent as it is now.
local function wholePrompt(seen, agentName, branch)
  local key = agentName .. "\0" .. (branch or "")
  -- Asked first: where the session was read again, it drops the prompts kept so far.
  local last = seen:last()
  local prompt = seen.prompts[key]
  if isCurrent(prompt, seen) then
    for revision = prompt.last + 1, last do
      prompt:add(seen:event(revision))
      prompt.last = revision
    end
  else
    prompt = prompts.new(agentName, branch)
    seen:eachEvent(function(event) prompt:add(event) end)
    prompt.first, prompt.last = seen.first, last
    seen.prompts[key] = prompt
  end
  historyCache.grow(seen.kept, prompt:takeGrowth())
  return prompt
end

---- Parts of it

-- What an agent would see of some events: one prompt for all of them, because what an event shows
-- depends on those before it.
local function showing(agentName, branch)
  local prompt = prompts.new(agentName, branch)
  local function isFromOther(event) return prompt:isFromOther(event) end
  return prompt, isFromOther
end

local function visibleOf(prompt, events)
  local visible = {}
  for _, event in ipairs(events) do visible[#visible + 1] = prompt:show(event) end
  return visible
end

local function promptOf(visible, first, agentName, branch)
  local prompt = prompts.new(agentName, branch)
  for index = first, #visible do prompt:addVisible(visible[index]) end
  return prompt
end

-- How many events of the end of the history are looked at first.
local SHORT_TAIL = 8

-- Looks at the end of the history: at a short one, then at longer ones, until `decide` answers. It
-- gets the events that are visible there, the same as they are shown (without what is left out for
-- a late answer), and whether that is all there is.
local function lookAtEnd(seen, agentName, branch, decide)
  local size = SHORT_TAIL
  while true do
    local tail, isAll = seen:tail(size)
    local prompt, isFromOther = showing(agentName, branch)
    local visible = visibleOf(prompt, tail)
    local answer = decide(visible, lateAnswers.joined(visible, isFromOther), isAll, isFromOther)
    if answer ~= nil then return answer end
    size = size * 4
  end
end

---- Where the last event answers an earlier call, what was said since is left out

local function endsInLateAnswer(seen, agentName, branch)
  return lookAtEnd(seen, agentName, branch, function(visible, shown, isAll, isFromOther)
    if shown ~= visible then return true end
    if isAll or lateAnswers.isComplete(visible, shown, #shown, isFromOther) then return false end
    return nil
  end)
end

local function joinedPrompt(seen, agentName, branch)
  local prompt, isFromOther = showing(agentName, branch)
  local visible = {}
  seen:eachEvent(function(event) visible[#visible + 1] = prompt:show(event) end)
  return promptOf(lateAnswers.joined(visible, isFromOther), 1, agentName, branch)
end

---- The turn alone

-- A message that answers calls goes on with the turn in which the first of them was made.
local function startOfTurn(visible, isFromOther)
  local index = #visible
  while index >= 1 do
    local event = visible[index]
    if isFromOther(event) then return index end
    if event.author == "user" then
      local call = lateAnswers.findFirstCall(visible, index, isFromOther)
      if not call then return index end
      index = call
    end
    index = index - 1
  end
  return 1
end

local function turnPrompt(seen, agentName, branch)
  return lookAtEnd(seen, agentName, branch, function(visible, shown, isAll, isFromOther)
    local first = startOfTurn(shown, isFromOther)
    local isWhole = isAll or first > 1 and lateAnswers.isComplete(visible, shown, first, isFromOther)
    return isWhole and promptOf(shown, first, agentName, branch) or nil
  end)
end

---- The request

contents.isVisible = prompts.isVisible

---The contents of a request: a list of its own, whose contents are shared and must not be changed.
---@param invocationContext moonpad.InvocationContext
---@param agent moonpad.Agent
---@return moonpad.Content[]
function contents.build(invocationContext, agent)
  local seen, branch = invocationContext:history(), invocationContext.branch
  if agent.includeContents == "none" then return turnPrompt(seen, agent.name, branch):list() end
  local prompt = wholePrompt(seen, agent.name, branch)
  if prompt:endsInAnswer() and endsInLateAnswer(seen, agent.name, branch) then
    prompt = joinedPrompt(seen, agent.name, branch)
  end
  return prompt:list()
end

return contents
