-- Loaded by busted before the specs (.busted).

-- MOONPAD_GC=aggressive: the collector runs all the time. Each allocation collects what is
-- young, which is cheap: a value that nothing holds, and that has just been made, is gone at
-- once. What is older is found by a full collection, which costs hundreds of times as much,
-- every FULL_EVERY allocations.
local FULL_EVERY <const> = 32

-- The growth of memory, in percent, that makes the next collection a full one: the least that
-- there is.
local GROWTH <const> = 4

local count, garbage = 0, 0

-- Runs in each collection. It must not begin one, but can leave so much garbage that the next one
-- is full.
local function watch()
  setmetatable({}, { __gc = function()
    count = count + 1
    if count % FULL_EVERY == 0 then local _ = ("x"):rep(garbage) end
    watch()
  end })
end

-- Before each test, because some change it.
local function neverRest()
  -- for the pause after a full collection that found little
  collectgarbage("incremental", GROWTH, 1000)
  -- After a growth of 256 %, which Lua keeps in a byte: after each allocation.
  collectgarbage("generational", 256, GROWTH)
  collectgarbage()
  collectgarbage "step" -- a full collection leaves a pause
  garbage = collectgarbage "count" * 1024 * (GROWTH + 1) // 100 | 0
  return nil, true
end

local mode = os.getenv "MOONPAD_GC"
if mode == "aggressive" then
  watch()
  neverRest()
  local before = count
  for _ = 1, 100 do local _ = {} end
  assert(count - before >= 100, "the collector rests: this Lua knows another way to keep it at work")
  require("busted").subscribe({ "test", "start" }, neverRest)
elseif mode and mode ~= "" then
  error(("MOONPAD_GC=%s: only \"aggressive\" is known"):format(mode), 0)
end

-- Here, so that spec files that share a process (scripts/run_tests.sh) share it, and what it has
-- subscribed to.
require "spec.support.turns"

-- Specs write their commands for a POSIX shell. Where Windows is wine, its host has one.
local isThere, shell = pcall(require, "spec.shell")
if isThere then
  rawset(io, "popen", shell.popen)
  rawset(os, "execute", shell.execute)
  -- Wine would remove what a symbolic link of the host points to. A child that its host has closed
  -- may write there for 1.4 s.
  require("spec.folders").remove = function(path)
    assert(shell.execute(("rm -rf '%s' || { sleep 2; rm -rf '%s'; }"):format(path, path)))
  end
end
