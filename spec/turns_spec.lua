-- Tests that take turns (spec/support/turns.lua): each has one, and what has none now is counted.
-- And how much of them a scope has (spec/support/scope.lua).
local checks = require "spec.support.checks"
local files = require "spec.support.files"
local support = require "spec.support"
local turns = require "spec.support.turns"

local quote, write = support.quote, files.write

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

turns.quickRunsOneIn(3)

describe("tests that take turns", function()
  local folder
  before_each(function()
    folder = support.tmpdir()
    write(folder .. "/some_spec.lua", SPECS)
  end)
  after_each(support.cleanup)

  -- The names of the tests that were run, as a set, and the counts.
  local function run(turn, scope)
    local command = ("env -u STORE -u MOONPAD_TEST_POSTGRESQL -u MOONPAD_TEST_MYSQL -u MOONPAD_TEST_REDIS "
      .. "MOONPAD_SCOPE=%s MOONPAD_TURN=%s lua5.4 /usr/bin/busted --ignore-lua --cpath=%s "
      .. "-o scripts/busted_output.lua -Xoutput %s %s"):format(scope or "", turn, quote(package.cpath),
      quote(folder .. "/counts"), quote(folder .. "/some_spec.lua"))
    local pipe <close> = assert(io.popen(command .. " 2>&1"))
    local names, text = {}, pipe:read "a"
    for name in text:gmatch "<([^<>]*)>" do names[name] = true end
    local counts = {}
    for count in files.read(folder .. "/counts"):match("^[^\n]*"):gmatch "%d+" do
      counts[#counts + 1] = tonumber(count)
    end
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

  it("say what is no turn, and no scope", function()
    local _, _, text = run "often"
    assert.matches("MOONPAD_TURN=often: neither a number nor all", text, 1, true)
    _, _, text = run("1", "some")
    assert.matches("MOONPAD_SCOPE=some: neither whole, all, test, turn nor quick", text, 1, true)
  end)

  it("have all variants in the scope of make test", function()
    assert.are.same({ ALL, 0, 0, 0 }, select(2, run(5, "test")))
  end)

  it("are on the stores that their rule depends on", function()
    write(folder .. "/some_spec.lua", [[
      local support = require "spec.support"
      support.each_store(function(_, store) it("each", function() io.write("<each ", store, ">") end) end)
      support.any_store(function(_, store) it("any", function() io.write("<any ", store, ">") end) end)
    ]])
    local function ran(turn, scope)
      local list = checks.keys((run(turn, scope)))
      return table.concat(list, ", ")
    end
    local memory, file = "each memory:", "each sqlite:FILE"
    assert.are.equal("any memory:, any sqlite:FILE, each memory:, each sqlite:FILE", ran("", "all"))
    assert.are.equal("any memory:, " .. memory .. ", " .. file, ran(0, "test"))
    assert.are.equal("any sqlite:FILE, " .. memory .. ", " .. file, ran(1, "test"))
    assert.are.equal("any sqlite:FILE, " .. file, ran(1, "turn"))
    assert.are.equal("any memory:, " .. memory, ran(1, "quick"))
  end)

  it("may be few of a file in make quick, each in its turn", function()
    write(folder .. "/some_spec.lua", [[
      local turns = require "spec.support.turns"
      it("always", function() io.write "<always>" end)
      turns.quickRunsOneIn(3)
      for index = 1, 6 do it("once " .. index, function() io.write("<", index, ">") end) end
    ]])
    local seen = {}
    for turn = 1, 3 do
      local names, counts = run(turn, "quick")
      assert.is_true(names.always)
      assert.are.same({ 3, 0, 0, 4 }, counts)
      for name in pairs(names) do seen[name] = true end
    end
    assert.are.equal(7, size(seen))
    assert.are.same({ 7, 0, 0, 0 }, select(2, run(1, "test")))
  end)
end)
