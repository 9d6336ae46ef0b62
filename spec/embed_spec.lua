-- examples/embed.c: a game loop in C whose NPCs remember across restarts.
local support = require "spec.support"

-- The build that the specs run on is the one whose module they load.
local function program()
  local module = assert(package.searchpath("moonpad.core", package.cpath))
  return (module:gsub("moonpad/core%.so$", "examples/embed"))
end

describe("another Lua", function()
  local function commandOutput(command)
    local pipe <close> = assert(io.popen(command .. " 2>&1"))
    return pipe:read "a"
  end

  it("is told that it must be 5.4", function()
    local path = assert(package.searchpath("moonpad", package.path))
    for _, version in ipairs { "Lua 5.1", "Lua 5.2", "Lua 5.3" } do
      local load = assert(loadfile(path, "t", setmetatable({ _VERSION = version }, { __index = _G })))
      local ok, message = pcall(load, "moonpad", path)
      assert.is_false(ok)
      assert.are.equal("moonpad needs Lua 5.4, and this is " .. version, message)
    end
  end)

  -- Those that are installed.
  for _, name in ipairs { "luajit", "lua5.1", "lua5.2", "lua5.3" } do
    local version = commandOutput(name .. " -e 'io.write(jit and jit.version or _VERSION)'")
    if version:find "^Lua" then
      it("is told so at once, where it is " .. version, function()
        local text = commandOutput(name .. [[ -e 'print(select(2, pcall(require, "moonpad")))']])
        assert.are.equal("moonpad needs Lua 5.4, and this is " .. version .. "\n", text)
      end)
    end
  end
end)

describe("a host that opens few standard libraries", function()
  after_each(support.cleanup)

  -- Runs a program without the named libraries; returns what it prints.
  local function run(without, source)
    local path = support.tmpdir() .. "/program.lua"
    local file <close> = assert(io.open(path, "w"))
    file:write("local print = print\n")
    for _, name in ipairs(without) do file:write(("%s, package.loaded.%s = nil\n"):format(name, name)) end
    file:write(source)
    file:close()
    local pipe <close> = assert(io.popen(("lua5.4 %s 2>&1"):format(support.quote(path))))
    return pipe:read "a"
  end

  it("is told which one is missing", function()
    for _, name in ipairs { "coroutine", "math", "string", "table", "utf8" } do
      local text = run({ name }, "print(select(2, pcall(require, 'moonpad')))")
      assert.matches("moonpad needs the standard library " .. name .. ", which", text, 1, true)
    end
  end)

  it("can run agents without os, io and debug", function()
    assert.equal("x! true\ntool: look: failed\nno API key\n", run({ "os", "io", "debug" }, [[
      local moonpad = require "moonpad"
      local service = moonpad.open "memory:"
      local function run(definition)
        local agent = moonpad.agent(definition)
        local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
        local last
        for event in runner:run { userId = "u", sessionId = "s", newMessage = "x" } do last = event end
        return last
      end
      local last = run { name = "A", model = function(request, context)
        context.state.seen = true
        return request.contents[1].parts[1].text .. "!"
      end }
      print(last:text(), last.actions.stateDelta.seen)
      local ok, err = pcall(run, { name = "B", model = function(request)
        local answer = request.contents[#request.contents].parts[1].functionResponse
        if answer then return "tool: " .. answer.response.error end
        return { content = { parts = { { functionCall = { name = "look", args = {} } } } } }
      end, tools = { { name = "look", run = function() error("look: failed", 0) end } } })
      print(ok and err:text() or err)
      ok, err = pcall(run, { name = "C", model = "gpt-4o" })
      print(err.message:match "no API key")
    ]]):gsub("\t", " "))
  end)
end)

describe("examples/embed.c #examples", function()
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
