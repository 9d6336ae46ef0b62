--- A request in the words of Anthropic's Messages API.
local base64 = require "moonpad.util.base64"
local callIds = require "moonpad.models.call_ids"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local parts = require "moonpad.models.parts"
local settings = require "moonpad.models.anthropic_settings"
local schemaText = require "moonpad.schema.text"
local schemas = require "moonpad.schema.normalize"

local requests = {}

---- Blocks

local function cannotTake(what)
  core.error("invalid_argument", "anthropic: a message cannot take " .. what)
end

local blocks = {}

-- Unicode's spaces, outside of ASCII.
local SPACES = {}
for _, code in ipairs { 0x85, 0xA0, 0x1680, 0x2028, 0x2029, 0x202F, 0x205F, 0x3000 } do
  SPACES[utf8.char(code)] = true
end
for code = 0x2000, 0x200A do SPACES[utf8.char(code)] = true end

local function isBlank(text)
  for character in text:gmatch(utf8.charpattern) do
    if character:find "%S" and not SPACES[character] then return false end
  end
  return true
end

-- What Anthropic has given to be sent back.
local function ownOf(part)
  return type(part.anthropic) == "table" and part.anthropic or {}
end

-- A text of nothing but blanks is refused.
function blocks.text(part)
  return not isBlank(part.text) and { type = "text", text = part.text, citations = ownOf(part).citations } or nil
end

-- Thoughts are taken back only with the signature that they came with; redacted ones are nothing
-- but that.
function blocks.thought(part)
  local own = ownOf(part)
  if own.redacted then return { type = "redacted_thinking", data = own.redacted } end
  return own.signature and { type = "thinking", thinking = part.text, signature = own.signature } or nil
end

function blocks.functionCall(part, ids)
  local call = part.functionCall
  return {
    type = "tool_use", id = ids:ofCall(call), name = call.name, input = parts.asObject(call.args),
    caller = ownOf(part).caller,
  }
end

-- How the runner tells of a failure: nothing but an error.
local function isFailure(response)
  return type(response) == "table" and response.error ~= nil and next(response, next(response)) == nil
end

-- Text is no base64 there. nil: it is no text.
local function textSource(file)
  local text = base64.tryDecode(file.data)
  return text and utf8.len(text) and { type = "text", media_type = "text/plain", data = text }
end

-- Files of the provider's own are named by their ids.
local function isId(uri)
  return uri:find "^file_[%w_-]+$" ~= nil
end

local function sourceOf(part, mime)
  local file, uri = part.inlineData, part.fileData and part.fileData.fileUri
  if uri then return isId(uri) and { type = "file", file_id = uri } or { type = "url", url = uri } end
  if mime:find "^text/" then return textSource(file) end
  return { type = "base64", media_type = mime, data = file.data }
end

-- The block of a file, or nil and what it is that cannot be taken.
local function fileBlock(part)
  local file = part.inlineData or part.fileData
  local mime, uri = tostring(file.mimeType):lower():match "^[^;%s]*", part.fileData and file.fileUri
  local isAddress = uri ~= nil and uri:find "^https?://" ~= nil
  if uri and not isAddress and not isId(uri) then return nil, "a reference to " .. uri end
  local isDocument = mime == "application/pdf" or not isAddress and mime:find "^text/"
  local source = (isDocument or mime:find "^image/") and sourceOf(part, mime)
  if not source then return nil, isDocument and "text that is not UTF-8 in base64" or "data of type " .. mime end
  return { type = isDocument and "document" or "image", source = source }
end

local function resultContent(response)
  local text = core.json.encode(parts.asObject(response.response))
  if not response.parts or #response.parts == 0 then return text end
  local list = { { type = "text", text = text } }
  for _, part in ipairs(response.parts) do
    if part.inlineData or part.fileData then
      list[#list + 1] = fileBlock(part) or { type = "text", text = parts.notShown(part) }
    elseif parts.kind(part) == "text" then
      list[#list + 1] = blocks.text(part)
    end
  end
  return list
end

function blocks.functionResponse(part, ids)
  local response = part.functionResponse
  return {
    type = "tool_result", tool_use_id = ids:ofResponse(response),
    content = resultContent(response),
    is_error = isFailure(response.response) or nil,
  }
end

function blocks.inlineData(part)
  local block, what = fileBlock(part)
  return block or cannotTake(what)
end
blocks.fileData = blocks.inlineData

function blocks.executableCode(part)
  return { type = "text", text = parts.codeAsText(part) }
end
blocks.codeExecutionResult = blocks.executableCode

-- What only Anthropic's own servers understand goes back to them as it came.
function blocks.foreign(part)
  return ownOf(part).block
end

---- Messages

local function blocksOf(content, ids)
  local results, others = {}, {}
  for _, part in ipairs(content.parts) do
    local kind = parts.kind(part)
    local block = blocks[kind](part, ids)
    local list = kind == "functionResponse" and results or others
    list[#list + 1] = block
  end
  -- Results of tools must come first.
  return table.move(others, 1, #others, #results + 1, results)
end

local function isFit(id)
  return #id <= 64 and id:find "^[%w_-]+$" ~= nil
end

-- Neighbours of the same role become one message.
local function addMessage(messages, role, list)
  local last = messages[#messages]
  if last and last.role == role then
    table.move(list, 1, #list, #last.content + 1, last.content)
  elseif #list > 0 then
    messages[#messages + 1] = { role = role, content = list }
  end
end

-- The user begins, and is whom the model answers.
local function messagesOf(request)
  local messages, ids = {}, callIds.new(isFit)
  local continue = { { type = "text", text = parts.CONTINUE } }
  for _, content in ipairs(request.contents) do
    local role = content.role == "model" and "assistant" or "user"
    local list = blocksOf(content, ids)
    if #messages == 0 and #list > 0 and role == "assistant" then addMessage(messages, "user", continue) end
    addMessage(messages, role, list)
    coroutines.keepPace()
  end
  local last = messages[#messages]
  if not last or last.role == "assistant" then addMessage(messages, "user", continue) end
  return messages
end

---- Tools

local function toolsOf(request)
  local tools = {}
  for index, tool in ipairs(request.tools or {}) do
    tools[index] = {
      name = tool.name, description = tool.description ~= "" and tool.description or nil,
      input_schema = schemaText.raw(schemas.ofParameters(tool.parameters)),
    }
  end
  return parts.withProviderTools(tools, request)
end

---@param request moonpad.Request
---@param call moonpad.ModelCall
---@return table body
function requests.body(request, call)
  local system = request.systemInstruction
  return settings.apply({
    model = request.model,
    system = system and not isBlank(system) and system or nil,
    messages = messagesOf(request),
    tools = toolsOf(request),
    stream = call.stream or nil,
  }, request, call)
end

---The body that asks for the rest of an answer.
---@param body table of the first request
---@param begun table[] the parts that came so far
---@return table? body nil: there is nothing that could go on
function requests.continued(body, begun)
  local list = blocksOf({ parts = begun }, callIds.new(isFit))
  if #list == 0 then return nil end
  local continued = {}
  for name, value in pairs(body) do continued[name] = value end
  continued.messages = table.move(body.messages, 1, #body.messages, 1, {})
  addMessage(continued.messages, "assistant", list)
  return continued
end

return requests
