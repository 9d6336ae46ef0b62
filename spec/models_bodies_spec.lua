-- What every body of a request must be for its provider to take it, as far as types do not say it
-- (they are looked at in spec/peers/sdk_types_spec.lua): each call is answered where it has to be,
-- and nothing is empty.
local bodies = require "spec.support.bodies"
local moonpad = require "moonpad"

---- Calls and the answers to them

---@class spec.Calls
---@field waiting table<string, true>
---@field problems string[]
local Calls = {}
Calls.__index = Calls

local function newCalls(problems)
  return setmetatable({ waiting = {}, problems = problems }, Calls)
end

function Calls:tell(problem, ...)
  self.problems[#self.problems + 1] = problem:format(...)
end

function Calls:call(id)
  if self.waiting[id] then self:tell("two calls have the id %s", id) end
  self.waiting[id] = true
end

function Calls:answer(id)
  if not self.waiting[id] then self:tell("no call %s is waiting", id) end
  self.waiting[id] = nil
end

function Calls:mustBeOver(where)
  local id = next(self.waiting)
  if id then self:tell("the call %s is not answered %s", id, where) end
  self.waiting = {}
end

local function isBlank(text)
  return type(text) ~= "string" or not text:find "%S"
end

local function isEmpty(content)
  return content == nil or content == moonpad.null or #content == 0
end

---- The rules of each API

local rules = {}

function rules.chat(body, calls, server)
  for index, message in ipairs(body.messages) do
    if message.role == "tool" then
      calls:answer(message.tool_call_id)
    else
      calls:mustBeOver("before message " .. index)
    end
    for _, call in ipairs(message.tool_calls or {}) do
      calls:call(call.id)
      if server:find "mistral" and not call.id:find "^%w%w%w%w%w%w%w%w%w$" then calls:tell("the id %s", call.id) end
    end
    if isEmpty(message.content) and not message.tool_calls then calls:tell("message %d is empty", index) end
  end
  calls:mustBeOver "at the end"
  local last = body.messages[#body.messages]
  if not last then return calls:tell "no messages" end
  if last.role ~= "user" and last.role ~= "tool" then calls:tell("the last message is from the %s", last.role) end
end

local function checkBlock(block, calls)
  if block.type == "text" and isBlank(block.text) then calls:tell "a blank text" end
  if block.type == "thinking" and isBlank(block.signature) then calls:tell "thinking without a signature" end
  if block.type == "tool_use" then calls:call(block.id) end
  if block.type == "tool_result" then
    calls:answer(block.tool_use_id)
    for _, inner in ipairs(type(block.content) == "table" and block.content or {}) do checkBlock(inner, calls) end
  end
end

local function checkSettings(body, calls)
  local thinking = body.thinking and body.thinking.type == "enabled" and body.thinking
  local choice = body.tool_choice and body.tool_choice.type
  if choice and not body.tools then calls:tell "a choice without tools" end
  if not thinking then return end
  if thinking.budget_tokens >= body.max_tokens then calls:tell "no tokens are left for the answer" end
  if choice == "any" or choice == "tool" then calls:tell "a forced choice beside thinking" end
  if body.top_k or body.temperature and body.temperature ~= 1 then calls:tell "sampling beside thinking" end
end

function rules.anthropic(body, calls)
  for index, message in ipairs(body.messages) do
    local previous = body.messages[index - 1]
    if (previous and previous.role or "assistant") == message.role then calls:tell("two of the %s", message.role) end
    if isEmpty(message.content) then calls:tell("message %d is empty", index) end
    local isBehind = false
    for _, block in ipairs(message.content) do
      checkBlock(block, calls)
      if block.type == "tool_result" and isBehind then calls:tell "a result behind something else" end
      isBehind = isBehind or block.type ~= "tool_result"
    end
    if message.role == "user" then calls:mustBeOver("in message " .. index) end
  end
  local last = body.messages[#body.messages]
  if not last or last.role ~= "user" then calls:tell "the last message is not from the user" end
  checkSettings(body, calls)
end

local BESIDE <const> = { thought = true, thoughtSignature = true }

local function checkPart(part, calls)
  local count = 0
  for name in pairs(part) do count = count + (BESIDE[name] and 0 or 1) end
  if count ~= 1 then calls:tell("a part of %d things", count) end
  if part.text == "" and not part.thoughtSignature then calls:tell "an empty text" end
end

local function count(content, name)
  local found = 0
  for _, part in ipairs(content and content.parts or {}) do found = found + (part[name] and 1 or 0) end
  return found
end

function rules.gemini(body, calls)
  local contents = body.contents
  for index, content in ipairs(contents) do
    if isEmpty(content.parts) then calls:tell("content %d is empty", index) end
    for _, part in ipairs(content.parts) do checkPart(part, calls) end
    local called, answered = count(content, "functionCall"), count(contents[index + 1], "functionResponse")
    if called ~= answered then calls:tell("%d calls have %d answers", called, answered) end
    local isFirst = index == 1 or contents[index - 1].role ~= "user"
    if called > 0 and isFirst then calls:tell "a call that follows nobody" end
  end
  if isEmpty(contents) or contents[#contents].role ~= "user" then calls:tell "the last content is not from the user" end
end

function rules.responses(body, calls)
  for index, item in ipairs(body.input) do
    local following = body.input[index + 1]
    if item.type == "function_call" then calls:call(item.call_id) end
    if item.type == "function_call_output" then calls:answer(item.call_id) end
    if item.type == "message" and isEmpty(item.content) then calls:tell("item %d is empty", index) end
    if item.type == "reasoning" and (not following or following.role == "user") then
      calls:tell "reasoning that has led to nothing"
    end
  end
  calls:mustBeOver "at the end"
  local last = body.input[#body.input]
  if not last then return calls:tell "no input" end
  if last.role ~= "user" and last.type ~= "function_call_output" then calls:tell("the last item is a %s", last.type) end
end

local function problemsOf(api, body)
  local problems = {}
  rules[api](moonpad.json.decode(body.text), newCalls(problems), body.server)
  return problems
end

describe("bodies of requests", function()
  for _, api in ipairs { "chat", "responses", "anthropic", "gemini" } do
    it("are what the provider takes: " .. api, function()
      local wrong = {}
      for _, body in ipairs((bodies.of(api))) do
        local problems = problemsOf(api, body)
        if #problems > 0 then
          wrong[#wrong + 1] = ("%s: %s\n  %s"):format(body.name, table.concat(problems, "; "), body.text)
        end
      end
      assert(#wrong == 0, table.concat(wrong, "\n"))
    end)
  end

  it("are seen as wrong where they are", function()
    local wrong = {
      chat = { messages = { { role = "assistant", tool_calls = { { id = "a" } } }, { role = "user", content = "x" } } },
      responses = { input = { { type = "function_call_output", call_id = "a" } } },
      anthropic = { max_tokens = 1, messages = { { role = "user", content = { { type = "text", text = " " } } } } },
      gemini = { contents = { { role = "user", parts = { { text = "" } } } } },
    }
    for api, body in pairs(wrong) do
      assert.are.equal(1, #problemsOf(api, { text = moonpad.json.encode(body), server = "" }), api)
    end
  end)
end)
