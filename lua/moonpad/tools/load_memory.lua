--- The tool `load_memory`: a model looks up what was said in former sessions.
local requestText = require "moonpad.tools.request_text"
local tools = require "moonpad.tools.tool"

local loadMemory = tools.define {
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

local INSTRUCTION = [[
You have memory. You can use it to answer questions. If any questions need
you to look up the memory, you should call load_memory function with a query.]]

function loadMemory.processLlmRequest(_, request)
  requestText.append(request, INSTRUCTION)
end

return loadMemory
