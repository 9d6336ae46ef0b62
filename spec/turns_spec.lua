-- Tests that take turns (spec/support/turns.lua): each has one, and what has none now is counted.
local support = require "spec.support"

local quote = support.quote

local SPECS <const> = [[
local turns = require "spec.support.turns"
local function told(name) return function() io.write("<", name, ">") end end

for index, store in ipairs { "one", "two" } do
  turns.describe(store, turns.isDue(index, 2), function()
    it("is always here", told(store))
    describe("and below it", function()
      for way = 1, 3 do
        turns.describe("way " .. way, turns.isDue(way, 3), function() it("is here", told(store .. way)) end)
      end
    end)
  end)
end
for index = 1, 4 do turns.it("alone " .. index, turns.isDue(index, 4), told("alone" .. index)) end
it("after them", told "after")
]]

local ALL <const> = 13

describe("tests that take turns", function()
  local folder
  before_each(function()
    folder = support.tmpdir()
    local file <close> = assert(io.open(folder .. "/some_spec.lua", "w"))
    assert(file:write(SPECS))
  end)
  after_each(support.cleanup)

  -- The names of the tests that were run, as a set, and the counts.
  local function run(turn)
    local command = ("MOONPAD_TURN=%s lua5.4 /usr/bin/busted --ignore-lua --cpath=%s -o scripts/busted_output.lua "
      .. "-Xoutput %s %s"):format(turn, quote(package.cpath), quote(folder .. "/counts"),
      quote(folder .. "/some_spec.lua"))
    local pipe <close> = assert(io.popen(command .. " 2>&1"))
    local names, text = {}, pipe:read "a"
    for name in text:gmatch "<([^<>]*)>" do names[name] = true end
    local file <close>, counts = assert(io.open(folder .. "/counts")), {}
    for count in file:read("l"):gmatch "%d+" do counts[#counts + 1] = tonumber(count) end
    return names, counts, text
  end

  local function size(set)
    local count = 0
    for _ in pairs(set) do count = count + 1 end
    return count
  end

  it("are all run where nobody asks for a turn", function()
    for _, turn in ipairs { "", "all" } do
      local names, counts = run(turn)
      assert.are.equal(ALL, size(names))
      assert.are.same({ ALL, 0, 0, 0 }, counts)
    end
  end)

  it("are run or counted in each turn, and all of them in twelve", function()
    local seen = {}
    for turn = 1, 12 do
      local names, counts = run(turn)
      assert.is_true(names.after)
      assert.are.equal(4, size(names)) -- a store, a way on it, one that is alone, and "after"
      assert.are.same({ 4, 0, 0, ALL - 4 }, counts)
      for name in pairs(names) do seen[name] = true end
    end
    assert.are.equal(ALL, size(seen))
  end)

  it("say what is no turn", function()
    local _, counts, text = run "often"
    assert.are.same({ 0, 1, 0, 0 }, counts)
    assert.matches("MOONPAD_TURN=often: neither a number nor all", text, 1, true)
  end)
end)
