--- Lists on standard output: a table for people, or a line of JSON each for programs.
local errorText = require "moonpad.util.error_text"
local moonpad = require "moonpad"
local screen = require "moonpad.cli.screen"
local shown = require "moonpad.util.shown"

local output = {}

---A stored name in one line of its own, whatever it holds.
---@param text string
---@return string
function output.name(text)
  return shown.escaped(errorText.valid(text))
end

---"1 session", "2 sessions"
---@param number integer
---@param one string
---@param many? string default: with an s
---@return string
function output.count(number, one, many)
  return ("%d %s"):format(number, number == 1 and one or many or one .. "s")
end

---A value as JSON. At a terminal nothing in it moves the cursor.
---@param value any
---@return string
function output.json(value)
  return screen.text(moonpad.json.encode(value))
end

local function widthOf(text)
  return utf8.len(text) or #text
end

local function printTable(rows)
  local widths = {}
  for _, row in ipairs(rows) do
    for column, text in ipairs(row) do widths[column] = math.max(widths[column] or 0, widthOf(text)) end
  end
  for _, row in ipairs(rows) do
    local cells = {}
    for column, text in ipairs(row) do
      local padding = column < #row and widths[column] - widthOf(text) or 0
      cells[column] = text .. (" "):rep(padding)
    end
    print(table.concat(cells, "  "))
  end
end

-- What %z is on POSIX; on Windows that is a name, of any length.
local function zone(seconds)
  local here, utc = os.date("*t", seconds), os.date("!*t", seconds)
  utc.isdst = here.isdst
  local minutes = (os.time(here) - os.time(utc)) // 60
  return ("%s%02d%02d"):format(minutes < 0 and "-" or "+", math.abs(minutes) // 60, math.abs(minutes) % 60)
end

---A time by the clock of this machine, with its zone.
---@param seconds number since 1970
---@return string
function output.time(seconds)
  seconds = math.floor(seconds)
  return ("%s %s"):format(os.date("%Y-%m-%d %H:%M:%S", seconds), zone(seconds))
end

---Prints a list.
---@param options table of the command line: `json`
---@param columns { [1]: string, [2]: string, [3]: (fun(value: any): string)? }[] heading, field, and how it is shown
---@param items table[] with these fields
function output.list(options, columns, items)
  if options.json then
    for _, item in ipairs(items) do io.stdout:write(moonpad.json.encode(item), "\n"):flush() end
    return
  end
  local rows = { {} }
  for index, column in ipairs(columns) do rows[1][index] = column[1] end
  for number, item in ipairs(items) do
    local row = {}
    for index, column in ipairs(columns) do
      local value = item[column[2]]
      row[index] = output.name(column[3] and column[3](value) or tostring(value))
    end
    rows[number + 1] = row
  end
  printTable(rows)
end

return output
