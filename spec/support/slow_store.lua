--- Services over a store behind a slow link: spec/c/slow_store.h. For benches, too.
require "moonpad"

local function find(file, name)
  local found, message = package.loadlib(file, name)
  return found or error(message)
end

local build = os.getenv "MOONPAD_BUILD" or "build"
local store = find(build .. "/spec/slow_store.so", "luaopen_slow_store")()
local push = find(assert(package.searchpath("moonpad.core", package.cpath)), "moonpad_lua_push_service")

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
