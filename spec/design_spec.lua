-- docs/design.md shows the life of a run in a picture; its names are those of the code.
local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function sources()
  local list = {}
  local find <close> = assert(io.popen "find lua/moonpad src/lua -name '*.lua' -o -name '*.c'")
  for path in find:lines() do list[path] = read(path) end
  return list
end

-- Where a function `module.name`, or a method `Class:name`, is defined.
local function isDefined(name, code)
  local own = name:match "^core%.(.+)$"
  for path, text in pairs(code) do
    if own and path:find "%.c$" and text:find(('{"%s",'):format(own), 1, true) then return true end
    if not own and text:find("function " .. name .. "(", 1, true) then return true end
  end
  return false
end

describe("the picture of a run's life", function()
  it("has the names that the code has", function()
    local code, count = sources(), 0
    for name in read("docs/run.svg"):gmatch 'class="code">([^<]+)<' do
      count = count + 1
      assert.is_true(isDefined(name, code), name .. " is in the picture and not in the code")
    end
    assert.is_true(count > 15)
    assert.is_false(isDefined("turn.walk", code))
  end)
end)
