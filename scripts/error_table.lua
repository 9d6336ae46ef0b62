-- Writes the table of error cases of spec/support/error_cases.lua into docs/lua.md.
-- spec/docs_spec.lua checks that it is the current one.
--   LUA_PATH="lua/?.lua;lua/?/init.lua;./?.lua;;" LUA_CPATH="build/?.so;;" \
--     lua5.4 scripts/error_table.lua
local PAGE = "docs/lua.md"
local BEGIN, END = "<!%-%- error cases.-%-%->\n", "<!%-%- end of error cases %-%->"

local function cell(text)
  return (text:gsub("|", "\\|"):gsub("\n", " "))
end

---@return string markdown
local function render()
  local lines = { "| you | get | and the message says |", "|---|---|---|" }
  for _, case in ipairs(require "spec.support.error_cases") do
    lines[#lines + 1] = ("| %s | `%s` | %s |"):format(cell(case.what), case.code, cell("`" .. case.says .. "`"))
  end
  return table.concat(lines, "\n") .. "\n"
end

if arg and arg[0] and arg[0]:find("error_table", 1, true) then
  local file = assert(io.open(PAGE, "r"))
  local text = file:read("a")
  file:close()
  local _, head = text:find(BEGIN)
  local tail = text:find(END)
  file = assert(io.open(PAGE, "w"))
  file:write(text:sub(1, head), render(), text:sub(tail))
  file:close()
end

return { render = render }
