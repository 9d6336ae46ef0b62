--- `moonpad copy`: all that is in one store to another one.
local copy = require "moonpad.services.copy"
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"
local screen = require "moonpad.cli.screen"

-- The services of one end, closed by `<close>`.
local End = {}
End.__index = End

function End:__close()
  for _, name in ipairs { "memory", "artifacts", "sessions" } do
    if self[name] then self[name]:close() end
  end
end

local function openEnd(url, sessions)
  local opened <const> = setmetatable({ sessions = sessions }, End)
  local ok, err = pcall(function()
    opened.artifacts = moonpad.artifactService(url)
    opened.memory = database.openMemory(url)
  end)
  if ok then return opened end
  End.__close(opened)
  error(err, 0)
end

local function count(number, one, many)
  return ("%d %s"):format(number, number == 1 and one or many or one .. "s")
end

---@param options table of the command line
return function(options)
  local target = database.urlOf(options.to)
  if target == "memory:" then failure.usage "memory: keeps nothing from one program to the next" end
  local sessions, url = database.openSessions(options.from)
  local from <close> = openEnd(url, sessions)
  local to <close> = openEnd(target, moonpad.open(target))
  local counts = copy.all(from, to)
  if options.json then return print(moonpad.json.encode(counts)) end
  local copied = counts.copied
  print(("Copied %s, %s and %s of %s to %s, and compared them."):format(count(copied.sessions, "session"),
    count(copied.files, "file"), count(copied.memories, "memory", "memories"), count(counts.apps, "application"),
    screen.text(database.shown(options.to))))
  print(("All in all there are %s, the state of %s, %s and %s."):format(count(counts.sessions, "session"),
    count(counts.users, "user"), count(counts.files, "file"), count(counts.memories, "memory", "memories")))
  if not (from.memory and to.memory) then
    io.stderr:write "moonpad: memories were left out: this SQLite cannot search text\n"
  end
end
