-- moonpad.process_core: children that inherit nothing, never block their host, never outlive it.
local children = require "spec.support.children"
local moonpad = require "moonpad"
local processCore = require "moonpad.process_core"
local processes = require "spec.support.processes"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

local await, readAll = children.await, children.readAll

describe("a child process", function()
  local started
  before_each(function() started = {} end)
  after_each(function()
    for _, process in ipairs(started) do process:close() end
    support.cleanup()
  end)

  local function try(command, more)
    local options = { command = command, environment = { "PATH=" .. os.getenv "PATH" } }
    for name, value in pairs(more or {}) do options[name] = value end
    return processCore.start(options)
  end

  local function start(command, more)
    local process = assert(try(command, more))
    started[#started + 1] = process
    return process
  end

  local function readLine(process)
    local line = ""
    while not line:find "\n" do
      await(process)
      line = line .. (process:read "output" or "")
    end
    return line:match "^[^\n]*"
  end

  it("reads what it is told, and is heard", function()
    local process = start { "cat" }
    assert.is_nil((process:read "output"))
    assert.is_true(process:write "Hello, ")
    assert.is_true(process:write "world\n")
    assert.equal("Hello, world", readLine(process))
    assert.is_nil(process:ending())
  end)

  it("is heard on standard error as well, and tells how it ended", function()
    local process = start { "sh", "-c", "echo out; echo err >&2; exit 3" }
    assert.equal("err\n", readAll(process, "error"))
    assert.equal("out\n", readAll(process))
    assert.equal("it ended with exit code 3", support.waitUntil("the end", function() return process:ending() end))
    local killed = start { "sh", "-c", "kill -9 $$" }
    assert.equal("it was ended by signal 9", support.waitUntil("the end", function() return killed:ending() end))
  end)

  it("works in its folder, where a relative path of it begins as well", function()
    local folder = support.tmpdir()
    local make = "cd %s && mkdir sub && printf '#!/bin/sh\\npwd\\n' > sub/tell && chmod +x sub/tell"
    assert(os.execute(make:format(folder)))
    assert.equal(folder .. "\n", readAll(start({ "pwd" }, { folder = folder })))
    assert.equal(folder .. "\n", readAll(start({ "./sub/tell" }, { folder = folder })))
    assert.equal(folder .. "\n", readAll(start({ "tell" }, { folder = folder, environment = { "PATH=/nowhere:sub" } })))
  end)

  it("is refused with what is missing", function()
    local folder = support.tmpdir()
    assert(os.execute("touch " .. folder .. "/plain"))
    local here = { environment = { "PATH=" .. folder } }
    assert.same({ nil, "No such file or directory", "program" }, { try { "no-such-program" } })
    assert.same({ nil, "No such file or directory", "program" }, { try({ "ls" }, here) })
    assert.same({ nil, "Is a directory", "program" }, { try { folder } })
    assert.same({ nil, "Permission denied", "program" }, { try { folder .. "/plain" } })
    assert.same({ nil, "Permission denied", "program" }, { try({ "plain" }, here) })
    assert.same({ nil, "No such file or directory", "folder" }, { try({ "ls" }, { folder = folder .. "/none" }) })
    assert.same({ nil, "Not a directory", "folder" }, { try({ "ls" }, { folder = folder .. "/plain" }) })
    assert.same({ nil, "File name too long", "program" }, { try { ("x"):rep(5000) } })
  end)

  it("inherits no descriptor of its host", function()
    local own <close> = assert(io.open("spec/process_core_spec.lua")) -- without FD_CLOEXEC
    assert(own)
    local other = start { "cat" }
    local list = readAll(start { "sh", "-c", "ls /proc/$$/fd" })
    assert.equal("0\n1\n2\n", list)
    assert.is_nil(other:ending())
  end)

  it("inherits no variable of its host", function()
    local text = readAll(start({ "/usr/bin/env" }, { environment = { "A=1", "B=x=y", "C=" } }))
    assert.equal("A=1\nB=x=y\nC=\n", text)
  end)

  it("inherits no signal that its host ignores #native", function()
    local text = processes.lua([[
      local processCore = require "moonpad.process_core"
      local process = assert(processCore.start { command = { "/bin/grep", "-E", "SigIgn|SigBlk", "/proc/self/status" },
        environment = {} })
      local readable = {}
      process:descriptors(readable, {})
      processCore.poll(readable, {}, 60)
      print(process:read "output")]], "trap '' HUP INT PIPE TERM;")
    -- 32 and 33 are glibc's own, which posix_spawn leaves ignored.
    assert.matches("SigBlk:\t0000000000000000\n", text, 1, true)
    assert.matches("SigIgn:\t0000000[01]80000000\n", text)
  end)

  it("gets large texts without blocking its host", function()
    local text = ("0123456789abcdef"):rep(256 * 1024)
    -- Who waited for this one would do so until it ends, and then hear that it has.
    local deaf = start { "sleep", "300" }
    assert.is_true(deaf:write(text))
    assert.is_nil(deaf:ending())
    local cat = start { "cat" }
    assert.is_true(cat:write(text))
    local heard = {}
    while #table.concat(heard) < #text do
      await(cat)
      assert.is_true(cat:flush())
      heard[#heard + 1] = cat:read "output"
    end
    assert.is_true(table.concat(heard) == text)
  end)

  it("that has closed its end kills nobody who writes to it", function()
    local process = start { "true" }
    processes.awaitEnd(process:id())
    assert.same({ nil, "Broken pipe" }, { process:write "x" })
    assert.same({ nil, "Broken pipe" }, { process:write(("x"):rep(100000)) })
    -- A host that has not ignored the signal lives on.
    assert.equal("alive\n", processes.lua [[
      local processCore = require "moonpad.process_core"
      local process = assert(processCore.start { command = { "/bin/true" }, environment = {} })
      while not process:ending() do processCore.poll({}, {}, 0.01) end
      process:write "x"
      print "alive"]])
  end)

  it("is reaped although nobody asks for it", function()
    local process = start { "true" }
    processes.awaitEnd(process:id())
    local slow = start { "cat" }
    assert(os.execute("kill -9 " .. slow:id()))
    processes.awaitEnd(slow:id())
    assert.equal("it was ended by signal 9", slow:ending())
  end)

  it("leaves nobody of its group behind", function()
    local process = start { "sh", "-c", "sleep 600 & echo $!; exit 0" }
    local grandchild = tonumber(readLine(process))
    processes.awaitDeath(grandchild)
    processes.awaitEnd(process:id())
  end)

  describe("that is closed", function()
    -- Whether it was there when the host went on: it does not wait.
    local function close(process, grandchild)
      local id = process:id()
      process:close()
      local lives = processes.lives(id)
      processes.awaitEnd(id)
      if grandchild then processes.awaitDeath(grandchild) end
      return lives
    end

    it("ends as its standard input does", function()
      local saved = support.tmpdir() .. "/saved"
      -- On a machine that is busy, the time that it is left may be over before it has done that.
      support.waitUntil("a process that is left the time to end by itself", function()
        local process = start { "sh", "-c", "echo ready; cat > /dev/null; sleep 0.1; touch " .. saved }
        readLine(process)
        close(process)
        return io.open(saved)
      end)
    end)

    it("is ended, with its group, when it will not", function()
      local code = "trap '' TERM; sh -c 'trap \"\" TERM; echo $$; while :; do sleep 1; done' & wait; wait"
      -- On a machine that is busy it may be ended before the host has looked.
      support.waitUntil("a process that is there after it was closed", function()
        local process = start { "sh", "-c", code }
        return close(process, tonumber(readLine(process)))
      end)
    end)

    it("may be closed again, and is of no more use", function()
      local process = start { "cat" }
      process:close()
      process:close()
      for _, method in ipairs { "write", "flush", "read", "ending", "isForeign", "id", "descriptors" } do
        local ok, message = pcall(process[method], process, "output")
        assert.is_false(ok, method)
        assert.matches("the process is closed", message, 1, true)
      end
    end)

    it("is closed when it is collected, and at the end of a block", function()
      local id
      do
        local process <close> = start { "cat" }
        id = process:id()
      end
      processes.awaitEnd(id)
      id = assert(try { "cat" }):id()
      collectgarbage()
      collectgarbage()
      processes.awaitEnd(id)
    end)
  end)

  describe("is ended with its host", function()
    local START = [[
      local processCore = require "moonpad.process_core"
      local process = assert(processCore.start { command = { "/bin/sh", "-c", %q }, environment = {} })
      local readable = {}
      process:descriptors(readable, {})
      processCore.poll(readable, {}, 60)
      print(process:id())
      ]]
    local POLITE, STUBBORN = "echo; cat", "trap '' TERM; echo; while :; do sleep 1; done"

    for _, case in ipairs {
      { "that ends", "" }, { "that calls os.exit", "os.exit(0)" }, { "that fails", "error 'no'" },
      { "that has closed it", "process:close()" }, { "that is closed by os.exit", "os.exit(true, true)" },
      { "that has just closed it, and calls os.exit", "process:close() os.exit(0)" },
    } do
      it(case[1], function()
        for _, child in ipairs { POLITE, STUBBORN } do
          local id = tonumber(processes.lua(START:format(child) .. case[2]):match "^%d+")
          -- When the host is gone, so is it.
          assert.is_false(processes.exists(id), child)
        end
      end)
    end
  end)

  it("says what is wrong with what it is given", function()
    local function refusal(...)
      local ok, message = pcall(processCore.start, ...)
      assert.is_false(ok)
      return message
    end
    assert.matches("table expected", refusal())
    assert.matches("command: expected a list of strings", refusal {})
    assert.matches("command: it is empty", refusal { command = {}, environment = {} })
    assert.matches("command: expected strings", refusal { command = { 1 }, environment = {} })
    assert.matches("command: a string has a NUL byte", refusal { command = { "a\0b" }, environment = {} })
    assert.matches("environment: expected a list of strings", refusal { command = { "ls" } })
  end)

  it("costs no descriptor and no memory when it is gone", function()
    local function round()
      start({ "cat" }):close()
      started = {}
    end
    round()
    local before = processes.descriptors()
    for _ = 1, 20 do round() end
    assert.equal(before, processes.descriptors())
    support.waitUntil("the end of all", function() return #processes.childrenOf(processes.own()) == 0 end)
  end)
end)

describe("waiting for descriptors", function()
  it("ends in time when nothing happens", function()
    local begin = moonpad.clock()
    assert.is_false(processCore.poll({}, {}, 0.02))
    assert.is_true(moonpad.clock() - begin >= 0.02)
    assert.is_false(processCore.poll({}, {}, 0))
    assert.is_false(processCore.poll({}, {}, -1))
    assert.is_false(processCore.poll({}, {}, 0 / 0))
  end)
end)
