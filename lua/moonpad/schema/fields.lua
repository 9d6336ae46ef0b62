--- The fields of the tables that users write: definitions and options. Each field is declared
--- once, in one line; from it come the refusal of unknown fields, the check of its value with the
--- message, and the copy of what was given.
---
---     local FIELDS = fields.new {
---       { "name", "string", required = true },
---       { "run", "function", arguments = "args, context" },
---       { "maxLlmCalls", fields.integerFrom(0), default = 500 },
---       { "tools", toolList },
---     }
---     local read = FIELDS:take(definition, "agent")
---
--- What a field takes is one of
--- * types of Lua, separated by "|" ("integer" is one, "function" is all that can be called),
--- * `{ is = function(value) -> boolean, what = "a tool" }`, what it is for the message,
--- * a function(value, where) that raises what it does not like; what it returns, if anything, is
---   taken in place of the value,
--- * nothing: anything goes.
local callable = require "moonpad.util.callable"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local lists = require "moonpad.util.list"
local luaError = require "moonpad.util.lua_error"

local fields = {}

---@class moonpad.FieldTest
---@field is fun(value: any): boolean
---@field what string for messages: "a string"
---@field showsValue boolean? messages show the value, not its type

---@class moonpad.Field
---@field [1] string name
---@field [2] string|moonpad.FieldTest|(fun(value: any, where: string): any)|nil what it takes
---@field required boolean?
---@field default any taken where nothing was given
---@field arguments string? of a function: what it is called with. One that expects a self is refused
---@field isText boolean? a string must be valid UTF-8: it is sent to models, or stored
---@field alias string? a second name, by which ADK knows it; both at once are refused

---@class moonpad.Fields
---@field names string[]
---@field known string[] the names, and the second names
---@field list moonpad.Field[]
local Fields = { __name = "moonpad.fields" }
Fields.__index = Fields

---@param where string
---@param message string
function fields.refuse(where, message)
  core.error("invalid_argument", where .. ": " .. message)
end

---Refuses the module itself, which is what a function of it gets that is called with a colon.
---@param value any its first argument
---@param where string for messages
function fields.refuseModule(value, where)
  if type(value) ~= "table" or lists.kindOf(value) ~= "moonpad" then return end
  fields.refuse(where, "got the module moonpad: call its functions with a dot, not with a colon")
end

---The path of a field: `runner.agent`, but `runner:run: userId`, for that is no field of a method.
---@param where string
---@param name string
---@return string
function fields.at(where, name)
  return where .. (where:find "^[%a.]+:%a+$" and ": " or ".") .. name
end

---Refuses a name that is not known.
---@param where string
---@param name string
---@param known string[]
function fields.refuseName(where, name, known)
  local nearest = core.nearestName(name, known)
  local advice = nearest and ("did you mean %s?"):format(nearest) or ("known are %s"):format(table.concat(known, ", "))
  fields.refuse(fields.at(where, errorText.valid(name)), "unknown field, " .. advice)
end

-- To a shorter name, some other is always near.
local SHORTEST_MISS = 5

---Lets a call of a method that is misspelt say what was meant. Other names stay nil, for code that
---asks whether there is such a method.
---@param methods table what the objects have
---@param where string what they are called in messages
function fields.refuseNearMisses(methods, where)
  local names = {}
  for name, method in next, methods do
    if type(method) == "function" and not name:find "^__" then names[#names + 1] = name end
  end
  setmetatable(methods, {
    __index = function(_, name)
      if type(name) ~= "string" or #name < SHORTEST_MISS or not core.nearestName(name, names) then return nil end
      return fields.refuseName(where, name, names)
    end,
  })
end

---- What a field may take

local function isOfType(name)
  if name == "function" then return callable.is end
  if name == "integer" then return function(value) return math.type(value) == "integer" end end
  return function(value) return type(value) == name end
end

local function withArticle(name)
  return (name:find "^[aeiou]" and "an " or "a ") .. name
end

-- "string|function"
local function ofTypes(text)
  local tests, names = {}, {}
  for name in text:gmatch "%a+" do
    tests[#tests + 1], names[#names + 1] = isOfType(name), withArticle(name)
  end
  local function is(value)
    for _, test in ipairs(tests) do
      if test(value) then return true end
    end
    return false
  end
  return { is = is, what = table.concat(names, " or "), showsValue = text == "integer" }
end

---@param choices string[]
---@return moonpad.FieldTest
function fields.oneOf(choices)
  local known = {}
  for _, choice in ipairs(choices) do known[choice] = true end
  local first = table.concat(choices, '", "', 1, #choices - 1)
  return {
    is = function(value) return known[value] == true end, showsValue = true,
    what = ('"%s" or "%s"'):format(first, choices[#choices]),
  }
end

---@param least integer
---@return moonpad.FieldTest
function fields.integerFrom(least)
  return {
    is = function(value) return math.type(value) == "integer" and value >= least end, showsValue = true,
    what = ("an integer from %d"):format(least),
  }
end

---A string that is not empty.
---@type moonpad.FieldTest
fields.text = {
  is = function(value) return type(value) == "string" and value ~= "" end, what = "a non-empty string",
}

---- Declarations

---@param declared moonpad.Field[]
---@return moonpad.Fields
function fields.new(declared)
  local self = setmetatable({ list = {}, names = {}, known = {} }, Fields)
  for _, field in ipairs(declared) do
    local takes = field[2]
    self.names[#self.names + 1], self.known[#self.known + 1] = field[1], field[1]
    self.known[#self.known + 1] = field.alias
    local own = { takes = type(takes) == "string" and ofTypes(takes) or takes }
    for key, value in pairs(field) do own[key] = value end
    self.list[#self.list + 1] = own
  end
  return self
end

---The declarations of public tables, by the class that describes them to editors and in
---docs/reference.md. A spec compares the two.
---@type table<string, moonpad.Fields>
fields.ofClass = {}

---Says which class describes these fields.
---@param class string
---@return moonpad.Fields self
function Fields:describes(class)
  fields.ofClass[class] = self
  return self
end

---@param more moonpad.Field[]
---@return moonpad.Fields both those that are there, and more
function Fields:with(more)
  local both = table.move(self.list, 1, #self.list, 1, {})
  return fields.new(table.move(more, 1, #more, #both + 1, both))
end

---@param name string
---@return moonpad.Fields others
function Fields:without(name)
  local others = {}
  for _, field in ipairs(self.list) do
    if field[1] ~= name then others[#others + 1] = field end
  end
  return fields.new(others)
end

---- Checks

---What is there in place of what was expected.
---@param value any
---@param showsValue boolean? where its type alone says too little
---@return string
function fields.describe(value, showsValue)
  if value == "" or showsValue and type(value) == "string" then return core.json.encode(errorText.valid(value)) end
  if showsValue and type(value) == "number" then return errorText.show(value) end
  return lists.kindOf(value)
end

---Refuses a function that expects a self where it gets none.
---@param value any
---@param where string for messages
---@param arguments string what it is called with
function fields.checkNoSelf(value, where, arguments)
  if not callable.takesSelf(value) then return end
  fields.refuse(where, ("is called without self, as function(%s); write it with a dot in the place of the colon, "
    .. "without a parameter self"):format(arguments))
end

---Refuses a text that can neither be stored nor sent.
---@param text string
---@param where string for messages
function fields.checkUtf8(text, where)
  local length, bad = utf8.len(text)
  if not length then fields.refuse(where, ("the string is not valid UTF-8 (byte %d)"):format(bad)) end
end

local MAX_NAME_BYTES = 255

---Checks the name of an app, a user or a session as every call of a service does (contract 2).
---@param value any
---@param where string for messages
function fields.serviceName(value, where)
  if not fields.text.is(value) then
    fields.refuse(where, ("expected %s, got %s"):format(fields.text.what, fields.describe(value)))
  end
  fields.checkUtf8(value, where)
  if value:find("\0", 1, true) then fields.refuse(where, "a NUL byte is not allowed") end
  if #value > MAX_NAME_BYTES then
    fields.refuse(where, ("%d bytes, at most %d are allowed"):format(#value, MAX_NAME_BYTES))
  end
end

local MAX_JSON_BYTES = 64 << 20 -- what holds itself many times over has no end

---Refuses what is no JSON, and says where in it.
---@param value any
---@param where string for messages
function fields.checkJson(value, where)
  local ok, err = pcall(core.encodeWithin, value, MAX_JSON_BYTES)
  if ok then return end
  luaError.passOn(err)
  -- The path begins with "value", the encoder's name for what it gets.
  core.error("invalid_argument", (errorText.of(err):gsub("^value", function() return where end)))
end

-- The value of a field, and the name that it was given by.
local function valueOf(field, from, where)
  local name, alias = field[1], field.alias
  local value = from[name]
  local other = alias and from[alias]
  if other == nil then return value, name end
  if value ~= nil then fields.refuse(where, ("%s and %s are two names of one field; give one"):format(name, alias)) end
  return other, alias
end

local function readField(field, from, where)
  local takes = field.takes
  local value, name = valueOf(field, from, where)
  if value == nil and not field.required then return field.default end
  where = fields.at(where, name)
  if type(takes) == "table" and not takes.is(value) then
    fields.refuse(where, ("expected %s, got %s"):format(takes.what, fields.describe(value, takes.showsValue)))
  end
  if field.isText and type(value) == "string" then fields.checkUtf8(value, where) end
  if field.arguments then fields.checkNoSelf(value, where, field.arguments) end
  if type(takes) ~= "function" then return value end
  local taken = takes(value, where)
  if taken == nil then return value end
  return taken
end

---Refuses what is no table, and fields that are not declared.
---@param given any
---@param where string for messages: the function that it was given to
function Fields:checkNames(given, where)
  if type(given) ~= "table" then fields.refuse(where, "expected a table, got " .. lists.kindOf(given)) end
  core.checkFields(given, where, self.known)
end

---Checks the values of all fields.
---@param given table
---@param where string for messages
---@return table read a copy that holds the declared fields
function Fields:read(given, where)
  local read = {}
  for _, field in ipairs(self.list) do
    read[field[1]] = readField(field, given, where)
  end
  return read
end

---Checks the value of one field, say the name that messages about the others need.
---@param given table
---@param name string
---@param where string for messages
---@return any value
function Fields:readOne(given, name, where)
  for _, field in ipairs(self.list) do
    if field[1] == name then return readField(field, given, where) end
  end
end

---Checks names and values.
---@param given any
---@param where string for messages
---@return table read a copy that holds the declared fields
function Fields:take(given, where)
  self:checkNames(given, where)
  return self:read(given, where)
end

return fields
