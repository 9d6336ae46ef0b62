--- What a case of an evaluation expects of one turn: the answer, the tool calls, the state.
local callable = require "moonpad.util.callable"
local confirmation = require "moonpad.flow.confirmation"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"
local includesAll = require "moonpad.testing.includes_all"
local lists = require "moonpad.util.list"
local shown = require "moonpad.util.shown"

local expectations = {}

---@class moonpad.ExpectedToolCall
---@field name string
---@field args table? these arguments; others may be there

---@class moonpad.ExpectedAnswer
---@field contains string|string[]|nil texts that the answer holds
---@field matches string? a pattern of Lua that it matches

---@class moonpad.Expectation
---@field answer string|moonpad.ExpectedAnswer|(fun(text: string, turn: moonpad.EvaluatedTurn): boolean, string?)|nil
---a string: exactly this; a function: true, or false and what is wrong
---@field toolCalls (string|moonpad.ExpectedToolCall)[]? names, or names with arguments
---@field toolOrder "exact"|"inOrder"|"anyOrder"|nil default "exact": these calls and no others, in this order; the
---others let further calls be there
---@field state table? keys with the values that the session has afterwards; moonpad.removed: there is no such key

---- Reading them

local ANSWER = fields.new { { "contains", "string|table" }, { "matches", "string" } }:describes "moonpad.ExpectedAnswer"
local TOOL_CALL = fields.new { { "name", "string", required = true }, { "args", "table" } }
  :describes "moonpad.ExpectedToolCall"

local function answerOf(value, where)
  if type(value) == "string" or callable.is(value) then return value end
  if type(value) ~= "table" then
    fields.refuse(where, "expected a string, a function or { contains = , matches = }, got " .. lists.kindOf(value))
  end
  local answer = ANSWER:take(value, where)
  local ok, problem = pcall(string.find, "", answer.matches or "")
  if not ok then fields.refuse(where .. ".matches", errorText.of(problem)) end
  if type(answer.contains) == "string" then answer.contains = { answer.contains } end
  answer.contains = lists.of(answer.contains, where .. ".contains", "strings")
  return answer
end

local function toolCallsOf(value, where)
  local list = lists.of(value, where, "tool calls")
  for index, call in ipairs(list) do
    if type(call) == "string" then call = { name = call } end
    list[index] = TOOL_CALL:take(call, ("%s[%d]"):format(where, index))
  end
  return list
end

---@type moonpad.Fields
expectations.FIELDS = fields.new {
  { "answer", answerOf },
  { "toolCalls", toolCallsOf },
  { "toolOrder", fields.oneOf { "exact", "inOrder", "anyOrder" }, default = "exact" },
  { "state", "table" },
}:describes "moonpad.Expectation"

---- Comparing. Each adds what is wrong to a list.

local function checkAnswer(wanted, turn, problems)
  local text = turn.text
  local function add(message) problems[#problems + 1] = message end
  if type(wanted) == "string" then
    if text ~= wanted then add(("expected the answer %q, got %q"):format(wanted, text)) end
  elseif callable.is(wanted) then
    local isRight, reason = wanted(text, turn)
    if not isRight then add(("the answer %q: %s"):format(text, reason or "is refused by the function of the case")) end
  else
    for _, part in ipairs(wanted.contains) do
      if not text:find(part, 1, true) then add(("expected an answer with %q, got %q"):format(part, text)) end
    end
    if wanted.matches and not text:find(wanted.matches) then
      add(("expected an answer that matches %q, got %q"):format(wanted.matches, text))
    end
  end
end

local function fits(wanted, call)
  return wanted.name == call.name and includesAll(wanted.args or {}, call.args or {})
end

local function showCalls(calls)
  local texts = {}
  for index, call in ipairs(calls) do
    texts[index] = call.name .. (call.args and next(call.args) and " " .. shown.json(call.args) or "")
  end
  return #texts > 0 and table.concat(texts, ", ") or "none"
end

-- Takes the calls that are wanted out of those that were made, each once.
local function areThere(wanted, calls, inOrder)
  local taken, from = {}, 1
  for _, want in ipairs(wanted) do
    local found
    for index = inOrder and from or 1, #calls do
      if not taken[index] and fits(want, calls[index]) then
        found = index
        break
      end
    end
    if not found then return false end
    taken[found], from = true, found + 1
  end
  return true
end

local function checkToolCalls(wanted, order, turn, problems)
  local calls = turn.toolCalls
  local isRight = areThere(wanted, calls, order ~= "anyOrder") and (order ~= "exact" or #calls == #wanted)
  if isRight then return end
  problems[#problems + 1] = ("expected the tool calls %s (%s), got %s"):format(showCalls(wanted), order,
    showCalls(calls))
end

local function checkState(wanted, state, problems)
  for key, value in pairs(wanted) do
    local there = state[key]
    if value == core.removed then value = nil end
    if shown.json(there) ~= shown.json(value) then
      problems[#problems + 1] = ("state %s: expected %s, there is %s"):format(key,
        value == nil and "nothing" or shown.json(value), there == nil and "nothing" or shown.json(there))
    end
  end
end

---@class moonpad.EvaluatedTurn
---@field text string the answer
---@field toolCalls moonpad.FunctionCall[] in the order in which they were made
---@field events moonpad.Event[]
---@field state table<string, any> of the session afterwards

---The function calls in some events, but for the requests for a confirmation.
---@param events moonpad.Event[]
---@return moonpad.FunctionCall[]
function expectations.toolCalls(events)
  local calls = {}
  for _, event in ipairs(events) do
    for _, call in ipairs(not event.partial and event:functionCalls() or {}) do
      if call.name ~= confirmation.REQUEST_NAME then calls[#calls + 1] = call end
    end
  end
  return calls
end

---What is wrong with a turn.
---@param expected moonpad.Expectation that FIELDS have read
---@param turn moonpad.EvaluatedTurn
---@return string[] problems
function expectations.check(expected, turn)
  local problems = {}
  if expected.answer ~= nil then checkAnswer(expected.answer, turn, problems) end
  if expected.toolCalls then checkToolCalls(expected.toolCalls, expected.toolOrder, turn, problems) end
  if expected.state then checkState(core.toTable(expected.state), turn.state, problems) end
  table.sort(problems)
  return problems
end

return expectations
