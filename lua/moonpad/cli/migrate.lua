--- `moonpad migrate`: makes what a store needs, or brings it up to date. Every opening does so,
--- where the account may; this is for others, and for those who want to read it before.
local core = require "moonpad.core"
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"
local screen = require "moonpad.cli.screen"
local storeModules = require "moonpad.services.store_modules"

local function printSchema(url)
  if not storeModules.isServer(url) then
    failure.usage "--print is for servers: what is in a file is made and brought up to date when it is opened"
  end
  local sql, message, code = storeModules.others(url).schema((url:gsub("^[^:]*:", "", 1)))
  if not sql then core.error(code, message) end
  io.stdout:write(sql)
end

---@param options table of the command line
return function(options)
  local url = options.url
  if options.print then return printSchema(url) end
  if not storeModules.isServer(url) then url = database.existingUrl(url) end
  local _ <close> = moonpad.open(url)
  local _ <close> = moonpad.artifactService(url)
  local memory <close> = database.openMemory(url)
  print(("%s is up to date: sessions, artifacts%s."):format(screen.text(database.shown(url)),
    memory and " and memories" or "; this SQLite cannot search memories"))
end
