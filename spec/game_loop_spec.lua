-- examples/game_loop.lua: agents that think in a game loop.
local moonpad = require "moonpad"
local server = require "spec.support.http"
local support = require "spec.support"

describe("examples/game_loop.lua", function()
  after_each(support.cleanup)

  local function play(arguments, environment)
    local line = ("%s lua5.4 examples/game_loop.lua %s 2>&1"):format(environment or "", arguments)
    local pipe <close> = assert(io.popen(line))
    local output = pipe:read "a"
    local _, _, code = pipe:close()
    return output, code or 0
  end

  local function frameOf(output, pattern)
    return tonumber(output:match("frame +(%d+) +" .. pattern)) or error(pattern .. " is not in:\n" .. output)
  end

  it("lets three villagers think at the same time, and tells its worst step #native", function()
    local output, code = play "--seconds 3"
    assert.equal(0, code, output)
    assert.matches("^Night 1 in the village\n", output)
    local lastBegin, firstEnd = 0, math.huge
    for _, name in ipairs { "Mira", "Oswin", "Tilda" } do
      lastBegin = math.max(lastBegin, frameOf(output, "%(" .. name .. " sees: "))
      firstEnd = math.min(firstEnd, frameOf(output, name .. ": +That is number 1 on my list%."))
    end
    assert.is_true(lastBegin < firstEnd, output)
    -- The stand-in for a model counts frames, not seconds.
    -- By now each has gossiped twice, and two have told of the wolf.
    assert.matches("Rumours in the game: 6; what the village thinks of the player: 2\n", output)
    assert.matches("\n540 steps in 180 frames, 60 frames a second\n", output)
    assert.matches("\nstep: [%d.]+ ms on average, worst step [%d.]+ ms %(%w+ in frame %d+%)\n", output)
    assert.matches("\nshare of a frame's 16%.7 ms: [%d.]+ %% on average; in the worst frame [%d.]+ %%", output)
    assert.matches("\nworst collection [%d.]+ ms", output)
  end)

  it("remembers in a file what was seen before #native", function()
    local file = support.quote(support.tmpdir() .. "/village.db")
    local _, code = play("--seconds 2 --db " .. file)
    assert.equal(0, code)
    local output = play("--seconds 2 --db " .. file)
    assert.matches("^Night 2 in the village\n", output)
    assert.matches("Mira: +That is number 2 on my list%.", output)
    assert.matches("Rumours in the game: 6;", output)
  end)

  it("says what it takes", function()
    for _, arguments in ipairs { "--wrong", "--db", "--seconds soon", "six" } do
      local output, code = play(arguments)
      assert.equal(2, code, arguments)
      assert.equal("usage: game_loop.lua [--db FILE] [--seconds N] [--model NAME]\n", output)
    end
  end)

  it("lets a model over HTTP speak for the villagers #http", function()
    local web = server.start()
    local chunk = { choices = moonpad.array { { delta = { content = "Good night." }, finish_reason = "stop" } } }
    web:script { ["/chat/completions"] = server.stream { moonpad.json.encode(chunk), "[DONE]" } }
    finally(function() web:stop() end)
    local function hasSpoken(output)
      for _, name in ipairs { "Mira", "Oswin", "Tilda" } do
        if not output:find(name .. ": +Good night%.") then return false end
      end
      return true
    end
    -- Before the second thoughts, after 2 s, everybody has asked once and no more; a busy machine
    -- may answer later.
    local output, code = play("--seconds 1.9 --model gpt-test", "OPENAI_API_KEY=key OPENAI_BASE_URL=" .. web.url)
    assert.equal(0, code, output)
    assert.is_true(#web:requests() <= 3)
    if not hasSpoken(output) then
      output = play("--seconds 30 --model gpt-test", "OPENAI_API_KEY=key OPENAI_BASE_URL=" .. web.url)
    end
    assert.is_true(hasSpoken(output), output)
  end)

  it("says which key a real model lacks", function()
    local output, code = play "--seconds 1 --model deepseek-chat"
    assert.equal(1, code)
    assert.matches("DEEPSEEK_API_KEY", output)
  end)
end)
