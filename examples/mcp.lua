--- An agent whose tools are those of an MCP server:
---   export LUA_PATH="lua/?.lua;lua/?/init.lua;;" LUA_CPATH="build/?.so;;"
---   lua5.4 examples/mcp.lua
--- The server is examples/mcp_server.lua, a process that moonpad starts and ends. With a model over
--- HTTP (its key in the environment) and another server:
---   lua5.4 examples/mcp.lua claude-sonnet-4-5 npx -y @modelcontextprotocol/server-memory
local moonpad = require "moonpad"

local folder = arg[0]:match "^(.*)/[^/]*$" or "."

local command = arg[2] and table.move(arg, 2, #arg, 1, {}) or { "lua5.4", folder .. "/mcp_server.lua" }
local tools = moonpad.mcp { command = command }

local function calls(...)
  local parts = {}
  for index, call in ipairs { ... } do parts[index] = moonpad.functionCall(call[1], call[2]) end
  return { content = { role = "model", parts = parts } }
end

-- In place of a model, what one would say: both items at once, then a look.
local script = moonpad.models.scripted {
  calls({ "add_item", { item = "tea" } }, { "add_item", { item = "bread" } }),
  calls { "add_item", { item = "tea" } },
  calls { "show_list", {} },
  "Tea and bread are on your list.",
}

local agent = moonpad.agent {
  name = "Shopper", model = arg[1] or script, instruction = "Keep the user's list.", tools = { tools },
}
-- Closing the runner ends the server's process.
local runner <close> = moonpad.runner { appName = "shop", agent = agent, sessionService = moonpad.open "memory:" }

for event in runner:run { userId = "ann", newMessage = "I need tea and bread." } do
  for _, call in ipairs(event:functionCalls()) do
    print(("call    %s %s"):format(call.name, moonpad.json.encode(call.args)))
  end
  for _, response in ipairs(event:functionResponses()) do
    print(("answer  %s %s"):format(response.name, moonpad.json.encode(response.response)))
  end
  if event:text() ~= "" then print(("%s: %s"):format(event.author, event:text())) end
end
