--- A run as a random writer: an agent whose answer has some tool calls that wait at random places,
--- and in whose middle others act on the same session. It knows what contracts 1.4 and 2.2 say of
--- it: what each call sees, which of them conflict with each other, whether their event conflicts
--- with what others have stored, and what it stores.
local assert = require "luassert"
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local newAnswer = require "spec.support.transaction_model"
local support = require "spec.support"
local toolCalls = require "spec.support.tool_calls"

local NAME <const> = "run"
local WAYS <const> = { "run", "step" }

local Run = {}
Run.__index = Run

---- What a call does: the same to its state and to the model of its transaction

-- A read of what the answer has pending tells nothing about others.
local function read(_, state, tx, key)
  if not tx.written[key] and not tx.pendingThen[key] then tx.readStored[key] = true end
  checks.identical({ tx:get(key) }, { moonpad.toTable(state[key]) })
end

local function set(_, state, tx, key, number)
  state[key] = number
  tx:set(key, number)
end

local function remove(_, state, tx, key)
  state[key] = nil
  tx:set(key, nil)
end

-- Two lists become one where each call has seen that there was none.
local function setList(self, state, tx, key, number)
  if not tx.written[key] then read(self, state, tx, key) end
  if not tx.read[key] then return end
  state[key] = { number }
  tx:set(key, { number })
end

local function increment(self, state, tx, _, number)
  local key = self.values:pick(self.keys.counters)
  state:increment(key, number)
  tx:add(key, number)
end

local function append(self, state, tx, _, number)
  local key = self.values:pick(self.keys.lists)
  state:append(key, number)
  tx:add(key, { number })
end

local function wait() coroutine.yield() end

local function letOthersAct(self)
  for _ = 1, 1 + self.values:below(3) do self.othersAct() end
end

local DEEDS <const> = {
  read, read, set, set, setList, remove, increment, append, wait, wait, wait, letOthersAct, letOthersAct,
}

function Run:begin()
  local tx = self.answer:begin()
  tx.readStored, tx.pendingThen = {}, {}
  for key in pairs(self.written) do tx.pendingThen[key] = true end
  return tx
end

-- What a call that is committed leaves for the store.
function Run:commit(tx, id)
  self.conflicts[id] = tx:commit()
  if self.conflicts[id] then return end
  for key in pairs(tx.written) do
    if tx.adds[key] then
      self.adds[key] = self.adds[key] or {}
      table.move(tx.adds[key], 1, #tx.adds[key], #self.adds[key] + 1, self.adds[key])
    else
      local before = self.written[key]
      self.written[key] = { read = tx.readStored[key] or (before and before.read) }
    end
  end
end

function Run:call(state, id)
  local tx = self:begin()
  for _ = 1, 1 + self.values:below(10) do
    self.values:pick(DEEDS)(self, state, tx, self.values:pick(self.few), self.values:below(1000))
  end
  self:commit(tx, id)
end

---- The run

function Run:tool(id)
  return moonpad.tool { name = "tool" .. id, run = function(_, context)
    local ok, err = pcall(self.call, self, context.state, id)
    if not ok then self.failure = self.failure or err end
  end }
end

-- The model's event takes in what others have changed since the user's; the calls begin with that.
function Run:ask()
  if self.answer then return "done" end
  self.model:change(NAME, {}, true)
  self.othersAct()
  self.model:change(NAME, {}, true)
  -- What counters and lists hold is never looked at.
  local shown = {}
  for _, key in ipairs(self.keys.plain) do shown[key] = self.model.values[key] end
  self.held, self.answer = self.model:held(), newAnswer(self.names, shown)
  local calls = {}
  for index = 1, self.count do calls[index] = { "tool" .. index, {}, tostring(index) } end
  return support.calls(table.unpack(calls))
end

-- What the event with the answers of all calls would store, and the keys that conflict with what
-- others have stored.
function Run:expected()
  local delta, conflicts = {}, {}
  for key, adds in pairs(self.adds) do delta[key] = self.model:added(key, adds) end
  for key, write in pairs(self.written) do
    local value, scope = self.answer.values[key], self.model.scopeOf(key)
    delta[key] = value == nil and moonpad.removed or value
    local isChecked = scope == "session" or write.read
    conflicts[key] = isChecked and self.model:changedByOthers(key, NAME, self.held[scope]) or nil
  end
  return delta, conflicts
end

function Run:agent(found)
  local tools = {}
  for index = 1, self.count do tools[index] = self:tool(tostring(index)) end
  return moonpad.agent {
    name = "Caller", tools = tools, includeContents = "none", model = function() return self:ask() end,
    onToolErrorCallback = function(context, _, _, err)
      found[context.functionCallId] = type(err) == "table" and err.keys or tostring(err)
    end,
  }
end

-- Drives the run to its end; the delta of the event that answers the calls, or nil and the
-- run's error.
function Run:drive(service)
  local found, delta = {}, nil
  local runner = moonpad.runner { appName = "app", agent = self:agent(found), sessionService = service }
  local options = { userId = "u", sessionId = "s", newMessage = "go" }
  local ok, err = pcall(toolCalls.drive[self.values:pick(WAYS)], runner, options, function(event)
    if #event:functionResponses() > 0 then delta = event.actions.stateDelta or {} end
  end)
  if self.failure then error(self.failure, 0) end
  assert.same(self.conflicts, found)
  if ok then return delta end
  return nil, err
end

---@class spec.RandomRun
---@field values table random ones
---@field model table what the store should hold
---@field keys { plain: string[], counters: string[], lists: string[] } the plain ones are not only added to
---@field othersAct fun() something that somebody else does to the session

---Runs an agent on session "s" of user "u" of app "app".
---@param service moonpad.Service
---@param options spec.RandomRun
---@return table? err of its conflict, when there is one and there should be
---@return table? conflicts the keys that it should have
local function randomRun(service, options)
  local self = setmetatable({
    values = options.values, model = options.model, keys = options.keys, othersAct = options.othersAct,
    count = 2 + options.values:below(2), names = {},
    conflicts = {}, -- of each call with others of the same answer
    -- what the calls have committed: keys that they set or removed, and what they only add
    written = {}, adds = {},
  }, Run)
  for _, list in pairs(self.keys) do table.move(list, 1, #list, #self.names + 1, self.names) end
  table.sort(self.names)
  -- so that they meet often
  self.few = { self.values:pick(self.keys.plain), self.values:pick(self.keys.plain) }
  local stored, err = self:drive(service)
  local delta, conflicts = self:expected()
  if err then return err, conflicts end
  assert(next(conflicts) == nil, "the run should have conflicted")
  checks.identical(delta, stored)
  self.model:change(NAME, delta, true)
  self.model:change(NAME, {}, true)
  return nil
end

return randomRun
