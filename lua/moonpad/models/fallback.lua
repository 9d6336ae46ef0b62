--- Models that stand in for one another: where one cannot answer, the next is asked.
local callable = require "moonpad.util.callable"
local core = require "moonpad.core"
local fields = require "moonpad.schema.fields"
local lists = require "moonpad.util.list"
local llmResponses = require "moonpad.flow.llm_response"
local modelLike = require "moonpad.models.model_like"

local fallback = {}

---@class moonpad.FallbackModel: moonpad.Model
---@field package models moonpad.Model[]
local Fallback = { __name = "moonpad.model" }
Fallback.__index = Fallback

---@param models moonpad.ModelLike[] names, functions or objects, the first choice first
---@return moonpad.Model
function fallback.new(models)
  local where = "models.fallback"
  local list = lists.of(models, where, "models")
  if #list == 0 then fields.refuse(where, "expected at least one model") end
  for index, value in ipairs(list) do modelLike.check(value, ("%s[%d]"):format(where, index)) end
  return setmetatable({ models = list }, Fallback)
end

-- Each model is called what it is called itself.
local function checkName(request)
  if request.model == nil then return end
  fields.refuse("request.model", "models.fallback asks several models, and cannot call them all by one name")
end

-- A whole answer, which may be a text.
local function single(answer)
  return function()
    local once = answer
    answer = nil
    return once and llmResponses.normalize(once, "the model's answer")
  end
end

---@class moonpad.FallbackAttempt
---@field next fun(): any gives one chunk after the other
---@field first any the first chunk, which has come already
---@field closing any to be closed at the end

-- Asks one model until its answer begins.
local function begin(generate, request, context)
  local answer, invariant, control, closing = generate(request, context)
  if answer == nil or type(answer) == "table" and next(answer) == nil then
    error(invariant or core.newError("model", "the model returned " .. (answer and "an empty table" or "nothing")), 0)
  end
  local function nextChunk()
    local chunk, reason = answer(invariant, control)
    if chunk == nil and reason ~= nil then error(reason, 0) end
    control = chunk
    return chunk
  end
  if not callable.is(answer) then nextChunk = single(answer) end
  local ok, first = pcall(nextChunk)
  if ok then return { next = nextChunk, first = first, closing = closing } end
  local _ <close> = closing
  return error(first, 0)
end

-- What another model may well be able to do. A run that has been cancelled, or a store that has
-- failed, are no reasons to ask one.
local REASONS = { model = true, invalid_argument = true, limit = true, unsupported = true }

local function isReason(err)
  local code = (type(err) == "table" or core.isError(err)) and err.code
  return not code or REASONS[code] == true
end

local function fieldOf(err, name)
  return (core.isError(err) or type(err) == "table") and err[name] or nil
end

-- Adds what a model has failed of; one that stands for several tells of each.
local function addFailure(failures, err)
  local list = fieldOf(err, "failedModels")
  if type(list) == "table" then return table.move(list, 1, #list, #failures + 1, failures) end
  local message = fieldOf(err, "message")
  failures[#failures + 1] = type(message) == "string" and message or tostring(err)
end

-- None of them has answered. What is known beside the words is of the last one.
local function raiseAll(failures, err)
  if #failures == 1 then error(err, 0) end
  local known = { failedModels = core.array(failures) }
  for _, name in ipairs { "provider", "model", "status", "kind", "body" } do known[name] = fieldOf(err, name) end
  core.error("model", "no model has answered: " .. table.concat(failures, "; "), known)
end

local function noteFailures(response, failures)
  if #failures == 0 or type(response) ~= "table" or response.partial then return response end
  local noted = {}
  for name, value in pairs(response) do noted[name] = value end
  noted.customMetadata = {}
  for name, value in pairs(response.customMetadata or {}) do noted.customMetadata[name] = value end
  local list = table.move(failures, 1, #failures, 1, {})
  -- One that stands for several has its own.
  local inner = noted.customMetadata.failedModels or {}
  noted.customMetadata.failedModels = core.array(table.move(inner, 1, #inner, #list + 1, list))
  return noted
end

local function responses(attempt, failures)
  local hasBegun = false
  return function()
    if not hasBegun then
      hasBegun = true
      return noteFailures(attempt.first, failures)
    end
    return noteFailures(attempt.next(), failures)
  end
end

---Asks the first model; while one fails before its answer has begun, the next. What the others
---failed of stands in `customMetadata.failedModels`.
---@param request moonpad.Request
---@param context moonpad.Context?
function Fallback:generate(request, context)
  if getmetatable(self) ~= Fallback then
    core.error("invalid_argument", "model:generate(request): call it with a colon, not with a dot")
  end
  checkName(request)
  local failures = {}
  for index = 1, #self.models do
    local ok, attempt = pcall(function()
      return begin(modelLike.asFunction(self.models[index]), request, context)
    end)
    if ok then return responses(attempt, failures), nil, nil, attempt.closing end
    if not isReason(attempt) then error(attempt, 0) end
    addFailure(failures, attempt)
    if index == #self.models then raiseAll(failures, attempt) end
  end
end

---Answers are held to a schema where each of the models can be.
function Fallback:takesSchema(schema, hasTools)
  for _, model in ipairs(self.models) do
    if not modelLike.takesSchema(model, schema, hasTools) then return false end
  end
  return true
end

function Fallback:__tostring()
  local names = {}
  for index, model in ipairs(self.models) do names[index] = tostring(model) end
  return "moonpad.models.fallback " .. table.concat(names, ", ")
end

return fallback
