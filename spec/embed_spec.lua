-- examples/embed.c: a game loop in C whose NPCs remember across restarts.
local support = require "spec.support"

-- The build that the specs run on is the one whose module they load.
local function program()
  local module = assert(package.searchpath("moonpad.core", package.cpath))
  return (module:gsub("moonpad/core%.so$", "examples/embed"))
end

describe("examples/embed.c", function()
  after_each(support.cleanup)

  local function run(arguments)
    local pipe <close> = assert(io.popen(("%s %s 2>&1"):format(support.quote(program()), arguments)))
    local output = pipe:read "a"
    local _, _, code = pipe:close()
    return output, code or 0
  end

  it("keeps what its NPCs remember in the file, and goes on from there", function()
    local file = support.quote(support.tmpdir() .. "/npcs.db")
    local first, firstCode = run("--frames 30 " .. file)
    assert.are.equal(0, firstCode, first)
    local second, secondCode = run("--frames 30 " .. file)
    assert.are.equal(0, secondCode, second)
    assert.matches("us at worst", first)
    assert.matches("After:.*all together have seen %d+ things", first)
    assert.are_not.equal(first, second)
  end)

  it("says what is wrong with a file that cannot be", function()
    local output, code = run(support.quote(support.tmpdir() .. "/no/such/folder/npcs.db"))
    assert.are_not.equal(0, code)
    assert.matches("storage: .*No such file or directory", output)
  end)
end)
