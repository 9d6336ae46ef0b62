--- A request in the words of Anthropic's Messages API.
local callIds = require "moonpad.models.call_ids"
local config = require "moonpad.models.config"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local parts = require "moonpad.models.parts"
local schemaText = require "moonpad.schema.text"
local schemas = require "moonpad.schema.normalize"

local requests = {}

local NAMES = { temperature = "temperature", topP = "top_p", topK = "top_k" }

local KNOWN = {
  maxOutputTokens = true, stopSequences = true, toolChoice = true, responseSchema = true,
}
for name in pairs(NAMES) do KNOWN[name] = true end

-- The API insists on a limit. The models of the third generation cannot do more than this.
local MAX_TOKENS, OLD_MAX_TOKENS = 8192, 4096

---- Blocks

local function cannotTake(what)
  core.error("invalid_argument", "anthropic: a message cannot take " .. what)
end

local blocks = {}

function blocks.text(part)
  return part.text ~= "" and { type = "text", text = part.text } or nil
end

-- Thoughts are taken back only with the signature that they came with; redacted ones are nothing
-- but that.
function blocks.thought(part)
  local own = type(part.anthropic) == "table" and part.anthropic or {}
  if own.redacted then return { type = "redacted_thinking", data = own.redacted } end
  return own.signature and { type = "thinking", thinking = part.text, signature = own.signature } or nil
end

function blocks.functionCall(part, ids)
  local call = part.functionCall
  return { type = "tool_use", id = ids:ofCall(call), name = call.name, input = parts.asObject(call.args) }
end

-- How the runner tells of a failure: nothing but an error.
local function isFailure(response)
  return type(response) == "table" and response.error ~= nil and next(response, next(response)) == nil
end

-- The block of a file, or nil and what it is that cannot be taken.
local function fileBlock(part)
  local file, source = part.inlineData or part.fileData
  local mime = tostring(file.mimeType)
  if part.inlineData then
    source = { type = "base64", media_type = mime, data = file.data }
  elseif file.fileUri:find "^https?://" then
    source = { type = "url", url = file.fileUri }
  else
    return nil, "a reference to " .. file.fileUri
  end
  if mime:find "^image/" then return { type = "image", source = source } end
  if mime == "application/pdf" then return { type = "document", source = source } end
  return nil, "data of type " .. mime
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
  return type(part.anthropic) == "table" and part.anthropic.block or nil
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
local function messagesOf(request)
  local messages, ids = {}, callIds.new(isFit)
  for _, content in ipairs(parts.untilUser(request.contents)) do
    local role = content.role == "model" and "assistant" or "user"
    local list, last = blocksOf(content, ids), messages[#messages]
    if #list > 0 and last and last.role == role then
      table.move(list, 1, #list, #last.content + 1, last.content)
    elseif #list > 0 then
      messages[#messages + 1] = { role = role, content = list }
    end
    coroutines.keepPace()
  end
  return messages
end

---- Tools and settings

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

local CHOICES = { auto = true, none = true, any = true }

local function toolChoice(choice)
  if choice == nil then return nil end
  return CHOICES[choice] and { type = choice } or { type = "tool", name = choice }
end

local function outputConfig(schema)
  return schema and { format = { type = "json_schema", schema = schemaText.raw(schemas.normalize(schema)) } } or nil
end

---@param request moonpad.Request
---@param call moonpad.ModelCall
---@return table body
function requests.body(request, call)
  local given = config.check(request.config, "anthropic", KNOWN)
  local system = request.systemInstruction
  local body = {
    model = request.model,
    max_tokens = given.maxOutputTokens or (request.model:find "^claude%-3%-%a" and OLD_MAX_TOKENS or MAX_TOKENS),
    system = system ~= "" and system or nil,
    messages = messagesOf(request),
    tools = toolsOf(request),
    tool_choice = toolChoice(given.toolChoice),
    output_config = outputConfig(given.responseSchema),
    stop_sequences = given.stopSequences and core.array(core.toTable(given.stopSequences)),
    stream = call.stream or nil,
  }
  config.rename(body, given, NAMES)
  return config.merge(body, given.extra)
end

return requests
