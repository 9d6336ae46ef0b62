-- moonpad.process_core with children in Lua, on every system: what they are told, and how they end.
local children = require "spec.support.children"
local core = require "moonpad.core"
local files = require "spec.support.files"
local paths = require "moonpad.util.paths"
local processCore = require "moonpad.process_core"
local support = require "spec.support"

local await, environment, readAll = children.await, children.environment, children.readAll

describe("a child in Lua", function()
  local started
  before_each(function() started = {} end)
  after_each(function()
    for _, process in ipairs(started) do process:close() end
    support.cleanup()
  end)

  local function start(code, arguments, more)
    local options = children.inLua(code, arguments)
    for name, value in pairs(more or {}) do options[name] = value end
    local process = assert(processCore.start(options))
    started[#started + 1] = process
    return process
  end

  local function ending(process)
    return support.waitUntil("the end", function() return process:ending() end)
  end

  it("gets each argument as it is", function()
    local given = { "", "a b", 'say "hi"', [[C:\new folder\]], [[\\"\]], "tab\there", "grüße, мир", "50%", "^&|<>" }
    local process = start([[
      for _, argument in ipairs(require "moonpad.cli_core".arguments(arg)) do io.write(argument, "\n") end
    ]], given)
    assert.equal(table.concat(given, "\n") .. "\n", readAll(process))
    assert.equal("it ended with exit code 0", ending(process))
  end)

  it("gets the variables that it is given, and no others", function()
    local process = start([[
      local core = require "moonpad.core"
      print(core.environment "COLOUR", core.environment "LANG", core.environment "MOONPAD_BUILD")
    ]], {}, { environment = environment "COLOUR=grün" })
    assert.equal("grün\tnil\tnil\n", readAll(process))
  end)

  it("works in its folder", function()
    local folder = support.tmpdir() .. "/grün"
    assert(require "moonpad.cli_core".makeFolder(folder))
    files.write(support.tmpdir() .. "/other", "")
    local made = assert(core.openFile(folder .. "/here", "wb"))
    made:write "found"
    made:close()
    local process = start([[print((io.open "here" or io.stdin):read "a")]], {}, { folder = folder,
      environment = { "LUA_PATH=", "LUA_CPATH=", table.unpack(environment(), 3) } })
    assert.equal("found\n", readAll(process))
  end)

  it("is heard on both streams, and tells how it ended", function()
    local process = start [[io.stderr:write "err" print "out" os.exit(3)]]
    assert.equal("err", readAll(process, "error"))
    assert.equal("out\n", readAll(process))
    assert.equal("it ended with exit code 3", ending(process))
  end)

  it("is told more than pipes hold, and answers as much, without blocking its host", function()
    local go = support.tmpdir() .. "/go"
    -- It takes nothing until it is told to.
    local process = start([[
      while not io.open(arg[1]) do require "moonpad.core".sleep(0.01) end
      for line in io.lines() do io.write(line, "\n") io.flush() end
    ]], { go })
    local text = ("x"):rep(3 * 1024 * 1024)
    assert.is_true(process:write(text))
    assert.is_true(process:isWriting())
    files.write(go, "")
    process:write "\n"
    local size = 0
    while size <= #text do
      local piece, isAtEnd = process:read "output"
      assert.is_nil(isAtEnd)
      size = size + #(piece or "")
      if not piece then await(process) end
      process:flush()
    end
    assert.is_false(process:isWriting())
  end)

  it("hears what was written before its host closed it", function()
    local note = support.tmpdir() .. "/note"
    local process = start([[
      local line = io.read "l"
      local file <close> = io.open(arg[1], "wb")
      file:write(line)
    ]], { note })
    process:write "the last words\n"
    process:close()
    support.waitUntil("the note", function() return files.read(note) == "the last words" end)
  end)

  it("is ended when it will not end", function()
    local note = support.tmpdir() .. "/note"
    local process = start([[
      while true do
        local file = io.open(arg[1], "ab")
        file:write "x"
        file:close()
        require "moonpad.core".sleep(0.01)
      end
    ]], { note })
    support.waitUntil("the note", function() return files.read(note) ~= "" end)
    process:close()
    support.waitUntil("the end of its writing", function()
      local written = #files.read(note)
      core.sleep(0.5)
      return #files.read(note) == written
    end)
  end)

  it("is refused with what is missing", function()
    local function try(command, folder)
      local process, message, what = processCore.start { command = command, environment = environment(),
        folder = folder }
      assert.is_nil(process)
      assert.is_true(#message > 0)
      return what
    end
    assert.equal("program", try { "no-such-program" })
    assert.equal("program", try { support.tmpdir() })
    assert.equal("folder", try({ "lua5.4" }, support.tmpdir() .. "/none"))
  end)

  if not paths.isWindows then return end

  it("may be a file of commands, with arguments that those understand", function()
    local folder = support.tmpdir()
    files.write(folder .. "/tell.cmd", "@echo %1 %2\r\n")
    local function command(...)
      return { command = { folder .. "/tell", ... }, environment = environment() }
    end
    local process = assert(processCore.start(command("a b", "c")))
    started[#started + 1] = process
    assert.equal('"a b" c\n', readAll(process))
    for _, argument in ipairs { "a & b", "%PATH%", 'a"b', "a\nb", "!x!", "^" } do
      local refused, _, what = processCore.start(command(argument))
      assert.is_nil(refused)
      assert.equal("start", what)
    end
  end)
end)
