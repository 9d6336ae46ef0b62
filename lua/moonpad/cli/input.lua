--- The lines that a user types, or that come from a pipe. At a terminal they can be edited, and
--- earlier ones come back, where the library readline is there (Debian: lua-readline).
local cli = require "moonpad.cli_core"
local screen = require "moonpad.cli.screen"

local STDIN <const> = 0
local PROMPT <const>, CONTINUED <const> = "> ", "... "

local input = {}

-- The file that keeps earlier lines: by the XDG Base Directory Specification.
local function historyFile()
  local state, home = os.getenv "XDG_STATE_HOME", os.getenv "HOME"
  if not state or state:sub(1, 1) ~= "/" then state = home and home ~= "" and home .. "/.local/state" end
  local folder = state and state .. "/moonpad"
  return folder and cli.makeFolders(folder) and folder .. "/history" or nil
end

---- With readline

local Edited = {}
Edited.__index = Edited

-- The library reads characters as they come, so that Ctrl-C is noticed between two of them.
function Edited:readLine(prompt)
  local readline, line, isOver = self.readline, nil, false
  readline.handler_install(prompt, function(text) line, isOver = text, true end)
  while not isOver do
    if cli.waitForInput(STDIN) then
      readline.read_char()
    else
      readline.handler_remove()
      io.stdout:write("^C\n"):flush()
      readline.handler_install(prompt, function(text) line, isOver = text, true end)
    end
  end
  readline.handler_remove()
  if line and line:find "%S" then
    readline.add_history(line)
    if self.historyFile then readline.save_history() end
  end
  return line
end

local function newEdited()
  if not screen.canMove then return nil end
  local ok, readline = pcall(require, "readline")
  if not ok then return nil end
  local file = historyFile()
  readline.set_options { completion = false, auto_add = false, histfile = file or "/dev/null", keeplines = 1000 }
  return setmetatable({ readline = readline, historyFile = file }, Edited)
end

---- Without

local Plain = {}
Plain.__index = Plain

-- Ctrl-C at the prompt gives a new prompt.
function Plain:readLine(prompt)
  repeat
    input.tell(prompt)
    local isThere = cli.waitForInput(STDIN)
    if not isThere then input.tell "\n" end
  until isThere
  return io.read "l"
end

---What only a human at a terminal wants to see goes where one is shown, and into no file.
---@param text string
function input.tell(text)
  local shownAt = screen.isOut and io.stdout or screen.isErr and io.stderr
  if input.isTerminal and shownAt then shownAt:write(text):flush() end
end

input.isTerminal = cli.isTerminal(STDIN)

local reader

---The next message or command; nil at the end. A line that ends in a backslash goes on in the next.
---@return string?
function input.read()
  if not input.isTerminal then return io.read "l" end
  reader = reader or newEdited() or setmetatable({}, Plain)
  local lines, prompt = {}, PROMPT
  while true do
    local line = reader:readLine(prompt)
    if line == nil then return #lines > 0 and table.concat(lines, "\n") or nil end
    local begun = line:match "^(.*)\\$"
    lines[#lines + 1] = begun or line
    if not begun then return table.concat(lines, "\n") end
    prompt = CONTINUED
  end
end

return input
