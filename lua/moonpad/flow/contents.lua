--- History as a model gets to see it: the contents of a request, made from the events of the
--- session. What was made for one request is gone on with for the next one, in later runs, too.
local historyCache = require "moonpad.flow.history_cache"
local lateAnswers = require "moonpad.flow.late_answers"
local prompts = require "moonpad.flow.prompt"

local contents = {}

---- The whole history

-- Has what is there been made of the same events, and have they only become more?
local function isCurrent(prompt, seen)
  if not prompt or prompt.first ~= seen.first then return false end
  for revision = prompt.last + 1, seen:last() do
    if seen:isRewind(revision) then return false end
  end
  return prompt.last <= seen:last()
end

-- The prompt of an agent as it is now.
local function wholePrompt(seen, agentName, branch)
  local key = agentName .. "\0" .. (branch or "")
  local prompt, last = seen.prompts[key], seen:last()
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

---- Where the last event answers an earlier call, what was said since is left out

local function endsInLateAnswer(seen, agentName, branch)
  local tail, isAll = seen:tail(SHORT_TAIL)
  local prompt, isFromOther = showing(agentName, branch)
  local visible = visibleOf(prompt, tail)
  local shown = lateAnswers.joined(visible, isFromOther)
  if shown ~= visible then return true end
  return not isAll and not lateAnswers.isComplete(visible, shown, #shown, isFromOther)
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

-- The turn is looked for in the end of the history; in more of it, until all that is answered in the
-- turn is in sight.
local function turnPrompt(seen, agentName, branch)
  local size = SHORT_TAIL
  while true do
    local tail, isAll = seen:tail(size)
    local prompt, isFromOther = showing(agentName, branch)
    local visible = visibleOf(prompt, tail)
    local shown = lateAnswers.joined(visible, isFromOther)
    local first = startOfTurn(shown, isFromOther)
    if isAll or first > 1 and lateAnswers.isComplete(visible, shown, first, isFromOther) then
      return promptOf(shown, first, agentName, branch)
    end
    size = size * 4
  end
end

---- The request

contents.isVisible = prompts.isVisible

---The contents of a request: a list of its own, whose contents are shared and must not be changed.
---@param invocationContext moonpad.InvocationContext
---@param agent moonpad.Agent
---@return moonpad.Content[]
function contents.build(invocationContext, agent)
  local seen, branch = invocationContext.shared.history, invocationContext.branch
  if agent.includeContents == "none" then return turnPrompt(seen, agent.name, branch):list() end
  local prompt = wholePrompt(seen, agent.name, branch)
  if prompt:endsInAnswer() and endsInLateAnswer(seen, agent.name, branch) then
    prompt = joinedPrompt(seen, agent.name, branch)
  end
  return prompt:list()
end

return contents
