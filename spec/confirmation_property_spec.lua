-- Random conversations in which calls are confirmed and refused in any order: what a model is shown
-- fits together and is up to date, and each call that was approved has run once, others never.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"

local SEEDS, CONVERSATIONS, TURNS = 4, checks.scaled(25), 8
local REQUEST = "adk_request_confirmation"
local REQUIRED = "This tool call requires confirmation, please approve or reject."
local REJECTED = "This tool call is rejected."

-- Each call has a number of its own in its arguments; `shown` holds what a model is to see as the
-- answer to it: the number once it has run, its negative while the tool has asked, or an error.
local Conversation = {}
Conversation.__index = Conversation

local function converse(random)
  local self = setmetatable({
    random = random, count = 0, shown = {}, ran = {}, approved = {}, open = {}, reusesIds = random(4) == 1,
  }, Conversation)
  local agent = moonpad.agent {
    name = "A", includeContents = random(3) == 1 and "none" or nil,
    model = function(request)
      self:check(request.contents)
      return self:answer()
    end,
    tools = {
      { name = "pay", requireConfirmation = true, run = function(args) return self:run(args) end },
      { name = "ask", run = function(args, context)
        if context.toolConfirmation then return self:run(args) end
        context:requestConfirmation()
        self.shown[args.number] = -args.number
        return { number = -args.number }
      end },
      { name = "look", run = function(args)
        self.shown[args.number] = args.number
        return { number = args.number }
      end },
    },
  }
  self.service = moonpad.open "memory:"
  self.runner = moonpad.runner { appName = "app", agent = agent, sessionService = self.service }
  return self
end

function Conversation:run(args)
  self.ran[args.number] = (self.ran[args.number] or 0) + 1
  self.shown[args.number] = args.number
  return { number = args.number }
end

-- What a model says: words, or one or two calls.
function Conversation:answer()
  local random, parts = self.random, {}
  if random(3) == 1 then return "Well." end
  for index = 1, random(2) do
    self.count = self.count + 1
    local name = ({ "pay", "ask", "look" })[random(3)]
    local id = "c" .. (self.reusesIds and index or self.count)
    parts[index] = { functionCall = { name = name, args = { number = self.count }, id = id } }
  end
  return { content = { parts = parts } }
end

function Conversation:check(contents)
  for index, content in ipairs(contents) do
    local calls = {}
    for _, part in ipairs(content.parts) do
      local callOrResponse = part.functionCall or part.functionResponse or {}
      assert.not_equal(REQUEST, callOrResponse.name)
      calls[#calls + 1] = part.functionCall
    end
    for position, call in ipairs(calls) do
      local response = contents[index + 1].parts[position].functionResponse
      assert.same({ call.id, call.name }, { response.id, response.name })
      assert.equal(self.shown[call.args.number], response.response.number or response.response.error)
    end
  end
end

-- Confirms or refuses some of the open requests, with or without words.
function Conversation:message()
  local random, parts = self.random, {}
  if #self.open == 0 or random(3) == 1 then return "Go on." end
  for index = 1, self.reusesIds and 1 or random(math.min(3, #self.open)) do
    local request, isApproved = table.remove(self.open, random(#self.open)), random(3) > 1
    local number = request.args.originalFunctionCall.args.number
    if isApproved then self.approved[number] = 1 else self.shown[number] = REJECTED end
    parts[index] = { functionResponse = { id = request.id, response = { confirmed = isApproved } } }
  end
  if random(2) == 1 then table.insert(parts, random(#parts + 1), { text = "So be it." }) end
  return { parts = parts }
end

function Conversation:turn()
  local options = { userId = "u", sessionId = "s", newMessage = self:message() }
  if not self.reusesIds and self.random(3) == 1 then options.numRecentEvents = self.random(0, 6) end
  for event in self.runner:run(options) do
    for _, call in ipairs(event:functionCalls()) do
      if call.name == REQUEST then
        self.open[#self.open + 1] = call
        local original = call.args.originalFunctionCall
        if original.name == "pay" then self.shown[original.args.number] = REQUIRED end
      end
    end
  end
end

describe("confirmations in random conversations", function()
  for seed = 1, SEEDS do
    it("are shown as they are, and run what was approved, with seed " .. seed, function()
      math.randomseed(seed)
      for _ = 1, CONVERSATIONS do
        local conversation = converse(math.random)
        for _ = 1, TURNS do conversation:turn() end
        assert.same(conversation.approved, conversation.ran)
        conversation.service:close()
      end
    end)
  end
end)
