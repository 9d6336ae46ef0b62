-- Joins C files of moonpad, and the headers of it that they include, in one file that compiles
-- alone.
--   lua5.4 scripts/amalgamate.lua OUTPUT.c FILE.c...
-- Public headers (moonpad.h, moonpad_lua.h) stay beside the file. What is local to a C file and has
-- the name of something in another one gets the name of its file behind it.

local ROOTS = { "src", "include" }

local output = arg[1]
local files = table.move(arg, 2, #arg, 1, {})

local function readAll(path)
  local file <close> = assert(io.open(path, "rb"))
  return assert(file:read("a"))
end

-- ---- Tokens ----

-- One of C's tokens at `at`, or one character: its kind and where it ends. A name is "name"; what
-- is between tokens is "space"; text of the preprocessor up to the name it is about, "directive". A
-- list of numbers is one "number": the Lua files as arrays are a million of them.
local KINDS = {
  { "space", "^/%*.-%*/()" },
  { "space", "^//[^\n]*()" },
  { "space", "^%s+()" },
  { "directive", "^#[ \t]*[a-z]+[ \t]*()" },
  { "name", "^[%a_][%w_]*()" },
  { "number", "^%d+,%d+,[%d,\n]*%d()" },
  { "number", "^%.?%d[%w_.]*()" },
  { "character", "^'\\?[^\n]-'()" },
  { "arrow", "^%->()" },
  { "dots", "^%.%.%.()" },
}

-- A string ends at the quote that no backslash hides.
local function endOfString(text, at)
  repeat
    at = text:find('["\\]', at + 1)
    local isEnd = text:byte(at) == 34
    if not isEnd then at = at + 1 end
  until isEnd
  return at + 1
end

local function tokenAt(text, at)
  if text:byte(at) == 34 then return "string", endOfString(text, at) end
  for _, kind in ipairs(KINDS) do
    local after = text:match(kind[2], at)
    if after then return kind[1], after end
  end
  return text:sub(at, at), at + 1
end

-- A list of { kind =, text = }, all of the text.
local function tokenize(text)
  local tokens, at = {}, 1
  while at <= #text do
    local kind, after = tokenAt(text, at)
    tokens[#tokens + 1] = { kind = kind, text = text:sub(at, after - 1) }
    at = after
  end
  return tokens
end

-- ---- What a C file names for itself ----

-- The tokens that mean something: without spaces, and without the preprocessor's lines.
local function meaningful(tokens)
  local list, inDirective = {}, false
  for _, token in ipairs(tokens) do
    if token.kind == "directive" then inDirective = true end
    if token.kind == "space" then
      -- A backslash before the end of the line goes on with it.
      if inDirective and token.text:find("\n", 1, true) and not token.isContinued then inDirective = false end
    elseif token.kind == "\\" and inDirective then
      token.isBackslash = true
    elseif not inDirective then
      list[#list + 1] = token
    end
  end
  return list
end

-- Marks the space behind a backslash, which does not end a directive.
local function markContinued(tokens)
  for i = 2, #tokens do
    if tokens[i].kind == "space" and tokens[i - 1].kind == "\\" then tokens[i].isContinued = true end
  end
end

local OPENING = { ["("] = 1, ["["] = 1, ["{"] = 1, [")"] = -1, ["]"] = -1, ["}"] = -1 }

-- Adds the names that a struct or enum brings at `i`, its keyword, to `names`; marks the declared
-- members of a struct with `isMember`.
local function readAggregate(list, i, names)
  local isEnum = list[i].text == "enum"
  local at = i + 1
  if list[at] and list[at].kind == "name" then
    names[list[at].text] = "type"
    at = at + 1
  end
  if not list[at] or list[at].kind ~= "{" then return end
  local depth = 0
  repeat
    local token, following = list[at], list[at + 1]
    depth = depth + (OPENING[token.kind] or 0)
    if token.kind == "name" and depth >= 1 then
      if isEnum then
        if list[at - 1].kind == "{" or list[at - 1].kind == "," then names[token.text] = "constant" end
      elseif following.kind:find("^[;,%[:)]") and list[at - 1].text ~= "struct" then
        token.isMember = true
      end
    end
    at = at + 1
  until depth == 0
end

-- The name that a declaration of a function or variable declares.
local function declaredName(list, first, last)
  local depth = 0
  for i = first, last do
    local token, following = list[i], list[i + 1]
    if depth == 0 and token.kind == "name" and not token.text:find("^MP_") and following then
      if following.kind:find("^[(=;,%[]") then return token.text end
    end
    depth = depth + (OPENING[token.kind] or 0)
  end
end

-- The name of a typedef: the last one, or that of a pointer to functions.
local function typedefName(list, first, last)
  for i = first, last do
    if list[i].kind == "(" and list[i + 1].kind == "*" and list[i + 2].kind == "name" then return list[i + 2].text end
  end
  for i = first, last do
    if list[i].kind == "(" then return list[i - 1].text end
  end
  return list[last - 1].text
end

-- Where a declaration outside of functions ends that begins at `first`: at `;`, or at the `}` of a
-- function.
local function endOfDeclaration(list, first)
  local depth, hasParentheses = 0, false
  for i = first, #list do
    local kind = list[i].kind
    depth = depth + (OPENING[kind] or 0)
    if kind == "(" then hasParentheses = true end
    if depth == 0 then
      if kind == ";" then return i end
      local following = list[i + 1]
      if kind == "}" and hasParentheses and not (following and following.kind:find("^[;,=]")) then return i end
    end
  end
  return #list
end

-- What the C file defines for itself alone, as name -> kind.
local function localNames(list)
  local names, first = {}, 1
  while first <= #list do
    local last = endOfDeclaration(list, first)
    for i = first, last do
      local word = list[i].text
      if word == "struct" or word == "union" or word == "enum" then
        -- A tag that is only used is somebody else's.
        local at = list[i + 1].kind == "name" and i + 2 or i + 1
        local isDeclared = list[at].kind == ";" and i == first
        if list[at].kind == "{" or isDeclared or list[first].text == "typedef" then readAggregate(list, i, names) end
      end
    end
    if list[first].text == "typedef" then
      names[typedefName(list, first, last)] = "type"
    elseif list[first].text == "static" or list[first].text == "MP_INLINE" then
      local name = declaredName(list, first, last)
      if name then names[name] = "object" end
    end
    first = last + 1
  end
  return names
end

-- ---- Headers ----

local PUBLIC = { ["moonpad.h"] = true, ["moonpad_lua.h"] = true }

local function findHeader(name)
  for _, root in ipairs(ROOTS) do
    local path = root .. "/" .. name
    local file = io.open(path, "rb")
    if file then
      file:close()
      return path
    end
  end
  error(name .. ": found in none of " .. table.concat(ROOTS, ", "))
end

local isIncluded = {}

-- The text with each header of moonpad in the place of its first #include.
local function expand(text)
  return (text:gsub('#include "([^"\n]+)"\n', function(name)
    if isIncluded[name] then return "" end
    isIncluded[name] = true
    if PUBLIC[name] then return ('#include "%s"\n'):format(name) end
    return ("/* ---- %s ---- */\n%s"):format(name, expand(readAll(findHeader(name))))
  end))
end

-- ---- Renaming ----

-- Those in more than one file, and those of the system, whose headers are all included before.
local SYSTEM = {}
for name in ([[accept bind connect listen send recv read write open close remove rename link index signal raise
  time clock sleep select poll pipe dup log exp y0 y1 j0 j1 jn yn gamma div abs abort exit system
  interface small near far]]):gmatch("%S+") do
  SYSTEM[name] = true
end

local function suffixOf(path)
  return "_in_" .. path:gsub("^.*src/", ""):gsub("%.c$", ""):gsub("[^%w]", "_")
end

-- The file's text with each name in `renamed` replaced, but for members.
local function rename(tokens, renamed)
  local parts, before = {}, nil
  for i, token in ipairs(tokens) do
    local text = token.text
    local isAccess = before and (before.kind == "." or before.kind == "arrow")
    if token.kind == "name" and renamed[text] and not isAccess and not token.isMember then text = renamed[text] end
    parts[i] = text
    if token.kind ~= "space" then before = token end
  end
  return table.concat(parts)
end

local function undefineMacros(text)
  local lines = {}
  for name in text:gmatch("\n#define ([%a_][%w_]*)") do
    if not name:find("^_") and not name:find("^WIN32_") then lines[#lines + 1] = "#undef " .. name .. "\n" end
  end
  return table.concat(lines)
end

-- ---- All of it ----

local sources, owners = {}, {}
for i, path in ipairs(files) do
  local tokens = tokenize(readAll(path))
  markContinued(tokens)
  local names = localNames(meaningful(tokens))
  sources[i] = { path = path, tokens = tokens, names = names }
  for name in pairs(names) do owners[name] = (owners[name] or 0) + 1 end
end

local HEAD = [[
/*
** moonpad %s in one file: %s.
** Made by `make amalgamation` of the files that are named below: change those.
**
%s*/
#if !defined(MOONPAD_NO_SQLITE)
#define MOONPAD_AGENT_STORES_INSIDE
#endif
#if defined(__EMSCRIPTEN__)
#define MOONPAD_HTTP_INSIDE
#endif
/* What the system's headers show of themselves. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#if !defined(_FILE_OFFSET_BITS)
#define _FILE_OFFSET_BITS 64
#endif
#if !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif
#if defined(__clang__)
/* Of what stood in headers not all is used. */
#pragma clang diagnostic ignored "-Wunused-function"
#endif
]]

local WHAT = {
  ["moonpad.c"] = "the C library",
  ["moonpad_lua.c"] = "the Lua module, which goes together with moonpad.c",
}

local function head()
  local version = readAll("include/moonpad.h"):match('#define MOONPAD_VERSION +"([^"]+)"')
  local licence = readAll("LICENSE"):gsub("[^\n]*\n", function(line) return #line > 1 and "** " .. line or "**\n" end)
  return HEAD:format(version, WHAT[output:match("[^/]+$")], licence)
end

local parts = { head() }

-- What is there under a condition. All of artifacts and memories is in SQLite, too.
local SQLITE, PAGE = "!defined(MOONPAD_NO_SQLITE)", "defined(MOONPAD_HTTP_INSIDE)"
local CONDITIONS = {
  ["src/store/sqlite/"] = SQLITE, ["src/agent_stores/"] = SQLITE, ["src/http/"] = PAGE, ["src/fetch/"] = PAGE,
}

local condition
local function guard(folder)
  local wanted = CONDITIONS[folder]
  if wanted == condition then return end
  if condition then parts[#parts + 1] = "\n#endif\n" end
  if wanted then parts[#parts + 1] = ("\n#if %s\n"):format(wanted) end
  condition = wanted
end

for _, source in ipairs(sources) do
  local renamed = {}
  for name in pairs(source.names) do
    if owners[name] > 1 or SYSTEM[name] then renamed[name] = name .. suffixOf(source.path) end
  end
  guard(source.path:match "^.*/")
  local text = rename(source.tokens, renamed)
  parts[#parts + 1] = ("\n/* ==== %s ==== */\n\n"):format(source.path:gsub("^.*src/", "src/"))
  parts[#parts + 1] = expand(text)
  parts[#parts + 1] = undefineMacros(text)
end
guard(nil)

local file <close> = assert(io.open(output, "wb"))
assert(file:write(table.concat(parts)))
