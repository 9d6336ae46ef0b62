--- How much of the tests is run. scripts/run_tests.sh sets both variables of the environment.
---
--- MOONPAD_SCOPE:
---   "whole"  all that there is; of many cases of one kind each one, whatever that takes
---   "all"    the same, where many cases of one kind are fewer under a collector that never rests
---   "test"   the same in memory, in a file and on one server; of many cases of one kind a sample;
---            a rule that no store has a part in, on one store
---   "turn"   of each list of variants, such as stores, one
---   "quick"  the store in memory; of other lists one variant; of many cases of one kind a few
--- Without it: "all", or "turn" where MOONPAD_TURN is a number.
---
--- MOONPAD_TURN, a number: which variants, and which of many cases. It goes on from run to run.
local scope = {}

local NAMES <const> = { whole = true, all = true, test = true, turn = true, quick = true }

local text = os.getenv "MOONPAD_TURN" or ""
---@type integer? nil: the same as 0, for who has not asked for turns
scope.turn = math.tointeger(tonumber(text))
if text ~= "" and text ~= "all" and not scope.turn then
  error(("MOONPAD_TURN=%s: neither a number nor all"):format(text), 0)
end

local name = os.getenv "MOONPAD_SCOPE" or ""
if name == "" then name = scope.turn and "turn" or "all" end
if not NAMES[name] then error(("MOONPAD_SCOPE=%s: neither whole, all, test, turn nor quick"):format(name), 0) end
---@type "whole"|"all"|"test"|"turn"|"quick"
scope.name = name
scope.turn = scope.turn or 0

return scope
