-- Random conversations: what a model is shown is the same whether it was made bit by bit, by a
-- service that has kept all that it has seen, or at once from the store; and the end of a history
-- alone tells what a turn shows.
local checks = require "spec.support.checks"
local contents = require "moonpad.flow.contents"
local moonpad = require "moonpad"
local sessionHistory = require "moonpad.flow.session_history"
local support = require "spec.support"

local SEEDS, CONVERSATIONS, TURNS = 4, checks.scaled(8), 20
local REQUEST = "adk_request_confirmation"
local NAMES = { "root", "kid", "other" }

local Conversation = {}
Conversation.__index = Conversation

function Conversation:agent(name, subAgents)
  local random = self.random
  return moonpad.agent {
    name = name, subAgents = subAgents, model = function() return self:answer(name) end,
    includeContents = random(3) == 1 and "none" or nil,
    tools = {
      { name = "later", longRunning = true, run = function()
        if random(2) == 1 then return { status = "soon" } end
      end },
      { name = "ask", requireConfirmation = true, run = function(args) return { did = args.number } end },
      { name = "look", run = function(_, context)
        if random(6) == 1 then error("no luck", 0) end
        if random(8) == 1 then context:requestConfirmation { hint = "sure?" } end
        return { seen = true }
      end },
    },
  }
end

-- Ids of calls come again, as some models have them.
function Conversation:call(name)
  self.count = self.count + 1
  local id = self.random(3) == 1 and "c" .. self.random(3) or "id" .. self.count
  return { functionCall = { name = name, args = { number = self.count }, id = id } }
end

function Conversation:answer(name)
  local kind = self.random(12)
  if kind == 1 then return { content = { parts = { self:call "later", { text = "asking" } } } } end
  if kind == 2 then return { content = { parts = { self:call "ask", self:call "look" } } } end
  if kind == 3 then return { content = { parts = { self:call "look", self:call "look" } } } end
  if kind == 4 then
    local target = NAMES[self.random(#NAMES)]
    if target ~= name then
      return support.calls { "transfer_to_agent", { agent_name = target } }
    end
  end
  if kind == 5 then return { content = { parts = { { text = "hm", thought = true } } } } end
  if kind == 6 then error("the model broke", 0) end
  return "said " .. self.random(100)
end

-- The ids of long-running calls and of requests for confirmations in a session.
local function idsIn(session)
  local later, requests = {}, {}
  for _, event in ipairs(session.events) do
    for _, call in ipairs(event:functionCalls()) do
      if call.name == "later" then later[#later + 1] = call.id end
      if call.name == REQUEST then requests[#requests + 1] = call.id end
    end
  end
  return later, requests
end

function Conversation:message(session)
  local random, later, requests = self.random, idsIn(session)
  local kind = random(6)
  if kind == 1 and #later > 0 then
    return { parts = { { functionResponse = { id = later[random(#later)], response = { n = random(9) } } } } }
  elseif kind == 2 and #requests > 0 then
    local id, confirmed = requests[random(math.max(1, #requests - 2), #requests)], random(2) == 1
    return { parts = { { functionResponse = { id = id, response = { confirmed = confirmed } } } } }
  end
  return "message " .. random(100)
end

-- What others do to the session between two runs.
function Conversation:meddle(session)
  local random, kind = self.random, self.random(8)
  if kind == 1 and session.revision > 0 then
    self.service:rewind(session, { revision = random(0, session.revision) })
  elseif kind == 2 and session.revision > 0 then
    local event = session.events[random(#session.events)]
    pcall(self.service.rewind, self.service, session, { invocationId = event.invocationId })
  elseif kind == 3 then
    self.service:appendEvent(session, {
      author = ({ "user", "root", "stranger" })[random(3)], branch = random(4) == 1 and "team.root" or nil,
      content = { parts = { { text = "by hand", foo = moonpad.null } } },
    })
  end
end

local function contentsOf(service, name, includeContents, branch, window)
  local session = service:getSession {
    appName = "app", userId = "u", sessionId = "s", numRecentEvents = window,
  }
  local seen = sessionHistory.open(session, service)
  local invocationContext = { history = function() return seen end, branch = branch }
  return moonpad.json.encode(contents.build(invocationContext, { name = name, includeContents = includeContents }))
end

-- `cold` keeps nothing: it makes each request anew from the store.
function Conversation:compare(cold)
  for _, name in ipairs(NAMES) do
    for _, branch in ipairs { false, "team.root" } do
      for _, includeContents in ipairs { "default", "none" } do
        local warm = contentsOf(self.service, name, includeContents, branch or nil)
        assert.equal(contentsOf(cold, name, includeContents, branch or nil), warm)
      end
    end
    local window = self.random(0, 9)
    assert.equal(contentsOf(cold, name, "default", nil, window), contentsOf(self.service, name, "default", nil, window))
  end
end

-- A turn is the end of what is shown in full.
local function checkTurn(cold)
  for _, name in ipairs(NAMES) do
    local whole = contentsOf(cold, name, "default"):sub(2, -2)
    local turn = contentsOf(cold, name, "none"):sub(2, -2)
    assert.equal(turn, whole:sub(#whole - #turn + 1))
  end
end

local function converse(random, url)
  local service <close> = moonpad.open(url)
  local cold <close> = moonpad.open(url, { historyCacheBytes = 0 })
  local self = setmetatable({ random = random, count = 0, service = service }, Conversation)
  local root = self:agent("root", { self:agent "kid", self:agent "other" })
  local runner = moonpad.runner { appName = "app", agent = root, sessionService = service, maxLlmCalls = 8 }
  local who = { appName = "app", userId = "u", sessionId = "s" }
  service:createSession(who)
  for _ = 1, TURNS do
    local session = service:getSession(who)
    self:meddle(session)
    pcall(support.run, runner, {
      userId = "u", sessionId = "s", newMessage = self:message(session),
      numRecentEvents = random(5) == 1 and random(0, 12) or nil,
    })
    self:compare(cold)
    checkTurn(cold)
  end
end

describe("the contents of requests", function()
  after_each(support.cleanup)

  for seed = 1, SEEDS do
    it("are the same bit by bit and at once, seed " .. seed, function()
      math.randomseed(checks.seed(), seed)
      for number = 1, CONVERSATIONS do
        converse(math.random, ("sqlite:%s/%d.db"):format(support.tmpdir(), number))
      end
    end)
  end
end)
