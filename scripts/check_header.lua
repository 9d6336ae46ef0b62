-- Every function of a public header says which errors it can give and which threads may call it.
-- Every type of a function of the host's says what that may call of moonpad, and on which thread it
-- runs. They say it in the comment above; what stands directly below one, without a blank line
-- between, shares it, if SHARED says so. The functions are those that the libraries export, whose
-- symbols come in on standard input.
--   nm ... | lua5.4 scripts/check_header.lua FILE...     exit code 1 when something is not so

-- How many functions share the comment above the first of them.
local SHARED = {
  moonpad_version = 2,
  moonpad_null_value = 6,
  moonpad_service_retain = 2,
  moonpad_session_list_count = 5,
  moonpad_session_id = 8,
  moonpad_session_conflict_count = 2,
  moonpad_changes_discard = 2,
  moonpad_key_list_count = 3,
  moonpad_event_json = 4,
  moonpad_poll = 2,
  moonpad_fd = 2,
  moonpad_get_app_state = 2,
  moonpad_update_app_state = 2,
  moonpad_increment_app_state = 2,
  moonpad_rewind = 2,
  moonpad_export_session = 2,
}

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
  if first > 0 then return table.concat(lines, "\n", first, last), first end
end

-- The name of what is declared in a line, and what has to be said of it.
local function declared(line, following)
  if line:find("^typedef ") or line:find("%(%*[%w_]+%)%(") then
    return line:match("%(%*([%w_]+)%)%(") or line:match("([%w_]+)%("), OF_CALLBACK
  end
  if line:find("^MOONPAD_API%f[%W]") or line:find("^[%a_][^=]*%(") then
    return (line .. " " .. (following or "")):match("([%w_]+)%("), OF_FUNCTION
  end
end

local failed = false

local function complain(...)
  print(string.format(...))
  failed = true
end

local exported, found = {}, {}
for symbol in io.lines() do exported[symbol] = true end

local function check_export(path, number, line, name)
  if line:find("^MOONPAD_API") then
    found[name] = true
    if not exported[name] then complain("%s:%d: %s: no library exports it", path, number, name) end
  elseif not line:find("^static inline ") then
    complain("%s:%d: %s: neither MOONPAD_API nor static inline", path, number, name)
  end
end

-- `shared`: for each line where a comment begins, the functions that share it.
local function check_shared(path, shared)
  for above, names in pairs(shared) do
    local expected = SHARED[names[1]] or 1
    if #names ~= expected then
      complain("%s:%d: %d functions share this comment, and not %d (SHARED in scripts/check_header.lua)", path, above,
        #names, expected)
    end
  end
end

local function check(path)
  local lines, count, shared = lines_of(path), 0, {}
  for number, line in ipairs(lines) do
    local name, wanted = declared(line, lines[number + 1])
    if name then
      count = count + 1
      local comment, above = comment_of(lines, number)
      if wanted == OF_FUNCTION then
        check_export(path, number, line, name)
        if above then
          shared[above] = shared[above] or {}
          table.insert(shared[above], name)
        end
      end
      for _, word in ipairs(wanted) do
        if not (comment and comment:find(word, 1, true)) then
          complain('%s:%d: %s: no "%s" in the comment above it', path, number, name, word)
        end
      end
    end
  end
  check_shared(path, shared)
  if count == 0 then complain("%s: declares nothing", path) end
end

for _, path in ipairs(arg) do
  check(path)
end
for name in pairs(exported) do
  if not found[name] then complain("%s is exported, and in no header", name) end
end
os.exit(not failed)
