-- Whole programs that use MCP servers: examples/mcp.lua, and an agent's file for the command.
local moonpad = require "moonpad"
local processes = require "spec.support.processes"
local support = require "spec.support"
local web = require "spec.support.http"

local function output(command)
  local pipe <close> = assert(io.popen(command .. " 2>&1"))
  local text = pipe:read "a"
  local _, _, code = pipe:close()
  return text, code or 0
end

after_each(support.cleanup)

it("examples/mcp.lua has its tools called, and fail", function()
  local text, code = output "lua5.4 examples/mcp.lua"
  assert.equal(0, code, text)
  assert.equal([[
call    add_item {"item":"tea"}
call    add_item {"item":"bread"}
answer  add_item {"result":"1 on the list"}
answer  add_item {"result":"2 on the list"}
call    add_item {"item":"tea"}
answer  add_item {"error":"tea is on the list already"}
call    show_list {}
answer  show_list {"items":["tea","bread"]}
Shopper: Tea and bread are on your list.
]], text)
end)

describe("moonpad run #http", function()
  local server
  setup(function() server = web.start() end)
  teardown(function() server:stop() end)

  local function completion(delta)
    local chunk = moonpad.json.encode { choices = { { index = 0, delta = delta, finish_reason = "stop" } } }
    return web.stream { chunk, "[DONE]" }
  end

  it("runs an agent of three lines with a server's tools and a model's name, and leaves no process #posix", function()
    local folder = support.tmpdir()
    local file = assert(io.open(folder .. "/agent.lua", "w"))
    file:write [[
local moonpad = require "moonpad"
local tools = moonpad.mcp { command = { "lua5.4", "spec/helpers/mcp_server.lua" } }
return moonpad.agent { name = "Clerk", model = "gpt-4o-mini", tools = { tools } }
]]
    file:close()
    local call = { index = 0, id = "c1", type = "function", ["function"] = { name = "inside", arguments = "{}" } }
    server:script { ["/v1/chat/completions"] = {
      completion { role = "assistant", content = moonpad.null, tool_calls = { call } },
      completion { role = "assistant", content = "It is done." },
    } }
    local environment = ("OPENAI_API_KEY=k OPENAI_BASE_URL=%s/v1 MOONPAD_BUILD=%s"):format(server.url,
      os.getenv "MOONPAD_BUILD" or "build")
    local text, code = output(("%s bin/moonpad run --db %s/a.db %s/agent.lua go"):format(environment, folder, folder))
    assert.equal(0, code, text)
    assert.matches("It is done%.", text)
    local names = {}
    for _, tool in ipairs(server:sent(1).tools) do names[tool["function"].name] = true end
    assert.is_true(names.echo and names.inside)
    local messages = server:sent(2).messages
    local answer = moonpad.json.decode(messages[#messages].content)
    assert.is_false(processes.exists(math.tointeger(tonumber(answer.id))))
  end)
end)
