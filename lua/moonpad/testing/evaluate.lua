--- Evaluation: conversations with what is expected of the agent, for models whose words differ from
--- time to time (ADK: eval sets).
local content = require "moonpad.events.content"
local conversations = require "moonpad.testing.conversation"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local expectations = require "moonpad.testing.expectation"
local failures = require "moonpad.testing.failure"
local fields = require "moonpad.schema.fields"
local lists = require "moonpad.util.list"

local WHERE <const> = "testing.evaluate"

---One message of the user, and what is expected of the answer.
---@class moonpad.EvaluationTurn
---@field user moonpad.ContentLike what the user says
---@field expect moonpad.Expectation? default: nothing

---A conversation. A case of one turn has `user` and `expect` itself.
---@class moonpad.EvaluationCase
---@field user moonpad.ContentLike? what the user says
---@field expect moonpad.Expectation? of the only turn
---@field name string? default: "case 1", "case 2", ...
---@field state table? what the agent finds
---@field turns moonpad.EvaluationTurn[]?

---What `testing.evaluate` takes.
---@class moonpad.EvaluationOptions
---@field agent moonpad.Agent
---@field model moonpad.ModelLike? asked in place of the models of all agents
---@field appName string? default "app"
---@field userId string? default "user"
---@field sessionId string? default "session"
---@field clock? moonpad.Clock|fun(): number of the services in memory
---@field plugins moonpad.Plugin[]?
---@field artifactService moonpad.ArtifactService?
---@field memoryService moonpad.MemoryService?
---@field summarizer moonpad.Summarizer?
---@field tracer moonpad.Tracer?
---@field maxLlmCalls integer? of each turn; default 500
---@field templateSyntax "both"|"braces"|"angles"|nil
---@field cases moonpad.EvaluationCase[]
---@field runs integer? how often each case is played; default 1
---@field passRate number? the share of its runs that must pass, from 0 to 1; default 1

---@class moonpad.CaseResult
---@field name string
---@field passed boolean
---@field runs integer how often it was played
---@field passedRuns integer
---@field failures string[] what was wrong, of all runs

---`tostring(evaluation)` is a table for people.
---@class moonpad.Evaluation
---@field passed integer how many cases
---@field failed integer
---@field cases moonpad.CaseResult[]
local Evaluation = { __name = "moonpad.evaluation" }
Evaluation.__index = Evaluation

---- Reading cases

local function userMessage(value, where)
  return content.normalize(value, "user", where)
end

local function expectationOf(value, where)
  return expectations.FIELDS:take(value, where)
end

local TURN = fields.new { { "user", userMessage, required = true }, { "expect", expectationOf, default = {} } }
  :describes "moonpad.EvaluationTurn"

local function turnsOf(value, where)
  local list = lists.of(value, where, "turns")
  for index, turn in ipairs(list) do list[index] = TURN:take(turn, ("%s[%d]"):format(where, index)) end
  if #list == 0 then fields.refuse(where, "expected at least one turn") end
  return list
end

local CASE = fields.new {
  { "name", fields.text }, { "state", "table" }, { "turns", turnsOf }, { "user" }, { "expect" },
}:describes "moonpad.EvaluationCase"

local function caseOf(given, where, number)
  local case = CASE:take(given, where)
  local isOneTurn = case.user ~= nil or case.expect ~= nil
  if case.turns and isOneTurn then fields.refuse(where, "user and expect belong into the turns") end
  case.turns = case.turns or { TURN:take({ user = case.user, expect = case.expect }, where) }
  case.name = case.name or ("case %d"):format(number)
  return case
end

local function casesOf(value, where)
  local list = lists.of(value, where, "cases")
  for index, case in ipairs(list) do list[index] = caseOf(case, ("%s[%d]"):format(where, index), index) end
  return list
end

local OWN = fields.new {
  { "cases", casesOf, required = true },
  { "runs", fields.integerFrom(1), default = 1 },
  { "passRate", { is = function(value)
    return type(value) == "number" and value >= 0 and value <= 1
  end, what = "a number from 0 to 1", showsValue = true }, default = 1 },
}
local FIELDS = OWN:with(conversations.FIELDS:without("messages"):without("state"):without("service").list)
  :describes "moonpad.EvaluationOptions"

---- Playing them

local function sayTurn(conversation, turn)
  local result, first = conversation.result, #conversation.result.events + 1
  conversation:say(turn.user)
  local events = table.move(result.events, first, #result.events, 1, {})
  return expectations.check(turn.expect, {
    text = result.text, events = events, toolCalls = expectations.toolCalls(events),
    state = result.session.state:getAll(),
  })
end

-- What is wrong, of the first turn in which something is: what follows it is another conversation.
local function playOnce(options, case)
  local given = {}
  for _, name in ipairs(conversations.FIELDS.names) do given[name] = options[name] end
  given.state = case.state
  local conversation = conversations.begin(given, WHERE)
  for number, turn in ipairs(case.turns) do
    local ok, problems = pcall(sayTurn, conversation, turn)
    if not ok then problems = { errorText.of(problems) } end
    for index, problem in ipairs(problems) do
      problems[index] = #case.turns > 1 and ("turn %d: %s"):format(number, problem) or problem
    end
    if #problems > 0 then return problems end
  end
  return {}
end

local function playCase(options, own, case)
  local result = { name = case.name, runs = own.runs, passedRuns = 0, failures = core.array {} }
  for run = 1, own.runs do
    local problems = playOnce(options, case)
    if #problems == 0 then result.passedRuns = result.passedRuns + 1 end
    for _, problem in ipairs(problems) do
      table.insert(result.failures, own.runs > 1 and ("run %d: %s"):format(run, problem) or problem)
    end
  end
  result.passed = result.passedRuns / own.runs >= own.passRate
  return result
end

---- The result

function Evaluation:__tostring()
  local width, lines = 0, {}
  for _, case in ipairs(self.cases) do width = math.max(width, utf8.len(case.name) or #case.name) end
  for _, case in ipairs(self.cases) do
    local padding = (" "):rep(width - (utf8.len(case.name) or #case.name))
    local rate = case.runs > 1 and ("  %d of %d runs"):format(case.passedRuns, case.runs) or ""
    lines[#lines + 1] = ("%s  %s%s"):format(case.passed and "passed" or "FAILED", case.name,
      rate ~= "" and padding .. rate or "")
    for _, failure in ipairs(case.failures) do lines[#lines + 1] = "        " .. failure end
  end
  lines[#lines + 1] = ("%d passed, %d failed"):format(self.passed, self.failed)
  return table.concat(lines, "\n")
end

---Fails the test, with the table, where a case has failed.
function Evaluation:assertPassed()
  if self.failed > 0 then failures.raise("model", "the evaluation has failed:\n" .. tostring(self)) end
end

---Plays conversations with an agent and compares what happens with what is expected. An error of a
---run makes its case fail.
---@param options moonpad.EvaluationOptions
---@param onCase (fun(case: moonpad.CaseResult))? is told of each case when it is over
---@return moonpad.Evaluation
return function(options, onCase)
  FIELDS:checkNames(options, WHERE)
  local own = OWN:read(options, WHERE)
  local evaluation = setmetatable({ passed = 0, failed = 0, cases = {} }, Evaluation)
  for index, case in ipairs(own.cases) do
    local result = playCase(options, own, case)
    evaluation.cases[index] = result
    local outcome = result.passed and "passed" or "failed"
    evaluation[outcome] = evaluation[outcome] + 1
    if onCase then onCase(result) end
  end
  return evaluation
end
