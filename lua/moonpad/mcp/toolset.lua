--- The tools, prompts and resources of a server, as a toolset.
local client = require "moonpad.mcp.client"
local content = require "moonpad.mcp.content"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"
local headerValues = require "moonpad.mcp.header_values"
local names = require "moonpad.mcp.names"
local tools = require "moonpad.tools.tool"

local toolsets = {}

---The tools, prompts and resources of an MCP server. In a run its methods wait without holding
---anyone up; outside of one they block. What fails is an error `tool` that names the server.
---@class moonpad.McpToolset: moonpad.Toolset
local Toolset = { __name = "moonpad.mcp" }
Toolset.__index = Toolset

---@class moonpad.McpToolsetState
---@field client moonpad.McpClient
---@field diagnostics moonpad.McpDiagnostics
---@field prefix string
---@field allow string[]?
---@field hasListed boolean? every name of `allow` has been seen
---@field list moonpad.Tool[]? the tools of the last list
---@field isFresh (fun(): boolean)?

-- toolset -> its state, which holds secrets: who prints a toolset must not see them.
---@type table<moonpad.McpToolset, moonpad.McpToolsetState>
local stateOf = setmetatable({}, { __mode = "k" })

local function stateOfSelf(self, method)
  local state = stateOf[self]
  if state then return state end
  return core.error("invalid_argument", ("toolset:%s(...): call it with a colon, not with a dot"):format(method))
end

-- What every method begins with.
local function begin(self, method)
  local state = stateOfSelf(self, method)
  coroutines.checkThread("toolset:" .. method)
  return state
end

---- Tools

-- So much work that it is looked at the clock.
local ENOUGH_WORK = 100

local function call(state, name, parameters, args, context)
  coroutines.checkThread "a tool of an MCP server"
  state.diagnostics:note(context)
  local function headers(connection)
    return connection.era == "modern" and headerValues.ofArguments(parameters, args) or nil
  end
  local ok, result = pcall(state.client.request, state.client, "tools/call", { name = name, arguments = args }, headers)
  if not ok then
    -- It may be that the server has other tools now.
    state.isFresh = nil
    error(result, 0)
  end
  -- To read a large answer takes time; what is done with it goes into another step.
  coroutines.keepPace(ENOUGH_WORK)
  local response, files = content.ofCall(result)
  if response == nil then return nil, state.diagnostics.redactor:text(errorText.valid(files)) end
  return response, files
end

-- A tool that cannot be used, whatever is wrong with it, must not keep others from being used.
local function leaveOut(state, name, problem)
  state.diagnostics:log(("the tool %s is left out: %s"):format(errorText.show(name), problem))
end

local function define(state, tool, shown)
  local parameters, problem = headerValues.ofSchema(tool.inputSchema)
  if not parameters then return nil, problem end
  local name = tool.name
  local description = type(tool.description) == "string" and tool.description or tool.title
  local ok, made = pcall(tools.define, {
    name = shown, description = type(description) == "string" and description or nil,
    parameters = type(tool.inputSchema) == "table" and tool.inputSchema or nil,
    run = function(args, context) return call(state, name, parameters, args, context) end,
  })
  if ok then return made end
  return nil, errorText.of(made)
end

-- The server's tools with a name, each once.
local function named(state, items)
  local list, isThere = {}, {}
  for _, tool in ipairs(items) do
    local name = type(tool) == "table" and tool.name
    if type(name) ~= "string" or name == "" then
      leaveOut(state, name, "it has no name")
    elseif isThere[name] then
      leaveOut(state, name, "there is another one of that name")
    else
      list[#list + 1], isThere[name] = tool, true
    end
  end
  return list, isThere
end

-- A name that was misspelt is found when the first list comes; later ones may lack what was there.
local function checkAllowed(state, isThere)
  for _, name in ipairs(state.allow or {}) do
    if not isThere[name] then
      local known = {}
      for other in pairs(isThere) do known[#known + 1] = other end
      table.sort(known)
      local nearest = core.nearestName(name, known)
      local advice = nearest and ('did you mean "%s"?'):format(nearest)
        or #known > 0 and "there are " .. table.concat(known, ", ") or "it has none"
      local text = ('has no tool "%s", which is in `allow`; %s'):format(name, advice)
      if not state.hasListed then state.diagnostics:fail(text) end
      state.diagnostics:log(text)
    end
  end
  state.hasListed = true
end

local function build(state, items)
  local offered, isThere = named(state, items)
  checkAllowed(state, isThere)
  local allowed
  for _, name in ipairs(state.allow or {}) do
    allowed = allowed or {}
    allowed[name] = true
  end
  local list, serverNames = {}, {}
  for _, tool in ipairs(offered) do serverNames[#serverNames + 1] = tool.name end
  local shown = names.shown(serverNames, state.prefix)
  for _, tool in ipairs(offered) do
    if not state.allow or allowed and allowed[tool.name] then
      local made, problem = define(state, tool, shown[tool.name])
      if made then
        list[#list + 1] = made
      else
        leaveOut(state, tool.name, problem)
      end
    end
  end
  return list
end

---The server's tools, as far as they are allowed; those of the last list as long as the server lets
---them be taken for the same.
---@param context moonpad.Context?
---@return moonpad.Tool[]
function Toolset:tools(context)
  local state = begin(self, "tools")
  state.diagnostics:note(context)
  if not (state.isFresh and state.isFresh()) then
    local items, isFresh = state.client:list "tools"
    state.list, state.isFresh = build(state, items), isFresh
  end
  return table.move(state.list, 1, #state.list, 1, {})
end

---- Prompts and resources

---@class moonpad.McpPrompt
---@field name string
---@field title string?
---@field description string?
---@field arguments { name: string, description: string?, required: boolean? }[]?

---The prompts that the server has, as it describes them.
---@return moonpad.McpPrompt[]
function Toolset:prompts()
  return (begin(self, "prompts").client:list "prompts")
end

local function checkText(value, where)
  if type(value) == "string" and value ~= "" then return end
  core.error("invalid_argument", ("%s: expected %s, got %s"):format(where, fields.text.what, fields.describe(value)))
end

local function checkArguments(given)
  local where = "toolset:prompt(name, arguments)"
  if given == nil then return {} end
  if type(given) ~= "table" then fields.refuse(where, "expected a table, got " .. fields.describe(given)) end
  for name, value in pairs(given) do
    if type(name) ~= "string" or type(value) ~= "string" then
      fields.refuse(where, ("%s: arguments of prompts are strings by name, got %s")
        :format(errorText.show(name), fields.describe(value)))
    end
  end
  return given
end

---A prompt, filled in by the server.
---@param name string
---@param arguments table<string, string>?
---@return moonpad.Content[] messages of the roles "user" and "model"
function Toolset:prompt(name, arguments)
  local state = begin(self, "prompt")
  checkText(name, "toolset:prompt(name)")
  return content.ofPrompt((state.client:request("prompts/get", { name = name, arguments = checkArguments(arguments) })))
end

---@class moonpad.McpResource
---@field uri string
---@field name string?
---@field title string?
---@field description string?
---@field mimeType string?

---The resources that the server lists, as it describes them.
---@return moonpad.McpResource[]
function Toolset:resources()
  return (begin(self, "resources").client:list "resources")
end

---Reads a resource.
---@param uri string also one that is not listed
---@return moonpad.Part[] parts a text or a file for each piece of it
function Toolset:resource(uri)
  local state = begin(self, "resource")
  checkText(uri, "toolset:resource(uri)")
  return content.ofResource((state.client:request("resources/read", { uri = uri })))
end

---- The end

---Ends the server's process, or its session, without waiting for it. Calls that wait for an answer
---get an error; so does whoever uses the toolset afterwards.
function Toolset:close()
  stateOfSelf(self, "close").client:close()
end

Toolset.__close = Toolset.close

function Toolset:__gc()
  local state = stateOf[self]
  if state then pcall(state.client.close, state.client) end
end

function Toolset:__tostring()
  local state = stateOf[self]
  return "moonpad.mcp: " .. (state and state.diagnostics.name or "a class")
end

fields.refuseNearMisses(Toolset, "toolset")

---@param options { open: fun(): moonpad.McpConnection, diagnostics: moonpad.McpDiagnostics, timeout: number,
---prefix: string, allow: string[]? }
---@return moonpad.McpToolset
function toolsets.new(options)
  local self = setmetatable({}, Toolset)
  stateOf[self] = {
    client = client.new { open = options.open, diagnostics = options.diagnostics, timeout = options.timeout },
    diagnostics = options.diagnostics, prefix = options.prefix, allow = options.allow,
  }
  return self
end

return toolsets
