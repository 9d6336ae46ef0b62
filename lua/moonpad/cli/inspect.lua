--- `moonpad sessions`, `moonpad events`, `moonpad state`: what is stored.
local database = require "moonpad.cli.database"
local failure = require "moonpad.cli.failure"
local moonpad = require "moonpad"

local inspect = {}

local function openSession(service, options)
  local user = database.user(options)
  local session = service:getSession { appName = options.app, userId = user, sessionId = options.session }
  if not session then
    failure.raise('there is no session "%s" of user "%s" in application "%s"', options.session, user, options.app)
  end
  return session
end

-- Stored names may hold anything; a table of them must stay one line each.
local function printable(text)
  return (text:gsub("%c", "?"))
end

local function printTable(rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for column, text in ipairs(row) do widths[column] = math.max(widths[column] or 0, utf8.len(text) or #text) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for column, text in ipairs(row) do
      local padding = column < #row and widths[column] - (utf8.len(text) or #text) or 0
      cells[column] = text .. (" "):rep(padding)
    end
    print(table.concat(cells, "  "))
  end
end

---@param options table of the command line
function inspect.sessions(options)
  local service <close> = database.openExisting(options)
  local rows = { { "USER", "SESSION", "EVENTS", "LAST UPDATE" } }
  for _, session in ipairs(service:listSessions { appName = options.app, userId = options.user }) do
    rows[#rows + 1] = {
      printable(session.userId), printable(session.id), tostring(session.revision),
      os.date("%Y-%m-%d %H:%M:%S", math.floor(session.lastUpdateTime)),
    }
  end
  printTable(rows)
end

---@param options table of the command line
function inspect.events(options)
  local service <close> = database.openExisting(options)
  for _, event in ipairs(openSession(service, options).events) do print(moonpad.json.encode(event)) end
end

---@param options table of the command line
function inspect.state(options)
  local service <close> = database.openExisting(options)
  for key, value in pairs(openSession(service, options).state) do
    print(("%s = %s"):format(printable(key), moonpad.json.encode(value)))
  end
end

return inspect
