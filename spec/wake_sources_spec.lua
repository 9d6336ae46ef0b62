-- Waits end when there is news: of transfers and of child processes, in one place.
local children = require "spec.support.children"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local http = require "moonpad.http"
local processCore = require "moonpad.process_core"
local processes = require "spec.support.processes"
local support = require "spec.support"
local wakeSources = require "moonpad.runtime.wake_sources"
local web = require "spec.support.http"

-- Far longer than anything here takes: who waits that long has failed.
local LONG = 300

-- A child as a source; `heard` is what it has said. It says lines, and listens till the end.
local function childSource(code)
  local source = { heard = "", isNeeded = true }
  source.process = assert(processCore.start(children.inLua(([[
    local core = require "moonpad.core"
    local function say(line) io.write(line, "\n"):flush() end
    %s
    io.read "a"
  ]]):format(code))))
  function source:isActive() return self.isNeeded end
  function source:prepare(readable, writable) self.process:descriptors(readable, writable) end
  function source:advance()
    local piece = self.process:read "output"
    self.heard = self.heard .. children.plain(piece or "")
    return piece ~= nil
  end
  wakeSources.add(source)
  return source
end

describe("a wait", function()
  local source, server
  after_each(function()
    if source then
      wakeSources.remove(source)
      source.process:close()
    end
    if server then server:stop() end
    source, server = nil, nil
    support.cleanup()
  end)

  local function elapsed(action)
    local begin = core.monotonic()
    action()
    return core.monotonic() - begin
  end

  it("ends when a child says something, and not before", function()
    local seconds = elapsed(function()
      source = childSource "core.sleep(0.1) say 'hello'"
      while source.heard == "" do wakeSources.wait(LONG) end
    end)
    assert.equal("hello\n", source.heard)
    assert.is_true(seconds >= 0.1 and seconds < LONG / 2, "took " .. seconds)
    assert.is_false(wakeSources.wait(0.01))
  end)

  it("of http.poll and of a run that nobody steps ends as well", function()
    source = childSource "io.read() say 'one' io.read() say 'two'"
    assert.is_true(source.process:write "\n")
    while source.heard ~= "one\n" do assert.is_true(http.poll(LONG)) end
    assert.is_true(source.process:write "\n")
    while source.heard ~= "one\ntwo\n" do coroutines.pause(LONG) end
  end)

  it("does not wait for what nothing is awaited of", function()
    source = childSource "say 'never read'"
    source.isNeeded = false
    assert.is_false(wakeSources.isActive())
    coroutines.pause(0.2)
    assert.equal("", source.heard)
  end)

  it("ends for a transfer while a child is silent, and the other way round #http", function()
    server = web.start()
    server:script { ["/a"] = { held = true, body = "there" } }
    source = childSource "io.read() say 'hello'"
    local job <close> = http.request { url = server.url .. "/a" }
    local asked = elapsed(function()
      repeat http.poll(0.01) until #server:requests() == 1
    end)
    assert.is_true(asked < LONG)
    source.process:write "\n"
    while source.heard == "" do wakeSources.wait(LONG) end
    assert.is_nil(job.status)
    server:release()
    while not job.status do
      wakeSources.wait(LONG)
      job:step()
    end
    assert.equal("there", job:collect())
  end)

  -- Those that a wait asks.
  local function asked()
    local list = {}
    wakeSources.prepare(list, {}, {})
    return #list
  end

  it("forgets a source that nobody holds", function()
    -- The end of a transfer, in the spec before, may not have been taken in yet.
    while wakeSources.wait(0) do end
    local list, before = setmetatable({}, { __mode = "v" }), asked()
    do
      local dropped = childSource ""
      assert.equal(before + 1, asked())
      list[1] = dropped
      dropped.process:close()
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(list[1])
    assert.equal(before, asked())
    assert.is_false(wakeSources.wait(0))
  end)

  it("takes short naps where the module that waits is not there", function()
    assert.equal("true\tfalse\n", processes.lua [[
      package.preload["moonpad.process_core"] = function() error "not installed" end
      local core = require "moonpad.core"
      local http = require "moonpad.http"
      local begin = core.monotonic()
      local moved = http.poll(300)
      print(core.monotonic() - begin < 150, moved)]])
  end)
end)
