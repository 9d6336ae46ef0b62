--- A small MCP server: a shopping list as two tools, on standard input and output. examples/mcp.lua
--- starts it. It needs lua-cjson and nothing of moonpad. One message a line comes in and goes out
--- (https://modelcontextprotocol.io); what is written to standard error goes to the log of whoever
--- has started it.
local json = require "cjson"

local list = {}

local tools = {
  {
    name = "add_item", description = "Puts something on the shopping list",
    inputSchema = { type = "object", properties = { item = { type = "string" } }, required = { "item" } },
  },
  { name = "show_list", description = "Shows the shopping list", inputSchema = { type = "object" } },
}

local function text(value, isError)
  return { content = { { type = "text", text = value } }, isError = isError }
end

local run = {}

function run.add_item(arguments)
  for _, item in ipairs(list) do
    if item == arguments.item then return text(item .. " is on the list already", true) end
  end
  list[#list + 1] = arguments.item
  return text(("%d on the list"):format(#list))
end

function run.show_list()
  return { content = {}, structuredContent = { items = list } }
end

local methods = {
  initialize = function()
    return {
      protocolVersion = "2025-11-25", capabilities = { tools = {} },
      serverInfo = { name = "shopping", version = "1.0" },
    }
  end,
  ["tools/list"] = function() return { tools = tools } end,
  ["tools/call"] = function(params)
    if not run[params.name] then return nil, { code = -32602, message = "unknown tool " .. params.name } end
    return run[params.name](params.arguments or {})
  end,
}

for line in io.lines() do
  local message = json.decode(line)
  -- What has no number wants no answer.
  if message.id ~= nil then
    local method = methods[message.method]
    local result, problem
    if method then
      result, problem = method(message.params or {})
    else
      problem = { code = -32601, message = "Method not found" }
    end
    io.write(json.encode { jsonrpc = "2.0", id = message.id, result = result, error = problem }, "\n"):flush()
  end
end
