--- A model that follows a script: for tests, examples, and whoever wants to see a run without
--- a network.
local callable = require "moonpad.util.callable"
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local lists = require "moonpad.util.list"

local scripted = {}

---@class moonpad.ScriptedModel: moonpad.Model
---@field requests table[] copies of the requests that it has got so far
local Scripted = { __name = "moonpad.models.scripted" }
Scripted.__index = Scripted

---Gives the next answer of the script.
function Scripted:generate(request, context)
  if getmetatable(self) ~= Scripted then
    core.error("invalid_argument", "model:generate(request): call it with a colon, not with a dot")
  end
  self.requests[#self.requests + 1] = copy(request)
  local answer = self.answers[#self.requests]
  if answer == nil then
    core.error("model", ("the script has %d answers, this is call %d"):format(#self.answers, #self.requests))
  end
  if callable.is(answer) then return answer(request, context) end
  return copy(answer)
end

---Makes a model that gives one answer after the other: strings, responses, or functions of
---`(request, context)`.
---@param answers table
---@return moonpad.ScriptedModel
function scripted.new(answers)
  if answers == nil then core.error("invalid_argument", "models.scripted: expected a list of answers, got nothing") end
  local list = lists.of(answers, "models.scripted", "answers")
  return setmetatable({ name = "scripted", answers = list, requests = {} }, Scripted)
end

return scripted
