--- What may stand for a model: a name, a function (request, context), or an object with `generate`.
local callable = require "moonpad.util.callable"
local fields = require "moonpad.schema.fields"
local lists = require "moonpad.util.list"
local methodOf = require "moonpad.util.method_of"

local modelLike = {}

local OBJECT = "a model object needs a method generate(self, request, context)"

-- Names are looked up when a model is first asked: only then is HTTP loaded.
local function resolve()
  return require "moonpad.models.resolve"
end

---Checks what is to be a model.
---@param model any
---@param where string for messages
function modelLike.check(model, where)
  if type(model) == "string" then
    resolve().prepare(model)
  elseif type(model) ~= "table" and not callable.is(model) then
    fields.refuse(where, "expected a function, a model object or the name of a model, got " .. lists.kindOf(model))
  elseif not callable.is(model) and not callable.is(model.generate) then
    fields.refuse(where, OBJECT)
  end
end

-- name -> the model that it stands for. Made when it is first called: only then must there be a
-- key.
local named = {}

local function modelNamed(name)
  named[name] = named[name] or resolve().model(name)
  return named[name]
end

---@param model moonpad.ModelLike
---@return fun(request: moonpad.Request, context: moonpad.Context?): any ask
function modelLike.asFunction(model)
  if type(model) == "string" then model = modelNamed(model) end
  if callable.is(model) then return model --[[@as function]] end
  return function(request, context) return model:generate(request, context) end
end

---What requests call it: what the provider does, "llama-3.3-70b" for "groq/llama-3.3-70b".
---@param model moonpad.ModelLike?
---@return string? name
function modelLike.nameOf(model)
  if type(model) == "string" then return resolve().find(model).model end
  return type(model) == "table" and type(model.name) == "string" and model.name or nil
end

---Can its answers be held to a schema? Of a function nobody knows, and beside tools many models
---cannot.
---@param model moonpad.ModelLike?
---@param schema table
---@param hasTools boolean
---@return boolean
function modelLike.takesSchema(model, schema, hasTools)
  if type(model) == "string" then return resolve().takesSchema(model, schema, hasTools) end
  local ask = methodOf(model, "takesSchema")
  if ask then return ask(model, schema, hasTools) end
  return not hasTools
end

return modelLike
