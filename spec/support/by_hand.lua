--- A coroutine that moonpad drives, stepped by hand: what it asks of a store that is not in memory
--- makes it wait.
local core = require "moonpad.core"

-- As in spec.support, which only busted can load.
local TIMEOUT_SECONDS <const> = 120

local Driven = {}
Driven.__index = Driven

---@param service moonpad.Service its workers make the calls
---@param body function
---@return table driven `waits`: how often it has waited
local function drive(service, body)
  local driven = setmetatable({ service = service, thread = coroutine.create(body), waits = 0 }, Driven)
  core.threads[driven.thread] = "begun"
  return driven
end

---Resumes it once.
---@param ... any what it is resumed with
---@return "waiting"|"done" after which `result` is what it returned, or `err` what it raised
function Driven:step(...)
  local previous = core.stepWith(self.service)
  local ok, value = coroutine.resume(self.thread, ...)
  core.stepWith(previous)
  if coroutine.status(self.thread) == "suspended" then
    assert(value == core.ASKS_STORE, "it yielded something else")
    self.waits = self.waits + 1
    return "waiting"
  end
  self[ok and "result" or "err"] = value
  return "done"
end

---Steps it to its end, asleep in between.
---@return any result
function Driven:finish()
  while self:step() == "waiting" do self.service:poll(TIMEOUT_SECONDS) end
  if self.err then error(self.err, 0) end
  return self.result
end

return drive
