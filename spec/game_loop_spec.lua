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

  local function rumoursIn(output)
    return tonumber(output:match "Rumours in the game: (%d+);") or error(output)
  end

  it("lets three villagers think at the same time, and tells its worst step #native", function()
    -- Each gossips once in two seconds, when the store is quick: a disk that is busy has it wait.
    local output, rumours, seconds = nil, 0, 3
    local function isFar()
      for _, name in ipairs { "Mira", "Oswin", "Tilda" } do
        if not (output and output:find(name .. ": +That is number 1 on my list%.")) then return false end
      end
      return rumours >= 6
    end
    while not isFar() and seconds < 200 do
      local code
      output, code = play("--seconds " .. seconds)
      assert.equal(0, code, output)
      assert.matches(("\n%d steps in %d frames, 60 frames a second\n"):format(180 * seconds, 60 * seconds), output)
      rumours = rumoursIn(output)
      seconds = seconds * 4
    end
    assert.is_true(isFar(), output)
    assert.matches("^Night 1 in the village\n", output)
    local lastBegin, firstEnd = 0, math.huge
    for _, name in ipairs { "Mira", "Oswin", "Tilda" } do
      lastBegin = math.max(lastBegin, frameOf(output, "%(" .. name .. " sees: "))
      firstEnd = math.min(firstEnd, frameOf(output, name .. ": +That is number 1 on my list%."))
    end
    assert.is_true(lastBegin < firstEnd, output)
    -- The stand-in for a model counts frames, not seconds.
    -- When each has gossiped twice, two have told of the wolf.
    if output:find("in 180 frames", 1, true) then
      assert.matches("Rumours in the game: 6; what the village thinks of the player: 2\n", output)
    end
    assert.matches("\nstep: [%d.]+ ms on average, worst step [%d.]+ ms %(%w+ in frame %d+%)\n", output)
    assert.matches("\nshare of a frame's 16%.7 ms: [%d.]+ %% on average; in the worst frame [%d.]+ %%", output)
    assert.matches("\nworst collection [%d.]+ ms", output)
  end)

  it("remembers in a file what was seen before #native", function()
    -- As above.
    local isFar, output, seconds = false, nil, 2
    while not isFar and seconds < 200 do
      local arguments = ("--seconds %d --db %s"):format(seconds, support.quote(support.tmpdir() .. "/village.db"))
      local first, code = play(arguments)
      assert.equal(0, code, first)
      output = play(arguments)
      assert.matches("^Night 2 in the village\n", output)
      local before, after = rumoursIn(first), rumoursIn(output)
      local last, following = 0, tonumber(output:match "Mira: +That is number (%d+) on my list%.")
      for number in first:gmatch "Mira: +That is number (%d+) on my list%." do last = tonumber(number) end
      isFar = before >= 3 and after >= before + 3 and last > 0 and following ~= nil
      -- The list of the second night goes on where that of the first ends.
      if following then assert.is_true(following > last, first .. output) end
      seconds = seconds * 4
    end
    assert.is_true(isFar, output)
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
    for _, seconds in ipairs { 10, 60 } do
      if hasSpoken(output) then break end
      output = play(("--seconds %d --model gpt-test"):format(seconds),
        "OPENAI_API_KEY=key OPENAI_BASE_URL=" .. web.url)
    end
    assert.is_true(hasSpoken(output), output)
  end)

  it("says which key a real model lacks", function()
    local output, code
    -- It is missed when the model is asked.
    for _, seconds in ipairs { 1, 10, 60 } do
      output, code = play(("--seconds %d --model deepseek-chat"):format(seconds))
      if code ~= 0 then break end
    end
    assert.equal(1, code)
    assert.matches("DEEPSEEK_API_KEY", output)
  end)
end)
