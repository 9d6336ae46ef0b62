-- What providers have answered (spec/fixtures/recorded/README.md), read by the adapters: what it
-- means, however the stream is cut, where it ends early, and what goes back to whom.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local recordings = require "spec.support.recordings"
local sse = require "moonpad.models.sse"

local ELSEWHERE <const> = "https://models.example/v1"

-- Of the places where an event is cut for the parser of streams, where a stream is cut for an
-- adapter, and where it ends early.
local PLACES <const>, CUTS <const>, ENDS <const> = checks.scaled(150), checks.scaled(10), checks.scaled(40)

---- What an answer says

-- A count of none is as good as no count.
local function checkUsage(expected, given)
  for name, count in pairs(expected or {}) do
    assert.are.equal(count, given and given[name] or 0, name)
  end
end

-- Ids and arguments as they came.
local function checkCalls(expected, calls)
  assert.are.equal(#expected, #calls, "number of calls")
  for index, call in ipairs(expected) do
    assert.are.equal(call.name, calls[index].name)
    checks.identical(call.args, calls[index].args)
    if call.id then assert.are.equal(call.id, calls[index].id) end
  end
end

-- What was shown on the way is what the answer is in the end.
local function checkShown(outcome, text, thoughts)
  local shownText, shownThoughts = recordings.split(outcome.shown)
  assert.are.equal(text, shownText)
  assert.are.equal(thoughts, shownThoughts)
end

local function checkAnswer(recording, outcome)
  if outcome.error then error(outcome.error, 0) end
  local expected, response = recording.expected, outcome.response
  local text, thoughts, calls = recordings.split(recordings.parts(outcome))
  assert.are.equal(expected.text, text)
  assert.are.equal(expected.thoughts or "", thoughts)
  checkCalls(expected.calls or {}, calls)
  assert.are.equal(expected.finishReason, response.finishReason)
  assert.are.equal(expected.errorCode, response.errorCode)
  checkUsage(expected.usage, response.usageMetadata)
  if recording.isStream then checkShown(outcome, text, thoughts) end
end

local function checkError(recording, outcome)
  local problem = outcome.error
  assert(problem, "expected an error")
  assert.are.equal("model", problem.code)
  assert(problem.message:find(recording.expected.error, 1, true), problem.message)
  if recording.expected.status then assert.are.equal(recording.expected.status, problem.status) end
end

---- Cuts

local function eventsOf(pieces)
  local stream, list = sse.new(), {}
  for _, piece in ipairs(pieces) do
    for _, event in ipairs(stream:feed(piece)) do list[#list + 1] = event end
  end
  return list
end

local function cut(text, place)
  return { text:sub(1, place), text:sub(place + 1) }
end

local function bytesOf(text)
  local list = {}
  for index = 1, #text do list[index] = text:sub(index, index) end
  return list
end

-- The text of each event.
local function chunks(text)
  local list, position = {}, 1
  while position <= #text do
    local _, stop = text:find("\r?\n\r?\n", position)
    list[#list + 1] = text:sub(position, stop)
    position = (stop or #text) + 1
  end
  return list
end

local function isSame(expected, events)
  if #expected ~= #events then return false end
  for index, event in ipairs(expected) do
    if event.data ~= events[index].data or event.type ~= events[index].type then return false end
  end
  return true
end

-- Each event cut at each of its bytes (a long one at as many places), and the whole stream into
-- bytes: events do not depend on those before them.
local function checkEvents(body)
  for _, chunk in ipairs(chunks(body)) do
    local events = eventsOf { chunk }
    for place = 1, #chunk - 1, 1 + #chunk // PLACES do
      assert(isSame(events, eventsOf(cut(chunk, place))), chunk)
    end
  end
  assert(isSame(eventsOf { body }, eventsOf(bytesOf(body))))
end

local function outcomeText(outcome)
  local problem = outcome.error
  return moonpad.json.encode {
    shown = outcome.shown, response = outcome.response, error = problem and tostring(problem) or nil,
  }
end

---- Ends

-- Behind each event of a stream, and in the middle of each.
local function ends(body)
  local list, position = {}, 0
  for _, chunk in ipairs(chunks(body)) do
    list[#list + 1], list[#list + 2] = position + #chunk // 2, position + #chunk
    position = position + #chunk
  end
  return list
end

-- The last one, and others before it.
local function some(list, count)
  local step, chosen = math.max(1, #list // count), {}
  for index = #list, 1, -step do chosen[#chosen + 1] = list[index] end
  return chosen
end

-- What is left is a beginning of the whole: no other text, no call that was not made, or with other
-- arguments.
local function checkBeginning(whole, part)
  if part.error then return assert.are.equal("model", part.error.code) end
  local text, thoughts, calls = recordings.split(recordings.parts(whole))
  local textNow, thoughtsNow, callsNow = recordings.split(recordings.parts(part))
  assert.are.equal(text:sub(1, #textNow), textNow)
  assert.are.equal(thoughts:sub(1, #thoughtsNow), thoughtsNow)
  for index, call in ipairs(callsNow) do
    assert(calls[index], "a call that was not made")
    assert.are.equal(calls[index].name, call.name)
    checks.identical(calls[index].args, call.args)
  end
end

---- The next request

local function stringsIn(value, found)
  found = found or {}
  if type(value) == "string" then
    found[value] = true
  elseif type(value) == "table" then
    for _, item in pairs(value) do stringsIn(item, found) end
  end
  return found
end

-- Ids of calls and of answers to them, in the order in which they stand.
local idsIn = {}

function idsIn.chat(body)
  local calls, answers = {}, {}
  for _, message in ipairs(body.messages) do
    for _, call in ipairs(message.tool_calls or {}) do calls[#calls + 1] = call.id end
    answers[#answers + 1] = message.tool_call_id
  end
  return calls, answers
end

function idsIn.anthropic(body)
  local calls, answers = {}, {}
  for _, message in ipairs(body.messages) do
    for _, block in ipairs(message.content) do
      if block.type == "tool_use" then calls[#calls + 1] = block.id end
      answers[#answers + 1] = block.tool_use_id and block.type == "tool_result" and block.tool_use_id or nil
    end
  end
  return calls, answers
end

function idsIn.gemini(body)
  local calls, answers = {}, {}
  for _, content in ipairs(body.contents) do
    for _, part in ipairs(content.parts) do
      local call, answer = part.functionCall, part.functionResponse
      if call then calls[#calls + 1] = call.id or call.name end
      if answer then answers[#answers + 1] = answer.id or answer.name end
    end
  end
  return calls, answers
end

function idsIn.responses(body)
  local calls, answers = {}, {}
  for _, item in ipairs(body.input) do
    if item.type == "function_call" then calls[#calls + 1] = item.call_id end
    if item.type == "function_call_output" then answers[#answers + 1] = item.call_id end
  end
  return calls, answers
end

local function checkIds(recording, body)
  local calls, answers = idsIn[recording.api](body)
  assert.are.equal(#(recording.expected.calls or {}), #calls, "number of calls")
  assert.are.same(calls, answers)
end

---- What the model has said, as it came and as it goes back

-- A field that is null is not there. The value is changed.
local function withoutNulls(value)
  for key, item in pairs(type(value) == "table" and value or {}) do
    if item == moonpad.null then value[key] = nil else withoutNulls(item) end
  end
  return value
end

local said = {}

-- Anthropic refuses blank texts; that a call is a direct one need not be said.
function said.anthropic(answer)
  local list = {}
  for _, block in ipairs(answer.content) do
    if block.type == "tool_use" and block.caller and block.caller.type == "direct" then block.caller = nil end
    if block.type ~= "text" or block.text:find "%S" then list[#list + 1] = block end
  end
  return list
end

-- To Gemini a thought is of no use without its signature.
function said.gemini(answer)
  local list = {}
  for _, part in ipairs(answer.candidates[1].content.parts) do
    if not part.thought or part.thoughtSignature then list[#list + 1] = part end
  end
  return list
end

local saidAgain = {}

function saidAgain.anthropic(body)
  return body.messages[2].content
end

function saidAgain.gemini(body)
  return body.contents[2].parts
end

local function nextRequest(recording, outcome, server)
  return recordings.ask(recording, nil, recordings.continued(outcome), server).request
end

---- The checks

local TITLE <const> = {
  meaning = "means what it is to mean", cuts = "is the same however it is cut",
  ends = "is an error or less where it ends early",
  echo = "goes back to its server, and what is for it alone to no other",
  whole = "goes back as it came",
}

local checkOf = {}

checkOf.meaning = function(recording)
  local check = recording.expected.error and checkError or checkAnswer
  check(recording, recordings.ask(recording))
end

checkOf.cuts = function(recording)
  local body = recording.body
  checkEvents(body)
  local whole = outcomeText(recordings.ask(recording))
  for place = 1, #body - 1, #body // CUTS + 1 do
    assert.are.equal(whole, outcomeText(recordings.ask(recording, cut(body, place))))
  end
  assert.are.equal(whole, outcomeText(recordings.ask(recording, bytesOf(body))))
end

checkOf.ends = function(recording)
  local whole = recordings.ask(recording)
  for _, stop in ipairs(some(ends(recording.body), ENDS)) do
    checkBeginning(whole, recordings.ask(recording, { recording.body:sub(1, stop) }))
  end
end

checkOf.echo = function(recording)
  local outcome = recordings.ask(recording)
  local body = nextRequest(recording, outcome)
  local elsewhere = nextRequest(recording, outcome, ELSEWHERE)
  local sent, sentElsewhere = stringsIn(body), stringsIn(elsewhere)
  for _, text in ipairs(recording.expected.echo or {}) do
    assert(sent[text], "does not go back: " .. text)
    assert(not sentElsewhere[text], "goes elsewhere: " .. text)
  end
  checkIds(recording, body)
  checkIds(recording, elsewhere)
end

function checkOf.whole(recording)
  local body = nextRequest(recording, recordings.ask(recording))
  local answer = moonpad.json.decode(recording.body)
  checks.identical(withoutNulls(said[recording.api](answer)), withoutNulls(saidAgain[recording.api](body)))
end

local function kindsFor(recording)
  local expected = recording.expected
  local kinds, isAnswer = { "meaning" }, not expected.error
  if recording.isStream then kinds[#kinds + 1] = "cuts" end
  if recording.isStream and isAnswer then kinds[#kinds + 1] = "ends" end
  if isAnswer and not expected.errorCode then
    kinds[#kinds + 1] = "echo"
    kinds[#kinds + 1] = not recording.isStream and said[recording.api] and "whole" or nil
  end
  return kinds
end

describe("recorded traffic", function()
  local all = recordings.all()

  it("is there, of each API", function()
    local counts = {}
    for _, recording in ipairs(all) do counts[recording.api] = (counts[recording.api] or 0) + 1 end
    for _, api in ipairs { "chat", "anthropic", "gemini", "responses" } do
      assert(counts[api] and counts[api] > 15, api)
    end
  end)

  for _, recording in ipairs(checks.chosen(all)) do
    local name = recording.api .. "/" .. recording.name
    for _, kind in ipairs(kindsFor(recording)) do
      it(name .. " " .. TITLE[kind], function() checkOf[kind](recording) end)
    end
  end
end)
