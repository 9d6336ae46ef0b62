--- Services over a store behind a slow link: spec/c/slow_store.h. For benches, too.
require "moonpad"

local store = require "spec.slow_store"

-- A function for C, which Lua does not call. A program with all modules inside hands it over
-- (spec/platforms/modules.c).
local function findPush()
  if package.preload["spec.push_service"] then return require "spec.push_service" end
  return assert(package.loadlib(assert(package.searchpath("moonpad.core", package.cpath)), "moonpad_lua_push_service"))
end

local push = findPush()

local slow_store = {
  ---Of all slow stores of this process, since it began.
  ---@type fun(): integer
  roundTrips = store.roundTrips,
  ---The same, of those that this thread made and waited for.
  ---@type fun(): integer
  roundTripsHere = store.roundTripsHere,
  ---While the link is held, what is on its way stays there, for a minute at most; but so many pass.
  ---@type fun(isHeld: boolean, passes?: integer)
  hold = store.hold,
  ---What an event loop would be told now of a file descriptor.
  ---@type fun(fd: integer): boolean
  isReadable = store.isReadable,
  ---The answers of so many appends from now on are lost after they were stored.
  ---@type fun(count: integer)
  loseAnswers = store.loseAnswers,
}

---A service with the usual options.
---@param url string "slow:50:sqlite:PATH", "slow:0:memory:"
---@return moonpad.Service
function slow_store.open(url)
  return store.open(push, url)
end

return slow_store
