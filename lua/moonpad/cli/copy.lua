--- `moonpad copy`: all that is in one store to another one.
local copy = require "moonpad.services.copy"
local database = require "moonpad.cli.database"
local moonpad = require "moonpad"
local output = require "moonpad.cli.output"
local screen = require "moonpad.cli.screen"

-- The services of one end, closed by `<close>`.
local End = {}
End.__index = End

function End:__close()
  for _, name in ipairs { "memory", "artifacts", "sessions" } do
    if self[name] then self[name]:close() end
  end
end

local function openEnd(url, sessions, openArtifacts, openMemory)
  local opened = setmetatable({ sessions = sessions }, End)
  local ok, err = pcall(function()
    opened.artifacts, opened.memory = openArtifacts(url), openMemory(url)
  end)
  if ok then return opened end
  End.__close(opened)
  error(err, 0)
end

---@param options table of the command line
return function(options)
  local target = database.lastingUrl(options.to)
  local sessions, url = database.openSessions(options.from)
  local from <close> = openEnd(url, sessions, database.findArtifacts, database.findMemory)
  local to <close> = openEnd(target, moonpad.open(target), moonpad.artifactService, database.openMemory)
  local counts = copy.all(from, to)
  if options.json then return print(moonpad.json.encode(counts)) end
  local copied, count = counts.copied, output.count
  print(("Copied %s, %s and %s of %s to %s, and compared them."):format(count(copied.sessions, "session"),
    count(copied.files, "file"), count(copied.memories, "memory", "memories"), count(counts.apps, "application"),
    screen.text(database.shown(options.to))))
  print(("All in all there are %s, the state of %s, %s and %s."):format(count(counts.sessions, "session"),
    count(counts.users, "user"), count(counts.files, "file"), count(counts.memories, "memory", "memories")))
  if not to.memory then io.stderr:write "moonpad: memories were left out: this SQLite cannot search text\n" end
end
