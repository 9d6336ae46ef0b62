--- What connections to servers have in common, whatever carries the messages: the requests that
--- wait for an answer, and what is done with each message that comes.
local jsonrpc = require "moonpad.mcp.jsonrpc"

local connections = {}

---@class moonpad.McpConnection
---@field era "modern"|"legacy"|nil how the server wants to be spoken to, once that is known
---@field version string? of the protocol
---@field capabilities table of the server
---@field changes table<string, integer> how often the server has said that a list has changed
---@field calls table<integer, moonpad.McpCall> that wait for their answers
---@field ending string? why it is of no more use
---@field isForgotten boolean? the server has forgotten it: what was asked last was not taken
---@field isBehind boolean? more has come than there was time for: what is known of it may be out of date
---@field notifiesChanges boolean does it hear of changed lists without asking?
---@field start fun(self, call: moonpad.McpCall) sends a request
---@field notify fun(self, method: string, params: table?) sends what has no answer
---@field advance fun(self): boolean takes in what has come, without waiting; whether anything has. It never raises
---@field giveUp fun(self, call: moonpad.McpCall) tells the server that nobody waits for the answer any more
---@field close fun(self) never waits

local LISTS = {
  ["notifications/tools/list_changed"] = "tools",
  ["notifications/prompts/list_changed"] = "prompts",
  ["notifications/resources/list_changed"] = "resources",
}

---The fields that all of them have.
---@return table
function connections.new()
  return { capabilities = {}, changes = { tools = 0, prompts = 0, resources = 0 }, calls = {} }
end

---@param connection moonpad.McpConnection
---@param call moonpad.McpCall
local function finish(connection, call)
  call.isDone = true
  connection.calls[call.id] = nil
end

---There will be no answer.
---@param connection moonpad.McpConnection
---@param call moonpad.McpCall
---@param text string
function connections.fail(connection, call, text)
  if call.isDone then return end
  call.failure = text
  finish(connection, call)
end

---@param connection moonpad.McpConnection
---@param call moonpad.McpCall
---@param err moonpad.JsonRpcError
function connections.refuse(connection, call, err)
  if call.isDone then return end
  call.err = err
  finish(connection, call)
end

---No request that waits will be answered.
---@param connection moonpad.McpConnection
---@param text string
function connections.failAll(connection, text)
  for _, call in pairs(connection.calls) do connections.fail(connection, call, text) end
end

local function takeAnswer(connection, message)
  local id = jsonrpc.answers(message)
  local call = id and connection.calls[id]
  -- Nobody waits for it any more, or it has been answered before.
  if not call then return end
  if message.error ~= nil then return connections.refuse(connection, call, jsonrpc.errorOf(message.error)) end
  call.result = message.result
  finish(connection, call)
end

---Takes a message in.
---@param connection moonpad.McpConnection
---@param message table
---@return string? reply what the server is to be told
function connections.take(connection, message)
  local method = message.method
  if method == nil then
    takeAnswer(connection, message)
  elseif message.id ~= nil then
    return jsonrpc.answer(message)
  elseif LISTS[method] then
    local list = LISTS[method]
    connection.changes[list] = connection.changes[list] + 1
  end
  return nil
end

return connections
