--- Tests that are repeated: on each store, in each way to drive a run. `make test` runs all of
--- them. Where each takes many times as long, under the sanitizers and with a collector that
--- never rests, MOONPAD_TURN tells whose turn it is: of each list one variant is run. The tests of
--- the others are counted, which scripts/busted_output.lua reports. Without it, or with "all", all
--- are run.
---
--- A spec that repeats its tests writes, once for each variant of its list,
---   turns.describe(name, turns.isDue(index, #LIST), function() it(...) end)
--- or `turns.it` for a single test; `support.each_store` does so for the stores. For two lists,
--- nest the blocks, or join their `isDue` with `and`. A bare `describe` runs in every turn.
local busted = require "busted"

local turns = {}

local turn
local text = os.getenv "MOONPAD_TURN" or ""
if text ~= "" and text ~= "all" then
  turn = math.tointeger(tonumber(text)) or error(("MOONPAD_TURN=%s: neither a number nor all"):format(text), 0)
end

---Whether this run has a turn; else all variants run.
---@type boolean
turns.areTaken = turn ~= nil

---Whether a variant is to be run now. Of two lists in each other each pair has its turn when their
---lengths have no common divisor, as 2 or 4 stores and 3 ways.
---@param index integer of the variant in its list
---@param count integer of variants
---@return boolean
function turns.isDue(index, count)
  return not turn or turn % count == index - 1
end

local function countOnly()
  busted.publish { "test", "left to another turn" }
end

-- The block that began last, and the one that is under way though it is another's turn.
local begun, leaving

busted.subscribe({ "describe", "start" }, function(block)
  begun = block
  return nil, true
end, { priority = 1 })

busted.subscribe({ "describe", "end" }, function(block)
  if block == leaving then leaving = nil end
  return nil, true
end, { priority = 1 })

-- What stops here is not known to busted.
busted.subscribe({ "register", "it" }, function()
  if not leaving then return nil, true end
  countOnly()
  return nil, false
end, { priority = 1 })

---Describes a variant.
---@param name string
---@param isDue boolean
---@param block fun()
function turns.describe(name, isDue, block)
  busted.describe(name, function()
    if not isDue and not leaving then leaving = begun end
    block()
  end)
end

---A test of a list that takes turns.
---@param name string
---@param isDue boolean
---@param run fun()
function turns.it(name, isDue, run)
  if isDue then busted.it(name, run) else countOnly() end
end

return turns
