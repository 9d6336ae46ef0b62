-- docs/storage.md: its Lua makes the file that it speaks of, and sqlite3 shows there what it says.
local support = require "spec.support"

local quote = support.quote

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function output(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  return pipe:read "a"
end

-- The blocks of a page in order: { language, text, line }.
local function blocks(text)
  local found, line, block = {}, 0, nil
  for content in text:gmatch "(.-)\n" do
    line = line + 1
    local language = content:match "^```(%a*)$"
    if not language then
      if block then block.text = block.text .. content .. "\n" end
    elseif block then
      found[#found + 1], block = block, nil
    else
      block = { language = language, text = "", line = line + 1 }
    end
  end
  return found
end

-- A dialogue with the shell: statements, and what is printed after each.
local function dialogue(text)
  local list = {}
  for line in text:gmatch "(.-)\n" do
    local first, more = line:match "^sqlite> (.*)$", line:match "^   %.%.%.> (.*)$"
    local last = list[#list]
    if first then
      list[#list + 1] = { statement = first, answer = "" }
    elseif more then
      last.statement = last.statement .. "\n" .. more
    else
      last.answer = last.answer .. line .. "\n"
    end
  end
  return list
end

-- When the examples were run last does not matter.
local function timeless(text)
  return (text:gsub("%d%d%d%d%-%d%d%-%d%d %d%d:%d%d:%d%d", "YYYY-MM-DD HH:MM:SS"))
end

describe("docs/storage.md", function()
  local page = read "docs/storage.md"
  local folder, place

  setup(function()
    folder = support.tmpdir()
    place = "cd " .. quote(folder) .. " && "
    local here = output("pwd"):gsub("\n$", "")
    place = ("%sLUA_PATH=%s LUA_CPATH=%s "):format(place, quote(here .. "/lua/?.lua;" .. here .. "/lua/?/init.lua;;"),
      quote(package.cpath))
  end)
  teardown(support.cleanup)

  local start = page:match "Started with `(sqlite3 [^`]*)`"

  for _, block in ipairs(blocks(page)) do
    if block.language == "lua" then
      it("makes its file at line " .. block.line, function()
        assert.equal("", output(("%s lua5.4 -e %s"):format(place, quote(block.text))))
      end)
    elseif block.text:find "^sqlite> " then
      it("shows what is in it at line " .. block.line, function()
        for _, step in ipairs(dialogue(block.text)) do
          local shown = output(("%s %s %s"):format(place, start, quote(step.statement)))
          assert.equal(timeless(step.answer), timeless(shown:gsub(" +\n", "\n")))
        end
      end)
    end
  end
end)
