--- A model that follows a script: for tests, examples, and whoever wants to see a run without
--- a network.
local callable = require "moonpad.util.callable"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local lists = require "moonpad.util.list"

local scripted = {}

---@class moonpad.ScriptedModel: moonpad.Model
---@field requests table[] copies of the requests that it has got so far
---@field steps moonpad.ScriptStep[]
---@field failure any the first error about what it was asked
---@field package raise fun(code: moonpad.ErrorCode, message: string)
---@field package pass fun(err: any)
local Scripted = { __name = "moonpad.models.scripted" }
Scripted.__index = Scripted

---What a script answers: a string, a part, a response, or a function that gives one.
---@alias moonpad.ScriptedReply moonpad.ResponseLike|moonpad.ModelFunction

---@class moonpad.ScriptStep
---@field reply moonpad.ScriptedReply
---@field check fun(request: table, number: integer)? raises when the request is another than expected

local function checkSelf(self, call)
  if getmetatable(self) == Scripted then return end
  core.error("invalid_argument", ("model:%s: call it with a colon, not with a dot"):format(call))
end

-- The step that a call is about, after checking what is asked.
local function stepFor(self, request, number)
  local step = self.steps[number]
  if step == nil then
    self.raise("model", ("%s, call %d: the script ends after step %d"):format(self.name, number, #self.steps))
  end
  if step.check then step.check(request, number) end
  return step
end

---Gives the next answer of the script, after checking what it is asked.
function Scripted:generate(request, context)
  checkSelf(self, "generate(request)")
  if type(request) ~= "table" then
    core.error("invalid_argument", "model:generate(request): expected a request (a table), got " .. type(request))
  end
  self.requests[#self.requests + 1] = copy(request)
  local ok, step = pcall(stepFor, self, request, #self.requests)
  if not ok then
    if self.failure == nil then self.failure = step end
    error(step, 0)
  end
  if callable.is(step.reply) then return step.reply(request, context) end
  return copy(step.reply)
end

---Raises when steps of the script have not been asked for, or not as they expect: an error that a
---callback answers for, or that a calling agent's model is told, would be forgotten otherwise.
function Scripted:assertDone()
  checkSelf(self, "assertDone()")
  if self.failure ~= nil then self.pass(self.failure) end
  if #self.requests < #self.steps then
    self.raise("model", ("%s: %d of %d steps were asked for"):format(self.name, #self.requests, #self.steps))
  end
end

local function passOn(err) error(err, 0) end

---@param name string
---@param steps moonpad.ScriptStep[]
---@param raise (fun(code: moonpad.ErrorCode, message: string))? tells that it was asked too often, or too seldom
---@param pass fun(err: any)? raises an error once more
---@return moonpad.ScriptedModel
function scripted.ofSteps(name, steps, raise, pass)
  return setmetatable({
    name = name, steps = steps, requests = {}, raise = raise or core.error, pass = pass or passOn,
  }, Scripted)
end

---Makes a model that gives one answer after the other: strings, responses, or functions of
---`(request, context)`.
---@param answers moonpad.ScriptedReply[]
---@return moonpad.ScriptedModel
function scripted.new(answers)
  if answers == nil then core.error("invalid_argument", "models.scripted: expected a list of answers, got nothing") end
  local steps = lists.of(answers, "models.scripted", "answers")
  for number, answer in ipairs(steps) do steps[number] = { reply = answer } end
  return scripted.ofSteps("scripted", steps)
end

return scripted
