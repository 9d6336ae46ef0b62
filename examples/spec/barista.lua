--- A barista with one tool: the agent that examples/spec/barista_spec.lua tests.
local moonpad = require "moonpad"

local order = moonpad.tool {
  name = "order",
  description = "Puts a drink on the order",
  parameters = {
    type = "object",
    properties = { drink = { type = "string", enum = { "tea", "coffee" } }, count = { type = "integer", minimum = 1 } },
    required = { "drink" },
  },
  run = function(args, context)
    local drinks = context.state:setDefault("drinks", {})
    table.insert(drinks, { drink = args.drink, count = args.count or 1 })
    context.state:increment("app:sold", args.count or 1)
    return { orders = #drinks }
  end,
}

---@param model any
---@return moonpad.Agent agent, moonpad.Tool order
return function(model)
  return moonpad.agent {
    name = "Barista",
    model = model,
    instruction = "Serve {user:name?} politely.",
    tools = { order },
    outputKey = "lastAnswer",
  }, order
end
