-- Runs the examples of README.md and compares what they print with what README.md says they print.
--   lua5.4 scripts/readme_examples.lua BUILD
-- An example is a ```lua or ```c block followed, before any other such block, by a ```text block
-- with its output.

local build = assert(arg[1], "usage: readme_examples.lua BUILD")

local function output(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read("a")
  local ok = pipe:close()
  return text, ok
end

local function write(path, text)
  local file <close> = assert(io.open(path, "w"))
  assert(file:write(text))
end

local folder = os.tmpname()
assert(os.remove(folder))
assert(os.execute("mkdir " .. folder))
local root = output("pwd"):gsub("\n$", "")
local absolute = build:sub(1, 1) == "/" and build or root .. "/" .. build

-- Each runs in a folder of its own, where the database files of the examples appear.
local run = {
  lua = function(text)
    write(folder .. "/example.lua", text)
    return output(("cd %s && LUA_PATH='%s/lua/?.lua;%s/lua/?/init.lua;;' LUA_CPATH='%s/?.so;;' lua5.4 example.lua")
      :format(folder, root, root, absolute))
  end,
  c = function(text)
    write(folder .. "/example.c", text)
    return output(("cd %s && cc -std=c11 -Wall -Wextra -Werror -I%s/include -o example example.c %s/libmoonpad.a "
      .. "-lsqlite3 -lpthread -lm && ./example"):format(folder, root, absolute))
  end,
}

local readme = assert(io.open("README.md", "r")):read("a")
local example, language
local tried, failed = {}, 0
for kind, text in readme:gmatch("```(%a+)\n(.-)```") do
  if run[kind] then
    example, language = text, kind
  elseif kind == "text" and example then
    local got, ok = run[language](example)
    if not ok or got ~= text then
      failed = failed + 1
      print(("README.md, the %s example prints:\n%s\ninstead of:\n%s"):format(language, got, text))
    end
    tried[language], example = true, nil
  end
end
os.execute("rm -rf " .. folder)

for name in pairs(run) do
  if not tried[name] then
    failed = failed + 1
    print("README.md has no " .. name .. " example with its output")
  end
end
os.exit(failed == 0)
