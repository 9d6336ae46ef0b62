--- The tool with which a model leaves the loop that its agent is in.
local tools = require "moonpad.tools.tool"

return tools.define {
  name = "exit_loop",
  description = "Ends the loop. Call it only when you are told to, and write no text besides the call.",
  run = function(_, context)
    context:escalate()
    context.actions.skipSummarization = true
    return { result = "ok" }
  end,
}
