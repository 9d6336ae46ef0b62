--- Testing agents with busted: contexts without a runner, models that follow a script, clocks,
--- assertions. `require "moonpad.testing"` inside busted adds assertions to luassert.
local core = require "moonpad.core"
local script = require "moonpad.testing.script"

---A context, or what `testing.toolContext` takes.
---@alias moonpad.ToolContextLike moonpad.Context|moonpad.ToolContextOptions

---The tool, its arguments, and a context or what `testing.toolContext` takes -> the result, the
---context that the tool got, and the files that go along.
---@alias moonpad.CallTool
---| fun(tool: moonpad.Tool, args?: table, context?: moonpad.ToolContextLike): any, moonpad.Context, moonpad.Part[]?

---What specs of agents need. Inside busted it adds `assert.has_state`, `assert.state_delta`,
---`assert.no_tool_errors`, and `assert.same` for values of a state.
---@class moonpad.Testing
---@field scriptedModel fun(steps: (moonpad.TestStep|moonpad.ScriptedReply)[]): moonpad.ScriptedModel
---@field toolContext fun(options?: moonpad.ToolContextOptions): moonpad.Context a context as a tool gets it
---@field callTool moonpad.CallTool calls a tool as a run does
---@field run fun(options: moonpad.TestRunOptions): moonpad.TestRun plays messages to an agent
---@field evaluate fun(options: moonpad.EvaluationOptions): moonpad.Evaluation plays cases with expectations
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
