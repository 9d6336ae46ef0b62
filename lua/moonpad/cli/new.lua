--- `moonpad new NAME`: a starter agent with a spec that passes.
local cli = require "moonpad.cli_core"
local core = require "moonpad.core"
local failure = require "moonpad.cli.failure"

local command = {}

local EXISTS <const> = 17 -- EEXIST

local AGENT = [==[
--- $NAME: an agent with one tool.
---   moonpad run $NAME/agent.lua "remember to buy milk"
local moonpad = require "moonpad"

local remember = moonpad.tool {
  name = "remember",
  description = "Remembers something for the user",
  parameters = { type = "object", properties = { what = { type = "string" } }, required = { "what" } },
  run = function(args, context)
    context.state:append("user:notes", args.what)
    return { notes = #context.state["user:notes"] }
  end,
}

-- Answers without a network. Put a model's name in its place, such as "gpt-4o" or
-- "gemini-2.0-flash", and its key into the environment: the adapter is picked by the name.
local function model(request)
  local last = request.contents[#request.contents].parts[1]
  if last.functionResponse then return ("You have %d notes."):format(last.functionResponse.response.notes) end
  local what = (last.text or ""):match "^[Rr]emember%s+(.+)$"
  if not what then return "Tell me what to remember: remember ..." end
  return moonpad.functionCall("remember", { what = what })
end

return moonpad.agent {
  name = "$NAME",
  model = model,
  instruction = "Help the user remember things. The notes so far: {user:notes?}",
  tools = { remember },
}
]==]

local SPEC = [==[
-- lua5.4 "$(command -v busted)" $NAME/agent_spec.lua
local testing = require "moonpad.testing"

-- The agent is beside this file, wherever busted is run.
local folder = debug.getinfo(1, "S").source:match "^@(.*/)" or "./"

describe("$NAME", function()
  it("remembers what it is told", function()
    local agent = dofile(folder .. "agent.lua")
    local result = testing.run { agent = agent, messages = { "remember milk", "remember tea" } }
    assert.are.equal("You have 2 notes.", result.text)
    assert.has_state(result.session, { ["user:notes"] = { "milk", "tea" } })
  end)

  it("asks when there is nothing to remember", function()
    local result = testing.run { agent = dofile(folder .. "agent.lua"), messages = "hello" }
    assert.matches("Tell me", result.text)
  end)
end)
]==]

-- Debian's busted begins in Lua 5.1; with this it goes on in Lua 5.4.
local BUSTED = [[
return { default = { lua = "lua5.4", ROOT = { "." }, pattern = "_spec" } }
]]

local function write(path, text)
  local file, problem = core.openFile(path, "wb")
  if not file then failure.raise("%s", problem) end
  file:write(text)
  file:close()
end

local function checkName(name)
  if not name:find "^[%a_][%w_]*$" then failure.raise('"%s": a name is an identifier, such as my_agent', name) end
  if name == "user" then failure.raise '"user" is who sends the messages; take another name' end
end

---@param options table of the command line
function command.run(options)
  local name = options.name
  checkName(name)
  local ok, reason, code = cli.makeFolder(name)
  if not ok and code == EXISTS then failure.raise("%s is there already", name) end
  if not ok then failure.raise("the folder cannot be created: %s", reason) end
  write(name .. "/agent.lua", (AGENT:gsub("%$NAME", name)))
  write(name .. "/agent_spec.lua", (SPEC:gsub("%$NAME", name)))
  write(name .. "/.busted", BUSTED)
  print(("Wrote %s/agent.lua and %s/agent_spec.lua. Try:"):format(name, name))
  print(('  moonpad run %s/agent.lua "remember to buy milk"'):format(name))
  print(('  lua5.4 "$(command -v busted)" %s/agent_spec.lua'):format(name))
end

return command
