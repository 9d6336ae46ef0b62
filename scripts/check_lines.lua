--- Code is at most 120 columns wide, comments are at most 100. Annotations for editors (---@, ---|)
--- are one line each by their nature and count as code. Of shell scripts and the Makefile, a
--- comment is a line that begins with #, or one that has # and a space behind its code. Lines of
--- documents are at most 120 columns wide; rows of tables, and what programs print, cannot be
--- broken.
---   lua5.4 scripts/check_lines.lua FILE...     exit code 1 when a line is too long

local CODE, COMMENT = 120, 100

-- Does a line of C hold a part of a comment? Strings are left out: "/*" may stand in them.
local function c_comment(line, inside)
  local has = inside
  local at = 1
  while at <= #line do
    if inside then
      local _, stop = line:find("*/", at, true)
      if not stop then return true, true end
      inside, at = false, stop + 1
    else
      local quote = line:find("[\"']", at)
      local open = line:find("/[*/]", at)
      if not open then return has, false end
      if quote and quote < open then
        local mark = line:sub(quote, quote)
        local close = quote + 1
        while close <= #line and line:sub(close, close) ~= mark do
          close = close + (line:sub(close, close) == "\\" and 2 or 1)
        end
        at = close + 1
      else
        has = true
        if line:sub(open, open + 1) == "//" then return true, false end
        inside, at = true, open + 2
      end
    end
  end
  return has, inside
end

local function hash_comment(line) return line:find "^%s*#" or line:find "%s# [^'\"]*$" end
local function lua_comment(line) return line:find("^%s*%-%-") and not line:find("^%s*%-%-%-[@|]") end

-- A function that tells of each line of a document whether it may be as long as it likes.
local function new_exemption()
  local block
  return function(line)
    local language = line:match "^%s*```(%a*)"
    if language then
      block = not block and language or nil
      return false
    end
    if block then return block ~= "lua" and block ~= "c" and block ~= "sh" end
    return line:find "^|" ~= nil
  end
end

local found = 0
for _, name in ipairs(arg) do
  local is_document = name:find "%.md$" ~= nil
  local is_exempt = is_document and new_exemption() or function() return false end
  local is_c, inside, number = name:find "%.[ch]$" or name:find "%.cjs$", false, 0
  local is_script = name:find "%.sh$" or name:find "^%.ci/" or name:find "Makefile$" or name:find "%.mk$"
  for line in io.lines(name) do
    number = number + 1
    local is_comment
    if is_c then
      is_comment, inside = c_comment(line, inside)
    elseif not is_document then
      is_comment = (is_script and hash_comment or lua_comment)(line)
    end
    local limit = is_comment and COMMENT or CODE
    local width = utf8.len(line) or #line
    if not is_exempt(line) and width > limit then
      found = found + 1
      print(("%s:%d: %d columns, at most %d"):format(name, number, width, limit))
    end
  end
end
os.exit(found == 0)
