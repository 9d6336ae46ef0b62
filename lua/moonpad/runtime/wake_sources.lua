--- What a thread waits for when it has nothing else to do: descriptors of transfers and of child
--- processes. Whoever has some registers a source; a wait polls the descriptors of all of them.
local core = require "moonpad.core"

local wakeSources = {}

---@class moonpad.WakeSource
---@field isActive fun(self): boolean is anything awaited of it?
---@field prepare fun(self, readable: integer[], writable: integer[]): number? adds its descriptors; after how many
---seconds it has something to do in any case. It raises where waiting would be for ever
---@field advance fun(self): boolean takes in what has come, without waiting; whether anything has. It never raises

-- Weak: what nobody holds any more has nothing to tell.
---@type table<moonpad.WakeSource, boolean>
local sources = setmetatable({}, { __mode = "k" })

-- Where the module that waits for descriptors is not installed, sleeps are short.
local LONGEST_BLIND_SLEEP = 0.01

local function sleepBlindly(_, _, seconds)
  core.sleep(math.min(seconds, LONGEST_BLIND_SLEEP))
  return false
end

local poll

local function loadPoll()
  local ok, module = pcall(require, "moonpad.process_core")
  return ok and module.poll or sleepBlindly
end

---@param source moonpad.WakeSource
function wakeSources.add(source)
  sources[source] = true
end

---@param source moonpad.WakeSource
function wakeSources.remove(source)
  sources[source] = nil
end

---@return boolean isActive is there anything to wait for?
function wakeSources.isActive()
  for source in pairs(sources) do
    if source:isActive() then return true end
  end
  return false
end

---Asks all sources what they wait for.
---@param list moonpad.WakeSource[] gets those that were asked
---@param readable integer[]
---@param writable integer[]
---@return number seconds after which one of them has something to do in any case; math.huge: none has
function wakeSources.prepare(list, readable, writable)
  local seconds = math.huge
  for source in pairs(sources) do
    list[#list + 1] = source
    seconds = math.min(seconds, source:prepare(readable, writable) or seconds)
  end
  return math.max(seconds, 0)
end

---Takes in what has come, without waiting.
---@param list moonpad.WakeSource[] that were asked
---@return boolean moved whether anything has happened
function wakeSources.advance(list)
  local moved = false
  for _, source in ipairs(list) do moved = source:advance() or moved end
  return moved
end

---Sleeps until one of the sources has something to tell, at most that long, and takes it in.
---@param seconds number
---@return boolean moved whether anything has happened
function wakeSources.wait(seconds)
  poll = poll or loadPoll()
  local list, readable, writable = {}, {}, {}
  seconds = math.min(seconds, wakeSources.prepare(list, readable, writable))
  poll(readable, writable, math.max(seconds, 0))
  return wakeSources.advance(list)
end

return wakeSources
