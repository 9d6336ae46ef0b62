-- Every ```lua block of the pages below runs, and prints what it says after `-->`.
local support = require "spec.support"

local PAGES = {
  "docs/lua.md", "docs/agents.md", "docs/services.md", "docs/testing.md", "docs/cookbook.md",
  "docs/adk.md", "docs/housekeeping.md", "docs/mcp.md", "docs/serve.md", "docs/tracing.md",
}
local PRELUDE = [[local moonpad = require "moonpad"; local service = moonpad.open("memory:"); ]]
  .. [[local session = service:createSession { appName = "shop", userId = "ann", sessionId = "s1" }; ]]

local function read(path)
  local file <close> = assert(io.open(path, "r"))
  return file:read("a")
end

-- The blocks with the line that each begins in.
local function blocks(text)
  local found, line, current = {}, 0, nil
  for content in (text .. "\n"):gmatch("(.-)\n") do
    line = line + 1
    if current and content == "```" then
      found[#found + 1], current = current, nil
    elseif current then
      current.lines[#current.lines + 1] = content
    elseif content == "```lua" then
      current = { line = line + 1, lines = {} }
    end
  end
  return found
end

local function expected(block)
  local lines = {}
  for _, line in ipairs(block.lines) do
    local output = line:match("%-%->%s?(.*)$")
    if output then lines[#lines + 1] = output end
  end
  return lines
end

-- What a block needs that not every system has: scripts/platforms.sh.
local MARKS = { ["moonpad%.mcp {"] = " #process", ["moonpad%.server {"] = " #server" }

local function mark(block)
  local text = table.concat(block.lines, "\n")
  for use, found in pairs(MARKS) do
    if text:find(use) then return found end
  end
  return ""
end

local function run(block)
  local printed = {}
  local env = setmetatable({
    print = function(...)
      local parts = table.pack(...)
      for i = 1, parts.n do parts[i] = tostring(parts[i]) end
      for line in (table.concat(parts, "\t") .. "\n"):gmatch "([^\n]*)\n" do printed[#printed + 1] = line end
    end,
  }, { __index = _G })
  local chunk = assert(load(PRELUDE .. table.concat(block.lines, "\n"), "=example", "t", env))
  chunk()
  return printed
end

for _, page in ipairs(PAGES) do
  describe(page, function()
    after_each(support.cleanup)
    for _, block in ipairs(blocks(read(page))) do
      it("is right at line " .. block.line .. mark(block), function()
        assert.are.same(expected(block), run(block))
      end)
    end
  end)
end

describe("docs/lua.md", function()
  it("shows every error case that has a spec", function()
    local table_of_errors = dofile("scripts/error_table.lua").render()
    assert.is_truthy(read("docs/lua.md"):find(table_of_errors, 1, true),
      "the table of error cases is out of date: run scripts/error_table.lua")
  end)
end)

describe("docs/reference.md", function()
  it("is what the annotations say #posix", function()
    local pipe = assert(io.popen "lua5.4 scripts/reference.lua")
    local text = pipe:read "a"
    assert.is_true(pipe:close())
    assert.is_true(text == read "docs/reference.md", "docs/reference.md is out of date: run make reference")
  end)
end)

describe("README.md", function()
  it("tests an agent as the example does", function()
    local shown = read("README.md"):match "## Test your agent\n.-\n```text\n(.-)```"
    local indented = ("\n" .. shown):gsub("\n(%s*%S)", "\n  %1"):sub(2)
    assert.is_truthy(read("examples/spec/barista_spec.lua"):find(indented, 1, true))
  end)
end)
