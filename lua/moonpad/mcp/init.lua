--- `moonpad.mcp`: the tools of an MCP server, a process that it starts or one behind an address.
local core = require "moonpad.core"
local diagnostics = require "moonpad.mcp.diagnostics"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"
local lists = require "moonpad.util.list"
local luaError = require "moonpad.util.lua_error"
local names = require "moonpad.tools.name"
local paths = require "moonpad.util.paths"
local requestHeaders = require "moonpad.http.headers"
local stdio = require "moonpad.mcp.stdio"
local toolsets = require "moonpad.mcp.toolset"

local mcp = {}

---@class moonpad.McpOptions
---@field command string[]? the program of a server and its arguments; it is started at the first request
---@field env table<string, string>? with `command`: added to PATH, HOME, LANG, USER and TERM, which is all that
---the process inherits
---@field cwd string? with `command`: the folder that it works in; default: this process's
---@field url string? the address of a server that speaks streamable HTTP
---@field headers table<string, string>|(fun(): table<string, string>)|nil with `url`: of each request; a function is
---asked for each, and may wait
---@field prefix string? put before the names of the tools
---@field allow string[]? of the server's tools only these, by the server's own names
---@field timeoutMs integer? for the start, for a list and for a call each; default 60000

---- Checking

local function listOf(what)
  return function(value, where)
    local list = lists.of(value, where, what)
    for index, item in ipairs(list) do
      if not fields.text.is(item) then
        fields.refuse(("%s[%d]"):format(where, index), ("expected %s, got %s")
          :format(fields.text.what, fields.describe(item)))
      end
    end
    return list
  end
end

local readArguments = listOf "strings"

local function readCommand(value, where)
  if type(value) == "table" and #value == 0 then fields.refuse(where, "is empty: the first is the program") end
  if type(value) ~= "table" then
    fields.refuse(where, "expected a list of strings, the program first, got " .. fields.describe(value))
  end
  -- An argument may be empty; the program may not.
  local list = lists.of(value, where, "strings")
  readArguments({ list[1] }, where)
  for index, item in ipairs(list) do
    if type(item) ~= "string" or item:find "\0" then
      fields.refuse(("%s[%d]"):format(where, index),
        "expected a string without NUL bytes, got " .. fields.describe(item))
    end
  end
  return list
end

-- A value is never quoted: it may be a key.
local function readEnvironment(value, where)
  if type(value) ~= "table" then fields.refuse(where, "expected a table, got " .. fields.describe(value)) end
  local environment = {}
  for name, text in pairs(value) do
    if type(name) ~= "string" or not name:find "^[^=%z]+$" then
      fields.refuse(where, "expected names of variables, got " .. errorText.show(name))
    elseif type(text) ~= "string" or text:find "\0" then
      fields.refuse(where .. "." .. name, "expected a string without NUL bytes, got " .. fields.describe(text))
    end
    environment[name] = text
  end
  return environment
end

local function readHeaders(value, where)
  if type(value) == "function" then return nil end
  return requestHeaders.read(value, where)
end

local function authorityOf(url)
  return url:match "^%a+://([^/?#]*)"
end

local function readUrl(value, where)
  if type(value) ~= "string" then fields.refuse(where, "expected a string, got " .. fields.describe(value)) end
  if not value:lower():find "^https?://[^/?#]" then
    fields.refuse(where, "must begin with http:// or https:// and a host")
  elseif authorityOf(value):find("@", 1, true) then
    fields.refuse(where, "must not contain a user or a password; give headers")
  end
end

local function readPrefix(value, where)
  if type(value) ~= "string" then fields.refuse(where, "expected a string, got " .. fields.describe(value)) end
  if value ~= "" then names.check(value, where) end
end

local TIMEOUT = fields.integerFrom(1)

local FIELDS = fields.new {
  { "command", readCommand },
  { "env", readEnvironment },
  { "cwd", fields.text },
  { "url", readUrl },
  { "headers", readHeaders },
  { "prefix", readPrefix, default = "" },
  { "allow", listOf "names" },
  { "timeoutMs", TIMEOUT, default = 60000 },
}:describes "moonpad.McpOptions"

-- Each way has settings of its own.
local OTHERS = { command = { "headers" }, url = { "env", "cwd" } }

local function checkWay(options, where)
  if (options.command == nil) == (options.url == nil) then
    fields.refuse(where, "needs either `command`, for a server to be started, or `url`, for one that runs")
  end
  local way = options.command and "command" or "url"
  for _, name in ipairs(OTHERS[way]) do
    if options[name] ~= nil then fields.refuse(fields.at(where, name), ("does not go with `%s`"):format(way)) end
  end
end

---- A process

-- What a process may need to run at all. None of these is a secret.
local INHERITED = { "PATH", "HOME", "LANG", "USER", "TERM" }
local INHERITED_ON_WINDOWS = { "PATH", "PATHEXT", "SYSTEMROOT", "SYSTEMDRIVE", "TEMP", "USERNAME", "USERPROFILE",
  "HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMFILES", "PROCESSOR_ARCHITECTURE" }

-- Programs that tell nothing by themselves, because they run what their first argument names.
local LAUNCHERS = {
  npx = true, bunx = true, uvx = true, pipx = true, node = true, bun = true, deno = true, python = true, python3 = true,
  ruby = true, perl = true, lua = true, ["lua5.4"] = true,
}

-- Their options behind which no value stands. Behind any other, a key may.
local PLAIN_OPTIONS = { ["-y"] = true, ["--yes"] = true, ["-q"] = true, ["--quiet"] = true, ["-u"] = true,
  ["-m"] = true }

-- Files whose names tell nothing without the folders that they are in.
local COMMON_FILES = { index = true, main = true, cli = true, server = true }
local MAX_FOLDERS = 2

-- "node_modules/server-memory/dist/index.js" -> "server-memory/dist/index.js"
local function shortened(path)
  local pieces = {}
  for piece in paths.plain(path):gmatch "[^/]+" do pieces[#pieces + 1] = piece end
  local first = #pieces
  if COMMON_FILES[(pieces[first] or ""):match "^[^.]*"] then
    while first > 1 and #pieces - first < MAX_FOLDERS and not pieces[first - 1]:find "^%.%.?$" do first = first - 1 end
  end
  return table.concat(pieces, "/", first)
end

-- Of the arguments, which may be keys, only what a launcher runs is shown.
local function nameOfCommand(command)
  local program = paths.plain(command[1]):match "[^/]+/*$" or command[1]
  if paths.isWindows then program = program:gsub("%.%a%a%a$", "") end
  if not LAUNCHERS[program] then return program end
  local index = 2
  while PLAIN_OPTIONS[command[index]] do index = index + 1 end
  local run = command[index] or ""
  if run == "" or run:find "^%-" or run:find "[=:%s]" then return program end
  return ("%s %s"):format(program, shortened(run))
end

local function environmentOf(given)
  local variables, list = {}, {}
  local inherited = paths.isWindows and INHERITED_ON_WINDOWS or INHERITED
  for _, name in ipairs(inherited) do variables[name] = os and core.environment(name) end
  for name, value in pairs(given or {}) do variables[name] = value end
  for name, value in pairs(variables) do list[#list + 1] = ("%s=%s"):format(name, value) end
  table.sort(list)
  return list
end

local MAX_STARTS, SECONDS_OF_STARTS = 3, 60

-- Remembers when the process was started; raises where that would be too often.
local function starter(options, about)
  local starts = {}
  return function()
    local now = core.monotonic()
    while starts[1] and now - starts[1] >= SECONDS_OF_STARTS do table.remove(starts, 1) end
    if #starts >= MAX_STARTS then
      local left = diagnostics.seconds(math.ceil(SECONDS_OF_STARTS - (now - starts[1])))
      about:fail(("was started %d times within a minute and is left alone for %s; the last time %s")
        :format(MAX_STARTS, left, about.lastEnding or "it ended"), true)
    end
    starts[#starts + 1] = now
    local connection, message = stdio.open {
      command = options.command, environment = environmentOf(options.env), folder = options.cwd, diagnostics = about,
    }
    if not connection then about:fail(message) end
    return connection
  end
end

local function ofProcess(options)
  local name = ('MCP server "%s"'):format(errorText.valid(nameOfCommand(options.command)))
  local about = diagnostics.new(name)
  about:keepNamed(options.env or {})
  return about, starter(options, about)
end

---- An address

-- Nothing but scheme, host and port: paths and queries may hold keys.
local function nameOfUrl(url)
  return url:match "^%a+://" .. authorityOf(url)
end

-- Shorter ones are words.
local SHORTEST_SECRET = 8

-- What may be a key in an address, as it stands there and as servers read it.
local function secretsOf(url)
  local list = {}
  local function add(text)
    if #text < SHORTEST_SECRET then return end
    local read = text:gsub("+", " "):gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end)
    list[#list + 1], list[#list + 2] = text, read
  end
  local path, query = url:match "^%a+://[^/?#]*([^?#]*)%??([^#]*)"
  for segment in path:gmatch "[^/]+" do add(segment) end
  for parameter in query:gmatch "[^&;]+" do add(parameter:match "=(.*)" or parameter) end
  if query ~= "" then add(path .. "?" .. query) end
  return list
end

-- What it raises, or returns as a message, is an error of the server that cannot be asked.
local function askForHeaders(give, about)
  local ok, headers, reason = xpcall(give, function(err)
    return type(err) == "string" and errorText.withoutPosition(err) or err
  end)
  if not ok then
    luaError.passOn(headers)
    if core.isError(headers) and headers.code == "cancelled" then error(headers, 0) end
    about:fail("headers: " .. errorText.of(headers))
  elseif headers == nil and reason ~= nil then
    about:fail("headers: " .. errorText.of(reason))
  end
  return headers
end

local function ofUrl(options)
  local streamable = require "moonpad.mcp.http"
  local given, where = options.headers, "moonpad.mcp.headers"
  local name = ('MCP server "%s"'):format(errorText.valid(nameOfUrl(options.url)))
  local about = diagnostics.new(name)
  about:keepSecret(secretsOf(options.url))
  about:keepNamed(type(given) == "table" and given or {})
  local function headers()
    if type(given) ~= "function" then return requestHeaders.read(given or {}, where) end
    local read = requestHeaders.read(askForHeaders(given, about), where .. "()")
    -- They may be others each time.
    about:keepNamed(read)
    return read
  end
  return about, function() return streamable.open { url = options.url, readHeaders = headers } end
end

---Makes a toolset of the tools of an MCP server.
---@param definition moonpad.McpOptions
---@return moonpad.McpToolset
function mcp.define(definition)
  local where = "moonpad.mcp"
  fields.refuseModule(definition, where)
  local options = FIELDS:take(definition, where)
  checkWay(options, where)
  local about, open = (options.command and ofProcess or ofUrl)(options)
  return toolsets.new {
    open = open, diagnostics = about, timeout = options.timeoutMs / 1000, prefix = options.prefix,
    allow = options.allow,
  }
end

return mcp
