-- busted's terminal output, and in the end the counts as one line "PASSED FAILED PENDING LEFT" in
-- the file that -Xoutput names, followed by one line for each test that failed. LEFT are the tests
-- that another turn runs (spec/support/turns.lua). Until the end the file says that the spec file
-- that is under way has failed: so scripts/run_tests.sh knows where busted crashed.

return function(options)
  local busted = require "busted"
  local handler = require("busted.outputHandlers." .. options.defaultOutput)(options)
  local path = assert(options.arguments[1], "-Xoutput FILE: where to write the counts")

  local function writeFailures(file, failures)
    for _, failure in ipairs(failures) do
      local trace = failure.trace or {}
      assert(file:write(("%s:%s: %s\n"):format(trace.short_src or "?", trace.currentline or "?", failure.name or "?")))
    end
  end

  local left = 0
  busted.subscribe({ "test", "left to another turn" }, function()
    left = left + 1
    return nil, true
  end)

  local function write(underWay)
    local file <close> = assert(io.open(path, "wb"))
    local failed = handler.failuresCount + handler.errorsCount + (underWay and 1 or 0)
    assert(file:write(("%d %d %d %d\n"):format(handler.successesCount, failed, handler.pendingsCount, left)))
    writeFailures(file, handler.failures)
    writeFailures(file, handler.errors)
    if underWay then assert(file:write(underWay, ": the process ended in the middle\n")) end
  end

  busted.subscribe({ "file", "start" }, function(file)
    write(file.name)
    return nil, true
  end)

  busted.subscribe({ "suite", "end" }, function()
    write()
    return nil, true
  end)
  return handler
end
