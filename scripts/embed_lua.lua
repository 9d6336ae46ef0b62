-- Writes Lua files as C arrays, for hosts that carry moonpad's Lua inside their program.
--   lua5.4 scripts/embed_lua.lua OUTPUT.c ROOT FILE...   (or @NAMES, a file with a name a line)
-- A file ROOT/a/b.lua becomes the module "a.b", ROOT/a/init.lua the module "a". Files below meta/
-- only describe types to editors and are left out.

local output, root = arg[1], arg[2]

local function readAll(path)
  local file <close> = assert(io.open(path, "rb"))
  return assert(file:read("a"))
end

local function moduleName(path)
  local pattern = "^" .. root:gsub("%p", "%%%0") .. "/(.+)%.lua$"
  local inside = assert(path:match(pattern), path .. ": not a Lua file below " .. root)
  return (inside:gsub("/init$", ""):gsub("/", "."))
end

local function byteRows(text)
  local rows = {}
  for first = 1, #text, 24 do
    rows[#rows + 1] = table.concat({ text:byte(first, math.min(first + 23, #text)) }, ",")
  end
  return table.concat(rows, ",\n")
end

local function filesGiven()
  local list = arg[3] and arg[3]:match("^@(.+)")
  if not list then return table.move(arg, 3, #arg, 1, {}) end
  local files = {}
  for line in io.lines(list) do files[#files + 1] = line end
  return files
end

local modules = {}
for _, path in ipairs(filesGiven()) do
  if not path:find("/meta/", 1, true) then
    modules[#modules + 1] = { name = moduleName(path), text = readAll(path) }
  end
end
table.sort(modules, function(a, b) return a.name < b.name end)

local parts = { '/* Written by scripts/embed_lua.lua from the files below lua/. */\n#include "lua/sources.h"\n\n' }
for i, module in ipairs(modules) do
  -- C knows no empty array; the length says that the one byte is not part of the text.
  local bytes = #module.text > 0 and byteRows(module.text) or "0"
  parts[#parts + 1] = ("static const unsigned char source_%d[] = {\n%s};\n\n"):format(i, bytes)
end
parts[#parts + 1] = "const mp_lua_source mp_lua_sources[] = {\n"
for i, module in ipairs(modules) do
  parts[#parts + 1] = ('    {"%s", (const char *)source_%d, %d},\n'):format(module.name, i, #module.text)
end
parts[#parts + 1] = "    {NULL, NULL, 0}};\n"

local file <close> = assert(io.open(output, "wb"))
assert(file:write(table.concat(parts)))
