-- Every function of a public header says which errors it can give and which threads may call it.
-- Every type of a function of the host's says what that may call of moonpad, and on which thread it
-- runs. They say it in the comment above; what stands directly below one, without a blank line
-- between, shares it.
--   lua5.4 scripts/check_header.lua FILE...     exit code 1 when something is not said

local OF_FUNCTION, OF_CALLBACK = { "Errors:", "Threads:" }, { "May call:", "Threads:" }

-- The lines of a file, comments and all.
local function lines_of(path)
  local lines = {}
  for line in io.lines(path) do
    lines[#lines + 1] = line
  end
  return lines
end

-- The comment that the declaration at `number` shares, as one text, or nil.
local function comment_of(lines, number)
  local last = number
  while last > 0 and not lines[last]:find("%*/$") or last > 0 and lines[last]:find("^%s") do
    if lines[last] == "" then return nil end
    last = last - 1
  end
  local first = last
  while first > 0 and not lines[first]:find("^/%*") do
    first = first - 1
  end
  return first > 0 and table.concat(lines, "\n", first, last) or nil
end

-- The name of what is declared in a line, and what has to be said of it.
local function declared(line, following)
  if line:find("^MOONPAD_API ") or line:find("^static inline ") then
    return (line .. " " .. (following or "")):match("([%w_]+)%("), OF_FUNCTION
  end
  return line:match("%(%*([%w_]+)%)%("), OF_CALLBACK
end

local failed = false

local function check(path)
  local lines = lines_of(path)
  local count = 0
  for number, line in ipairs(lines) do
    local name, wanted = declared(line, lines[number + 1])
    if name then
      count = count + 1
      local comment = comment_of(lines, number)
      for _, word in ipairs(wanted) do
        if not (comment and comment:find(word, 1, true)) then
          print(('%s:%d: %s: no "%s" in the comment above it'):format(path, number, name, word))
          failed = true
        end
      end
    end
  end
  if count == 0 then
    print(path .. ": declares nothing")
    failed = true
  end
end

for _, path in ipairs(arg) do
  check(path)
end
os.exit(not failed)
