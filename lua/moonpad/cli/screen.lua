--- What a terminal is shown: colours where it has them, and text that cannot steer it.
local cli = require "moonpad.cli_core"
local errorText = require "moonpad.util.error_text"
local shown = require "moonpad.util.shown"

local screen = {}

local STDOUT <const>, STDERR <const> = 1, 2

screen.isOut, screen.isErr = cli.isTerminal(STDOUT), cli.isTerminal(STDERR)

-- https://no-color.org: whatever it is set to.
local function isSet(name)
  local value = os.getenv(name)
  return value ~= nil and value ~= ""
end

screen.canMove = screen.isOut and cli.hasCodes()
local hasColours = screen.canMove and not isSet "NO_COLOR"

local CODES = { bold = "\27[1m", dim = "\27[2m", red = "\27[31m" }
local RESET <const> = "\27[0m"

---@param style "bold"|"dim"|"red"
---@param text string
---@return string text with codes around it where the terminal has colours
function screen.styled(style, text)
  return hasColours and CODES[style] .. text .. RESET or text
end

---A text of somebody else's: at a terminal, control characters are shown and not obeyed, but for
---the ends of lines and tabs. What goes into a file or a pipe stays as it is.
---@param text string
---@param isScreen boolean? default: is standard output a terminal?
---@return string
function screen.text(text, isScreen)
  if isScreen == nil then isScreen = screen.isOut end
  if not isScreen or not text:find "[\0-\8\11-\31\127-\xFF]" then return text end
  local pieces = {}
  for piece, break_ in (errorText.valid(text) .. "\n"):gmatch "([^\n\t]*)([\n\t])" do
    pieces[#pieces + 1] = shown.escaped(piece) .. break_
  end
  return (table.concat(pieces):gsub("\n$", ""))
end

---Takes the line away that the cursor is in.
function screen.clearLine()
  io.stdout:write("\r\27[K"):flush()
end

---Writes a text that `clearLine` takes away whole: what has no place in the line is not shown.
---@param text string without an end of line
function screen.writeLine(text)
  local noWrap <const>, wrap <const> = "\27[?7l", "\27[?7h"
  io.stdout:write(noWrap, text, wrap):flush()
end

return screen
