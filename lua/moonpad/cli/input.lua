--- The lines that a user types, or that come from a pipe. At a terminal they can be edited, and
--- earlier ones come back, where moonpad was built with libedit.
local cli = require "moonpad.cli_core"
local failure = require "moonpad.cli.failure"
local screen = require "moonpad.cli.screen"

local STDIN <const> = 0
local INTERRUPTED <const> = 4 -- EINTR
local PROMPT <const>, CONTINUED <const> = "> ", "... "

local input = {}

-- The file that keeps earlier lines: by the XDG Base Directory Specification.
local function historyFile()
  local state, home = os.getenv "XDG_STATE_HOME", os.getenv "HOME"
  if not state or state:sub(1, 1) ~= "/" then state = home and home ~= "" and home .. "/.local/state" end
  local folder = state and state .. "/moonpad"
  return folder and cli.makeFolders(folder) and folder .. "/history" or nil
end

---- With libedit

local Edited = {}
Edited.__index = Edited

-- Ctrl-C at the prompt gives a new prompt.
function Edited:readLine(prompt)
  local line
  repeat
    line = self.editor:read(prompt)
    if line == false then
      cli.interrupted()
      io.stdout:write("^C\n"):flush()
    end
  until line ~= false
  if line == nil then io.stdout:write "\n" end
  if line and line:find "%S" then self.editor:remember(line, self.historyFile) end
  return line
end

local function newEdited()
  if not screen.canMove then return nil end
  local ok, editline = pcall(require, "moonpad.editline_core")
  if not ok then return nil end
  -- It counts in characters, not in bytes, and where the locale is another one it would lose some.
  local locale = os.setlocale("", "ctype")
  if not (locale and locale:lower():find "utf%-?8") and not os.setlocale("C.UTF-8", "ctype") then return nil end
  local file = historyFile()
  return setmetatable({ editor = editline.open(file), historyFile = file }, Edited)
end

---- Without

local Plain = {}
Plain.__index = Plain

function Plain.readLine(_, prompt)
  local line
  repeat
    input.tell(prompt)
    line = cli.readLine()
    if not line then input.tell "\n" end
  until line ~= false
  return line
end

---What only a human at a terminal wants to see goes where one is shown, and into no file.
---@param text string
function input.tell(text)
  local shownAt = screen.isOut and io.stdout or screen.isErr and io.stderr
  if input.isTerminal and shownAt then shownAt:write(text):flush() end
end

input.isTerminal = cli.isTerminal(STDIN)

-- Lines of files from other systems end in CR LF.
local function readPiped()
  local line, problem, code = io.read "l"
  if problem and code ~= INTERRUPTED then failure.raise("standard input cannot be read: %s", problem) end
  return line and (line:gsub("\r$", ""))
end

local reader

---The next message or command; nil at the end. A line that ends in a backslash goes on in the next.
---@return string?
function input.read()
  if not input.isTerminal then return readPiped() end
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
