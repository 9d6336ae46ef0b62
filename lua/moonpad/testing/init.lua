--- Testing agents with busted: contexts without a runner, models that follow a script, clocks,
--- assertions. `require "moonpad.testing"` inside busted adds assertions to luassert.
local core = require "moonpad.core"
local script = require "moonpad.testing.script"

---@class moonpad.Testing
local testing = {}

---A model that follows a script and checks what it is asked; see `moonpad.testing.script`.
testing.scriptedModel = script.new

testing.toolContext = require "moonpad.testing.tool_context"
testing.callTool = require "moonpad.testing.call_tool"
testing.run = require("moonpad.testing.conversation").run
testing.evaluate = require "moonpad.testing.evaluate"

---A clock that stands still until `clock:set(seconds)` or `clock:advance(seconds)`. A service
---opened with `{ clock = clock }` takes the time of its events from it.
---@param seconds number? default: now
---@return moonpad.Clock
function testing.clock(seconds)
  return core.clock(seconds)
end

if package.loaded["luassert.assert"] or package.loaded["luassert"] then require "moonpad.testing.assertions" end

return testing
