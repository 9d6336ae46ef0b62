--- The tool `load_memory`: a model looks up what was said in former sessions.
local tools = require "moonpad.tools.tool"

return tools.define {
  name = "load_memory",
  description = "Searches what was said in earlier conversations with this user; returns the memories that fit best.",
  parameters = {
    type = "object",
    properties = { query = { type = "string", description = "What to look for: a few words." } },
    required = { "query" },
  },
  run = function(args, context)
    return context:searchMemory(args.query)
  end,
}
