-- Compiles and runs the C examples of documents, each in a folder of its own.
--   lua5.4 scripts/check_doc_examples.lua BUILD FILE...
-- An example is a ```c block that begins with #include. Where a ```text block follows before any
-- other block of code it is what the example must print. An example that includes moonpad_lua.h is
-- linked with Lua. CC, CFLAGS and LDFLAGS are taken from the environment.

local build = assert(arg[1], "usage: check_doc_examples.lua BUILD FILE...")

local function output(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read("a")
  return text, (pipe:close())
end

local root = output("pwd"):gsub("\n$", "")
local folder = build:sub(1, 1) == "/" and build or root .. "/" .. build
local compiler = os.getenv("CC") or "cc"
local flags = os.getenv("CFLAGS") or "-O1"
local linker_flags = os.getenv("LDFLAGS") or ""

local warnings = "-std=c11 -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wvla "
  .. "-Werror"

local function compile_command(text)
  local lua_flags, lua_libraries = "", ""
  if text:find("#include <moonpad_lua.h>", 1, true) then
    lua_flags = "$(pkg-config --cflags lua5.4)"
    lua_libraries = folder .. "/libmoonpad_lua.a"
  end
  local libraries = folder .. "/libmoonpad.a " .. (lua_flags ~= "" and "$(pkg-config --libs lua5.4)" or "")
  return table.concat({ compiler, warnings, flags, "-I" .. root .. "/include", lua_flags,
    "-pthread -o example example.c", lua_libraries, libraries, "-lsqlite3 -lpthread -lm", linker_flags }, " ")
end

local function run(text)
  local place = os.tmpname()
  assert(os.remove(place))
  assert(os.execute("mkdir " .. place))
  do
    local file <close> = assert(io.open(place .. "/example.c", "w"))
    assert(file:write(text))
  end
  local got, ok = output(("cd %s && %s && ./example"):format(place, compile_command(text)))
  os.execute("rm -rf " .. place)
  return got, ok
end

-- The fenced blocks of a document in order: { language =, text =, line = }.
local function blocks(path)
  local found, block, number = {}, nil, 0
  for line in io.lines(path) do
    number = number + 1
    local language = line:match("^```(%a*)%s*$")
    if not language then
      if block then block.text = block.text .. line .. "\n" end
    elseif block then
      found[#found + 1], block = block, nil
    else
      block = { language = language, text = "", line = number }
    end
  end
  return found
end

local examples, failed = 0, 0
for i = 2, #arg do
  local found = blocks(arg[i])
  for index, block in ipairs(found) do
    if block.language == "c" and block.text:find("^%s*#include") then
      local after = found[index + 1]
      local expected = after and after.language == "text" and after.text
      local got, ok = run(block.text)
      examples = examples + 1
      if not ok or expected and got ~= expected then
        failed = failed + 1
        print(("%s:%d: this example prints:\n%s%s%s"):format(arg[i], block.line, got,
          expected and "instead of:\n" or "", expected or ""))
      end
    end
  end
end
print(("documents: %d C examples, %d failed"):format(examples, failed))
os.exit(failed == 0 and examples > 0)
