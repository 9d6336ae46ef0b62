-- examples/game_loop.lua: agents that think in a game loop.
local support = require "spec.support"

describe("examples/game_loop.lua", function()
  after_each(support.cleanup)

  local function play(arguments)
    local pipe <close> = assert(io.popen(("lua5.4 examples/game_loop.lua %s 2>&1"):format(arguments)))
    local output = pipe:read "a"
    local _, _, code = pipe:close()
    return output, code or 0
  end

  it("lets three villagers think at the same time, and tells its worst step", function()
    local output, code = play "--seconds 2.5"
    assert.equal(0, code, output)
    for _, name in ipairs { "Mira", "Oswin", "Tilda" } do
      assert.matches(name .. ": +That makes 1 things I have seen%.", output)
    end
    assert.matches("Rumours in the game: %d+; what the village thinks of the player: %-?%d+", output)
    assert.matches("450 steps at 60 frames a second: [%d.]+ ms on average, worst step [%d.]+ ms", output)
  end)

  it("remembers in a file what was seen before", function()
    local file = support.quote(support.tmpdir() .. "/village.db")
    local _, code = play("--seconds 2 --db " .. file)
    assert.equal(0, code)
    assert.matches("Mira: +That makes 2 things I have seen%.", (play("--seconds 2 --db " .. file)))
  end)

  it("says what it takes", function()
    local output, code = play "--wrong"
    assert.equal(2, code)
    assert.matches("usage: game_loop.lua", output)
  end)

  it("says which key a real model lacks", function()
    local output, code = play "--seconds 1 --model deepseek-chat"
    assert.not_equal(0, code)
    assert.matches("DEEPSEEK_API_KEY", output)
  end)
end)
