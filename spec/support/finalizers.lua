--- Runs code with finalizers that begin at any allocation in it.
local assert = require "luassert"

local finalizers = {}

-- The collector runs ten finalizers, then none until about APART bytes have been allocated. One of
-- the ten acts, and only a few in a round: what they allocate themselves would otherwise run all
-- that are left.
local BATCH <const> = 300
local AT_ONCE <const> = 10
local APART <const> = 600
local STEP_MULTIPLIER <const> = 12
local MOST <const> = 3

local function plant(action)
  collectgarbage "stop"
  for _ = 1, BATCH do setmetatable({}, { __gc = action }) end
  collectgarbage "restart"
end

local function stepUntil(reached)
  while not reached() do collectgarbage "step" end
end

-- Calls with so much of the stack in use that nothing has to make it larger, which counts as
-- an allocation.
local function onLargeStack(call, depth)
  if depth == 0 then return call() end
  local a, b, c, d = 1, 2, 3, 4
  onLargeStack(call, depth - 1)
  return a, b, c, d
end

local function run(rounds, actions, body, prepare)
  if type(actions) == "function" then actions = { actions } end
  local left, ran, acted, problem = 0, 0, 0, nil
  local function action()
    ran = ran + 1
    if left == 0 or ran % AT_ONCE ~= 0 then return end
    left, acted = left - 1, acted + 1
    local ok, err = pcall(actions[acted % #actions + 1], acted)
    if not ok then problem = problem or err end
  end
  local mode = collectgarbage("incremental", 1, STEP_MULTIPLIER, 1)
  for round = 1, rounds do
    if prepare then prepare(round) end
    plant(action)
    local before = ran
    -- What was garbage is gone then; the other finalizers wait for the body.
    stepUntil(function() return ran > before end)
    local _ = ("x"):rep(round * 17 % APART) -- moves them on
    left = MOST
    local ok, err = pcall(body, round)
    left = 0
    if not ok then problem = problem or err end
    if problem then break end
    stepUntil(function() return ran == round * BATCH end)
  end
  collectgarbage("incremental", 200, 100, 13)
  collectgarbage(mode)
  if problem then error(problem, 0) end
  assert.is_true(acted > rounds // 10, "hardly a finalizer ran while it mattered")
end

---Runs `body` in rounds, each with finalizers at other allocations, which call `actions` in turn.
---@param rounds integer
---@param actions function|function[] what they do, only during `body`; an error in one of them fails the test
---@param body fun(round: integer)
---@param prepare fun(round: integer)? called before each round: what it leaves is collected when the round begins
function finalizers.during(rounds, actions, body, prepare)
  onLargeStack(function() run(rounds, actions, body, prepare) end, 200)
end

return finalizers
