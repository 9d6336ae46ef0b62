-- docs/contract.md: what comments cite of it exists, and its list of what this version does not
-- have yet is true. Who builds one of these takes its name out of the page, and its line out of
-- this file.
local moonpad = require "moonpad"

local function read(path)
  local file <close> = assert(io.open(path, "r"))
  return file:read("a")
end

local PAGE = read "docs/contract.md"

-- The numbers of all sections, each with how many numbered points it has.
local function sectionsOf(page)
  local sections, current = {}, nil
  for line in page:gmatch "[^\n]+" do
    local number = line:match "^##+ (%d[%d.]*)"
    if number then
      current = number:gsub("%.$", "")
      sections[current] = 0
    elseif current and line:find "^%d+%. " then
      sections[current] = math.tointeger(line:match "^%d+")
    end
  end
  return sections
end

-- What a text cites: "contract 2.1, 3" are two sections, "contract 1.4 points 2 and 3" two points.
local function citationsIn(text)
  local found = {}
  for rest in text:gmatch "[Cc]ontracts? s?e?c?t?i?o?n? ?(%d[%d%a,. ]*)" do
    local section, isPoint
    for word in rest:gmatch "%S+" do
      local number = word:match "^(%d[%d.]*),?$"
      number = number and number:gsub("%.$", "")
      if number then
        if not isPoint or number:find(".", 1, true) then section, isPoint = number, false end
        found[#found + 1] = { section = section, point = isPoint and math.tointeger(number) or 0 }
      elseif word:find "^points?$" then
        isPoint = true
      elseif word ~= "and" and word ~= "to" then
        break
      end
    end
  end
  return found
end

-- The text of a file without what begins the lines of comments.
local function unwrapped(path)
  return (read(path):gsub("\n[ \t]*[*/-]*[ \t]*", " "))
end

local function sources()
  local folders = "src include lua spec bench examples scripts"
  local list <close> = assert(io.popen("find " .. folders .. " -name '*.[ch]' -o -name '*.lua'"))
  return list:read "a":gmatch "[^\n]+"
end

describe("comments that cite docs/contract.md", function()
  it("are understood by this test", function()
    assert.are.same({
      { section = "2.1", point = 0 }, { section = "3", point = 0 }, { section = "1.4", point = 0 },
      { section = "1.4", point = 2 }, { section = "1.4", point = 3 }, { section = "2.2", point = 0 },
    }, citationsIn "(contract 2.1, 3). See contract section 1.4 points 2 and 3, 2.2: more than 5 words.")
  end)

  it("name sections and points that it has", function()
    local sections, count, missing = sectionsOf(PAGE), 0, {}
    for path in sources() do
      for _, cited in ipairs(citationsIn(unwrapped(path))) do
        count = count + 1
        local points = sections[cited.section]
        if not points or cited.point > points then
          missing[#missing + 1] = ("%s: contract %s point %d"):format(path, cited.section, cited.point)
        end
      end
    end
    assert.are.same({}, missing)
    assert.is_true(count > 50)
  end)
end)

---- What this version has

describe("docs/contract.md", function()
  it("says that this version has all of it but what its last section lists", function()
    local head = PAGE:match "^(.-)\n# moonpad: the public contract\n":gsub("\n> ?", " ")
    local version = moonpad._VERSION:gsub("^moonpad ", "")
    assert.is_truthy(head:find("Version " .. version .. " has all of it but what [section 11]", 1, true))
    assert.is_truthy(PAGE:find("\n## 11. Not there yet\n", 1, true))
  end)

  it("names no command that `moonpad` does not have", function()
    local parser = require("moonpad.cli.options").parser()
    for _, line in ipairs {
      "run agent.lua", "new clerk", "sessions --app=a --json", "sessions delete --app=a", "sessions export",
      "sessions import", "sessions fork", "events", "state --json", "apps --json", "eval agent.lua cases.lua --json",
      "models --json", "serve agent.lua --port=0", "sweep a.db", "forget a.db --app=a --user=u", "migrate a.db --print",
      "copy a.db b.db",
    } do
      local words = {}
      for word in line:gmatch "%S+" do words[#words + 1] = word end
      assert.is_true(parser:pparse(words), line)
    end
  end)
end)
