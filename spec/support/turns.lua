--- Tests that are repeated: on each store, in each way to drive a run. `make test-all` runs all of
--- them. Elsewhere they take turns (spec/support/scope.lua): of each list one variant is run. The
--- tests of the others are counted, which scripts/busted_output.lua reports.
---
--- A spec that repeats its tests writes, once for each variant of its list,
---   turns.describe(name, turns.isDue(index, #LIST), function() it(...) end)
--- or `turns.it` for a single test; `support.each_store` and `support.any_store` do so for the
--- stores. For two lists, nest the blocks, or join their `isDue` with `and`. A bare `describe` runs
--- in every turn.
local busted = require "busted"
local scope = require "spec.support.scope"

local turns = {}

---Whether of each list one variant runs; else all do.
---@type boolean
turns.areTaken = scope.name == "turn" or scope.name == "quick"

---Whether there is only a minute for all of them.
---@type boolean
turns.areQuick = scope.name == "quick"

local function hasTurn(index, count) return scope.turn % count == index - 1 end

---Whether a variant is to be run now. Of two lists in each other each pair has its turn when their
---lengths have no common divisor, as 2 or 4 stores and 3 ways.
---@param index integer of the variant in its list
---@param count integer of variants
---@return boolean
function turns.isDue(index, count)
  return not turns.areTaken or hasTurn(index, count)
end

---The same in a list of stores whose first is the one in memory.
---@param index integer
---@param count integer
---@param isOneEnough boolean? no store has a part in what is tested
---@return boolean
function turns.isStoreDue(index, count, isOneEnough)
  if turns.areQuick then return index == 1 end
  if scope.name == "test" and isOneEnough then return hasTurn(index, count) end
  return turns.isDue(index, count)
end

---The same in a list of cases of one kind, of which `make test` takes a sample, too.
---@param index integer
---@param count integer
---@return boolean
function turns.isSampleDue(index, count)
  return hasTurn(index, count) or not turns.areTaken and scope.name ~= "test"
end

local function countOnly()
  busted.publish { "test", "left to another turn" }
end

-- The block that began last, and the one that is under way though it is another's turn.
local begun, leaving

-- Of the tests of this file one in so many runs, and how many there were so far.
local rarity, registered = 1, 0

busted.subscribe({ "file", "start" }, function()
  rarity, registered = 1, 0
  return nil, true
end)

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
  registered = registered + 1
  if not leaving and hasTurn(registered % rarity + 1, rarity) then return nil, true end
  countOnly()
  return nil, false
end, { priority = 1 })

---Of the tests that follow in this file `make quick` runs one in so many, others in each turn: each
---takes long, as those do that start a process.
---@param count integer no more than there are tests
function turns.quickRunsOneIn(count)
  if turns.areQuick then rarity, registered = count, 0 end
end

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

---Whether it is time for something that takes long: in `make quick` one in thirteen, in `make test`
---and where variants take turns one in three.
---@param name string which of all that takes long
---@return boolean
function turns.isTimeFor(name)
  local one = turns.areQuick and 13 or (turns.areTaken or scope.name == "test") and 3 or 1
  local sum = 0
  for index = 1, #name do sum = sum + name:byte(index) end
  return (sum + scope.turn) % one == 0
end

---A test that takes long.
---@param name string
---@param run fun()
function turns.rarely(name, run) turns.it(name, turns.isTimeFor(name), run) end

---A test of a list that takes turns.
---@param name string
---@param isDue boolean
---@param run fun()
function turns.it(name, isDue, run)
  if isDue then busted.it(name, run) else countOnly() end
end

return turns
