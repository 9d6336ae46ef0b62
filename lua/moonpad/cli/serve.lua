--- `moonpad serve`: agents over HTTP.
local agentFile = require "moonpad.cli.agent_file"
local agentRunner = require "moonpad.cli.agent_runner"
local cli = require "moonpad.cli_core"
local core = require "moonpad.core"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"
local redact = require "moonpad.models.redact"
local screen = require "moonpad.cli.screen"

-- What runs under way get when the server is to end.
local GRACE_SECONDS = 10

---- The agents

local function isFile(path)
  local file <close> = core.openFile(path, "rb")
  return file ~= nil and file:read(0) ~= nil
end

-- A folder is an agent, or a folder of agents.
local function addPaths(paths, path)
  if not cli.isFolder(path) or isFile(path .. "/agent.lua") then
    paths[#paths + 1] = path
    return
  end
  local names, count = cli.namesIn(path) or {}, #paths
  table.sort(names)
  for _, name in ipairs(names) do
    local inside = ("%s/%s"):format(path, name)
    if cli.isFolder(inside) and isFile(inside .. "/agent.lua") then paths[#paths + 1] = inside end
  end
  if #paths == count then failure.raise("%s: there is no agent.lua in it, nor in a folder within it", path) end
end

local function addApp(apps, options, path, opened)
  local given = {}
  for name, value in pairs(options) do given[name] = value end
  given.agent = path
  local runner = agentRunner.open(given, agentFile.load(given), opened)
  options.traceback = given.traceback
  if apps[runner.appName] then failure.raise("%s: there is another agent of the name %s", path, runner.appName) end
  apps[runner.appName] = runner
end

local function appsOf(options)
  local paths, apps, opened = {}, {}, {}
  for _, path in ipairs(options.agents) do addPaths(paths, path) end
  for _, path in ipairs(paths) do addApp(apps, options, path, opened) end
  return apps
end

local function closeAll(apps)
  for _, runner in pairs(apps) do agentRunner.close(runner) end
end

---- Serving

local function tell(message)
  io.stderr:write("moonpad: ", screen.text(redact.shapes(message), screen.isErr), "\n")
end

local function announce(server, apps, options)
  local names = {}
  for name in pairs(apps) do names[#names + 1] = name end
  table.sort(names)
  local ui = options.ui and (", ADK's web UI at %s/dev-ui/"):format(server.url) or ""
  print(("Serving %s at %s/%s (Ctrl-C ends it)"):format(screen.text(table.concat(names, ", ")), server.url, ui))
  io.stdout:flush()
end

---@param options table of the command line
---@return "cancelled"|nil
return function(options)
  -- Before anything starts a thread or a process.
  local ending = cli.catchEnd()
  local apps = appsOf(options)
  local _ <close> = setmetatable({}, { __close = function() closeAll(apps) end })
  local server <close> = moonpad.server {
    apps = apps, host = options.host, port = options.port, ui = options.ui, hosts = options.host_name,
    origins = options.origin, public = options.public, traceContent = options.trace_content, onError = tell,
  }
  announce(server, apps, options)
  server:runUntil { ending }
  server:close(GRACE_SECONDS)
  return cli.wasInterrupted() and "cancelled" or nil
end
