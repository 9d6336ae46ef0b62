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
