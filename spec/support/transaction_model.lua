--- A small model of the transactions of tool calls (contract 1.4 points 2 and 3), in plain tables:
--- what each of them sees, which places it has written, and what becomes of that when it ends. Of
--- lists without tables in them.
local copyOf = require "moonpad.util.copy"
local moonpad = require "moonpad"

local SEPARATOR <const> = "\0"

---- Places: a path as one text, each step after a separator

local function below(path, step)
  return path .. SEPARATOR .. tostring(step)
end

local function isAtOrBelow(path, above)
  return path:sub(1, #above) == above and (#path == #above or path:sub(#above + 1, #above + 1) == SEPARATOR)
end

local function isList(value)
  return type(value) == "table" and (value[1] ~= nil or getmetatable(value) ~= nil)
end

---- Transactions

local Transaction = {}
Transaction.__index = Transaction

-- What was done at a place: "replaced" (set or removed), "made" (a table put where there was none),
-- "extended" (items at its end), "added" (increments or appends, of a whole key).
local function edit(kind, at, steps, value)
  return { kind = kind, at = at, steps = steps, value = value }
end

local function stepsTo(steps, name)
  local longer = { table.unpack(steps) }
  longer[#longer + 1] = name
  return longer
end

-- A table that was put where there was none: itself, and what is in it.
local function putWhole(edits, at, steps, value)
  if isList(value) then
    edits[#edits + 1] = edit("made", at, steps, moonpad.array {})
    edits[#edits + 1] = edit("extended", at, steps, value)
    return
  end
  edits[#edits + 1] = edit("made", at, steps, {})
  for name, item in pairs(value) do
    local place, inner = below(at, name), stepsTo(steps, name)
    if type(item) == "table" then
      putWhole(edits, place, inner, item)
    else
      edits[#edits + 1] = edit("replaced", place, inner, item)
    end
  end
end

-- What was done at a place, by what it was and what it is, and by where something was assigned.
function Transaction:collect(edits, at, steps, before, after)
  -- A key that is removed is written even where there was none; a place below one is not.
  local isAssigned = self.assigned[at] and (#steps == 0 or before ~= nil or after ~= nil)
  if isAssigned and before == nil and type(after) == "table" then return putWhole(edits, at, steps, after) end
  if isAssigned or self.cut[at] then
    edits[#edits + 1] = edit("replaced", at, steps, after)
  elseif type(after) == "table" and type(before) == "table" then
    self:collectWithin(edits, at, steps, before, after)
  end
end

function Transaction:collectWithin(edits, at, steps, before, after)
  local names = {}
  for name in pairs(before) do names[name] = true end
  if isList(before) or isList(after) then
    if #after > #before then
      edits[#edits + 1] = edit("extended", at, steps, table.move(after, #before + 1, #after, 1, {}))
    end
  else
    for name in pairs(after) do names[name] = true end
  end
  for name in pairs(names) do
    self:collect(edits, below(at, name), stepsTo(steps, name), before[name], after[name])
  end
end

---What it has done to a key: edits of places, or what it adds.
function Transaction:editsOf(key)
  local adds = self.adds[key]
  if adds then return { edit("added", key, {}, adds) } end
  local edits = {}
  self:collect(edits, key, {}, self.snapshot[key], self.values[key])
  return edits
end

---- What it does

function Transaction:noteRead(key)
  if not self.written[key] then self.read[key] = true end
end

---@return any value a table is the transaction's own: to look at
function Transaction:get(key)
  self:noteRead(key)
  return self.values[key]
end

function Transaction:getAll()
  for _, key in ipairs(self.model.keys) do self:noteRead(key) end
  return copyOf(self.values)
end

---Has it only added to that key? Whether to look at the sum, or to write into the list, is to have
---looked at the key is left open.
---@param key string
---@return boolean
function Transaction:onlyAdds(key)
  return self.adds[key] ~= nil
end

function Transaction:set(key, value)
  self.written[key], self.adds[key], self.assigned[key] = true, nil, true
  self.values[key] = copyOf(value)
end

-- Sets a place below a key: steps, then the value.
function Transaction:setBelow(key, steps, value)
  self:noteRead(key)
  self.written[key] = true
  local place, path = self.values[key], key
  for index = 1, #steps - 1 do
    place, path = place[steps[index]], below(path, steps[index])
  end
  local last = steps[#steps]
  place[last] = copyOf(value)
  self.assigned[below(path, last)] = true
end

-- By a node, which is a look at the key.
function Transaction:insert(key, item)
  self:noteRead(key)
  self.written[key] = true
  table.insert(self.values[key], item)
end

function Transaction:shorten(key)
  self:noteRead(key)
  self.written[key] = true
  local list, before = self.values[key], self.snapshot[key]
  table.remove(list)
  if #list == 0 then self.values[key] = moonpad.array(list) end
  if isList(before) and #list < #before then self.cut[key] = true end
end

-- An increment, or an append; once it was written in any other way, it is a part of that.
function Transaction:add(key, amount)
  local isNumber = math.type(amount) ~= nil
  if not self.written[key] or self.adds[key] then
    self.adds[key] = self.adds[key] or {}
    table.insert(self.adds[key], amount)
  end
  self.written[key] = true
  if isNumber then
    self.values[key] = (self.values[key] or 0) + amount
  else
    self.values[key] = self.values[key] or {}
    table.insert(self.values[key], amount[1])
  end
end

---- Its end

-- Do two edits want the same path? `theirs` may be a whole key that was set over others.
local function overlap(mine, theirs)
  if mine.kind == "added" then return false end
  if theirs.kind == "replaced" and isAtOrBelow(mine.at, theirs.at) then return true end
  return mine.kind == "replaced" and isAtOrBelow(theirs.at, mine.at)
end

local function locate(values, key, steps)
  local holder, name = values, key
  for _, step in ipairs(steps) do holder, name = holder[name], step end
  return holder, name
end

local function apply(values, key, done)
  local holder, name = locate(values, key, done.steps)
  if done.kind == "replaced" then
    holder[name] = copyOf(done.value)
  elseif done.kind == "made" then
    if holder[name] == nil then holder[name] = copyOf(done.value) end
  elseif done.kind == "extended" then
    for _, item in ipairs(done.value) do table.insert(holder[name], copyOf(item)) end
  else
    for _, amount in ipairs(done.value) do
      if math.type(amount) then
        holder[name] = (holder[name] or 0) + amount
      else
        holder[name] = holder[name] or {}
        table.insert(holder[name], amount[1])
      end
    end
  end
end

local function overlapsAny(edits, others)
  for _, mine in ipairs(edits) do
    for _, theirs in ipairs(others) do
      if overlap(mine, theirs) then return true end
    end
  end
  return false
end

---Ends it.
---@return string[]? keys of its conflict, sorted; nothing is committed then
function Transaction:commit()
  local model, conflicts, outcomes = self.model, {}, {}
  model.open[self] = nil
  for _, key in ipairs(model.keys) do
    if self.written[key] then
      local edits = self:editsOf(key)
      if overlapsAny(edits, self.others[key] or {}) then
        if self.read[key] then conflicts[#conflicts + 1] = key end
        edits = { edit("replaced", key, {}, self.values[key]) }
      end
      outcomes[key] = edits
    end
  end
  if #conflicts > 0 then return conflicts end
  for key, edits in pairs(outcomes) do
    for _, done in ipairs(edits) do apply(model.values, key, done) end
    for other in pairs(model.open) do
      other.others[key] = other.others[key] or {}
      table.move(edits, 1, #edits, #other.others[key] + 1, other.others[key])
    end
  end
  return nil
end

---- The model

local Model = {}
Model.__index = Model

---@param keys string[] all that there are, sorted
---@param values table what is there
---@return table model `values` is what is committed
local function new(keys, values)
  return setmetatable({ keys = keys, values = copyOf(values), open = {} }, Model)
end

function Model:begin()
  local transaction = setmetatable({
    model = self, snapshot = copyOf(self.values), values = copyOf(self.values), read = {}, written = {}, adds = {},
    assigned = {}, cut = {}, others = {},
  }, Transaction)
  self.open[transaction] = true
  return transaction
end

function Model:abandon(transaction)
  self.open[transaction] = nil
end

return new
