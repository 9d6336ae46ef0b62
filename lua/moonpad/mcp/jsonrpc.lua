--- Messages of JSON-RPC 2.0, as MCP uses them.
local core = require "moonpad.core"

local jsonrpc = {}

jsonrpc.METHOD_NOT_FOUND = -32601

---@class moonpad.JsonRpcError
---@field message string
---@field code integer? nil: no answer of JSON-RPC, but one of HTTP
---@field data any
---@field status integer? of HTTP

---A request that waits for its answer.
---@class moonpad.McpCall
---@field id integer
---@field method string
---@field params table
---@field deadline number (core.monotonic)
---@field headers table<string, string>? of HTTP, of this request alone
---@field isDone boolean?
---@field result any?
---@field err moonpad.JsonRpcError? what the server has answered in place of a result
---@field failure string? why there will be no answer

---@param method string
---@param params table?
---@param id integer? without one it is a notification
---@return string text without an end of line
function jsonrpc.encode(method, params, id)
  return core.json.encode { jsonrpc = "2.0", id = id, method = method, params = params }
end

---The answer to a request of the server's. Whatever it asks but whether we are there, we have not.
---@param request table
---@return string text
function jsonrpc.answer(request)
  local answer = { jsonrpc = "2.0", id = request.id }
  if request.method == "ping" then
    answer.result = {}
  else
    answer.error = { code = jsonrpc.METHOD_NOT_FOUND, message = "Method not found" }
  end
  return core.json.encode(answer)
end

---@param value any
---@return boolean
local function isMessage(value)
  if type(value) ~= "table" then return false end
  return type(value.method) == "string" or value.result ~= nil or type(value.error) == "table"
end

---Takes a text apart, which is one message or a list of them.
---@param text string
---@return table[]? messages nil where it is none
function jsonrpc.read(text)
  local ok, value = pcall(core.json.decode, text)
  if not ok or type(value) ~= "table" then return nil end
  local list = value[1] ~= nil and value or { value }
  for _, message in ipairs(list) do
    if not isMessage(message) then return nil end
  end
  return list
end

---The number of the request that a message answers.
---@param message table
---@return integer? id nil where it answers none of ours
function jsonrpc.answers(message)
  if message.method ~= nil then return nil end
  return math.tointeger(tonumber(message.id) or nil)
end

---The error in an answer, of whatever form.
---@param err any
---@return moonpad.JsonRpcError
function jsonrpc.errorOf(err)
  local message = type(err.message) == "string" and err.message ~= "" and err.message or "an error without a message"
  return { message = message, code = math.tointeger(tonumber(err.code) or nil), data = err.data }
end

return jsonrpc
