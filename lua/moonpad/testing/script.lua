--- A scripted model that checks what it is asked before it answers.
local callable = require "moonpad.util.callable"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local events = require "moonpad.events.event"
local failures = require "moonpad.testing.failure"
local includesAll = require "moonpad.testing.includes_all"
local lists = require "moonpad.util.list"
local scripted = require "moonpad.models.scripted"

local script = {}

---What a request must hold.
---@class moonpad.TestExpectation
---@field text string? in its last message
---@field instruction string? in its system instruction
---@field tools string[]? exactly these tools are offered
---@field functionResponse table<string, any>? answers of tools in its last message, or a part of each, by name

---@class moonpad.TestStep
---@field expect moonpad.TestExpectation|fun(request: moonpad.Request)|nil a function raises what it does not like
---@field reply moonpad.ScriptedReply

local function fail(step, message, place)
  failures.raise("model", ("scriptedModel, call %d: %s"):format(step, message), { place = place })
end

-- Callbacks may have made anything of a request.
local function listIn(value)
  return type(value) == "table" and value or {}
end

local function lastParts(request)
  local contents = listIn(request.contents)
  return events.parts { content = contents[#contents] }
end

local function lastText(request)
  return events.text { content = { parts = lastParts(request) } }
end

local function includes(text, wanted)
  return type(text) == "string" and text:find(wanted, 1, true) ~= nil
end

local function responses(request)
  local found = {}
  for _, part in ipairs(lastParts(request)) do
    local response = part.functionResponse
    if type(response) == "table" and response.name ~= nil then found[response.name] = response.response end
  end
  return found
end

local function toolNames(request)
  local names = {}
  for _, tool in ipairs(listIn(request.tools)) do names[#names + 1] = errorText.show(listIn(tool).name) end
  table.sort(names)
  return names
end

-- Each answers nil, or what is wrong.
local EXPECTATIONS = {
  -- The last message of the conversation contains this text.
  text = function(request, wanted)
    local text = lastText(request)
    if not includes(text, wanted) then return ("expected to be asked %q, was asked %q"):format(wanted, text) end
  end,
  -- The system instruction contains this text.
  instruction = function(request, wanted)
    if not includes(request.systemInstruction, wanted) then
      return ("expected the instruction to say %q, it says %q"):format(wanted,
        errorText.show(request.systemInstruction or ""))
    end
  end,
  -- The last message holds these answers of tools: { name = a part of the response }.
  functionResponse = function(request, wanted)
    local found = responses(request)
    if not includesAll(wanted, found) then
      return ("expected the answers of tools %s, got %s"):format(core.json.encode(wanted), core.json.encode(found))
    end
  end,
  -- Exactly these tools are offered.
  tools = function(request, wanted)
    local names, expected = toolNames(request), copy(wanted)
    table.sort(expected)
    if table.concat(names, ",") ~= table.concat(expected, ",") then
      return ("expected the tools [%s], got [%s]"):format(table.concat(expected, ", "), table.concat(names, ", "))
    end
  end,
}
local EXPECTATION_NAMES = {}
for name in pairs(EXPECTATIONS) do EXPECTATION_NAMES[#EXPECTATION_NAMES + 1] = name end

local function checkExpectations(expect, where)
  if callable.is(expect) or expect == nil then return end
  if type(expect) ~= "table" then
    core.error("invalid_argument", ("%s: expected a table or a function, got %s"):format(where, type(expect)))
  end
  core.checkFields(expect, where, EXPECTATION_NAMES)
  for _, name in ipairs { "text", "instruction" } do
    if expect[name] ~= nil and type(expect[name]) ~= "string" then
      core.error("invalid_argument", ("%s.%s: expected a string, got %s"):format(where, name, type(expect[name])))
    end
  end
  for index, name in ipairs(lists.of(expect.tools, where .. ".tools", "names")) do
    if type(name) ~= "string" then
      core.error("invalid_argument", ("%s.tools[%d]: expected a name, got %s"):format(where, index, type(name)))
    end
  end
end

local function check(expect, request, step, place)
  if callable.is(expect) then return expect(request) end
  for name, wanted in pairs(expect) do
    local problem = EXPECTATIONS[name](request, wanted)
    if problem then fail(step, problem, place) end
  end
end

-- What has neither `expect` nor `reply` is a reply.
local function toStep(given, number, place)
  if type(given) ~= "table" or given.expect == nil and given.reply == nil then return { reply = given } end
  local where = ("scriptedModel step %d"):format(number)
  core.checkFields(given, where, { "expect", "reply" })
  checkExpectations(given.expect, where .. ".expect")
  if given.reply == nil then core.error("invalid_argument", where .. ": reply is missing") end
  local expect = given.expect
  local function checkRequest(request, call) check(expect, request, call, place) end
  return { reply = given.reply, check = expect ~= nil and checkRequest or nil }
end

---Makes a model that gives one answer after the other and checks what it is asked.
---@param steps (moonpad.TestStep|moonpad.ScriptedReply)[]
---@return moonpad.ScriptedModel
function script.new(steps)
  local where = "testing.scriptedModel"
  if steps == nil then core.error("invalid_argument", where .. ": expected a list of steps, got nothing") end
  local list = lists.of(steps, where, "steps")
  -- A model is asked in the coroutine of a run, where nothing tells of the test.
  local place = failures.place()
  for number, given in ipairs(list) do list[number] = toStep(given, number, place) end
  local function raise(code, message) failures.raise(code, message, { place = place }) end
  return scripted.ofSteps("scriptedModel", list, raise, failures.pass)
end

return script
