-- What the Lua side takes: time to load it, and memory. Each figure is that of new processes.
--   lua5.4 bench/small.lua FOLDER     (bench/small.sh does it)
local support = require "bench.support"

local folder = assert(arg[1], "usage: PROGRAM FOLDER, or better bench/small.sh")
local PROCESSES <const> = 21

-- What was loaded and done before the clock was asked: milliseconds that the processor worked, and
-- kilobytes more of Lua's memory.
local MEASURE = [[
  collectgarbage() collectgarbage()
  local size, start = collectgarbage "count", os.clock()
  %s
  local time = (os.clock() - start) * 1e3
  collectgarbage() collectgarbage()
  print(time, collectgarbage "count" - size)
]]
local REQUIRE = [[ moonpad = require "moonpad" ]]
local RUN = REQUIRE .. [[
  local agent = moonpad.agent { name = "A", model = function() return "Yes." end }
  runner = moonpad.runner { appName = "a", agent = agent, url = "memory:" }
  for _ in runner:run { userId = "u", newMessage = "Hi!" } do end
]]

local function inNewProcesses(source)
  local path, times, sizes = folder .. "/program.lua", {}, {}
  local file <close> = assert(io.open(path, "w"))
  assert(file:write(MEASURE:format(source)))
  file:close()
  for index = 1, PROCESSES do
    local pipe <close> = assert(io.popen("lua5.4 " .. path))
    times[index], sizes[index] = pipe:read("n", "n")
  end
  return support.median(times), support.median(sizes)
end

-- The command asks the first question, is told nothing, and ends: milliseconds on the wall, of the
-- process that others held up least.
local function timeOfCommand()
  local path, times = folder .. "/agent.lua", {}
  local file <close> = assert(io.open(path, "w"))
  assert(file:write('return require("moonpad").agent { name = "A", model = function() return "Yes." end }\n'))
  file:close()
  local command = ("bin/moonpad run --db memory: %s </dev/null >/dev/null"):format(path)
  for index = 1, PROCESSES do
    local start = support.wall()
    assert(os.execute(command))
    times[index] = (support.wall() - start) / 1e3
  end
  return math.min(table.unpack(times))
end

-- The first step of a process, while nobody answers. What was loaded before it is not counted.
local FIRST_STEP = [[
  local support, moonpad = require "bench.support", require "moonpad"
  local server = assert(require "socket".bind("127.0.0.1", 0))
  local model = moonpad.models.openai { model = "m", apiKey = "k",
    baseUrl = "http://127.0.0.1:" .. select(2, server:getsockname()) }
  local runner = moonpad.runner { appName = "a", agent = moonpad.agent { name = "A", model = model }, url = "memory:" }
  local run = runner:start { userId = "u", newMessage = "Hi!" }
  local start = support.worked()
  assert(run:step() == "waiting")
  print(support.worked() - start)
  run:cancel()
]]

-- A server to which nothing happens, in a game's loop.
local IDLE_STEP = [[
  local support, moonpad = require "bench.support", require "moonpad"
  local agent = moonpad.agent { name = "A", model = function() return "Yes." end }
  local server = moonpad.server { port = 0,
    apps = { a = moonpad.runner { appName = "a", agent = agent, url = "memory:" } } }
  server:step(0)
  local start = support.worked()
  for _ = 1, 1000 do server:step(0) end
  print((support.worked() - start) / 1000)
]]

-- Microseconds, as the processes print them.
local function printed(source)
  local path, times = folder .. "/program.lua", {}
  local file <close> = assert(io.open(path, "w"))
  assert(file:write(source))
  file:close()
  for index = 1, PROCESSES do
    local pipe <close> = assert(io.popen("lua5.4 " .. path))
    times[index] = pipe:read "n"
  end
  return support.median(times)
end

local time, size = inNewProcesses(REQUIRE)
support.bounded("26", 'require "moonpad"', "ms", time, 5)
support.noted("", 'Lua\'s memory after require "moonpad"', "KB", size)
time, size = inNewProcesses(RUN)
support.noted("", "the same and the first run of an agent", "ms", time)
support.noted("", "Lua's memory after it", "KB", size)
support.bounded("26", "moonpad run, up to the first question and its end, the fastest of 21", "ms", timeOfCommand(), 40)
support.bounded("27", "the first step of a process whose model answers over HTTP", "ms", printed(FIRST_STEP) / 1e3, 2)
support.bounded("27", "a step of a server to which nothing happens", "us", printed(IDLE_STEP), 50)
