--- A request in the words of the chat completions API.
local callIds = require "moonpad.models.call_ids"
local config = require "moonpad.models.config"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local openaiModels = require "moonpad.models.openai_models"
local parts = require "moonpad.models.parts"
local schemaText = require "moonpad.schema.text"
local schemas = require "moonpad.schema.normalize"
local strictSchema = require "moonpad.schema.strict"

local requests = {}

local NAMES = {
  temperature = "temperature", topP = "top_p", presencePenalty = "presence_penalty",
  frequencyPenalty = "frequency_penalty",
}

local KNOWN = {
  maxOutputTokens = true, stopSequences = true, responseMimeType = true, responseSchema = true, toolChoice = true,
  seed = true, reasoning = true,
}
for name in pairs(NAMES) do KNOWN[name] = true end

---- What users say

local AUDIO = { ["audio/wav"] = "wav", ["audio/x-wav"] = "wav", ["audio/mpeg"] = "mp3", ["audio/mp3"] = "mp3" }

-- Each answers the item of a message, or nil and what it is that cannot be taken.
local media = {}

function media.inlineData(part)
  local mime, data = tostring(part.inlineData.mimeType), part.inlineData.data
  local url = ("data:%s;base64,%s"):format(mime, data)
  if mime:find "^image/" then return { type = "image_url", image_url = { url = url } } end
  if AUDIO[mime] then return { type = "input_audio", input_audio = { data = data, format = AUDIO[mime] } } end
  if mime == "application/pdf" then
    return { type = "file", file = { filename = part.inlineData.displayName or "file.pdf", file_data = url } }
  end
  return nil, "data of type " .. mime
end

function media.fileData(part)
  local uri = tostring(part.fileData.fileUri)
  if uri:find "^https?://" and tostring(part.fileData.mimeType):find "^image/" then
    return { type = "image_url", image_url = { url = uri } }
  end
  return nil, "a reference to a file of type " .. tostring(part.fileData.mimeType)
end

local function mediaOf(part)
  local convert = media[parts.kind(part)]
  if not convert then return nil end
  local item, what = convert(part)
  return item or core.error("invalid_argument", "openai: a chat completion cannot take " .. what)
end

local function textOf(part)
  local kind = parts.kind(part)
  if kind == "text" then return part.text ~= "" and part.text or nil end
  if kind == "executableCode" or kind == "codeExecutionResult" then return parts.codeAsText(part) end
  return nil
end

-- Plain text where there is nothing but text: not every server understands lists.
local function userContent(list)
  local texts, items, hasMedia = {}, {}, false
  for _, part in ipairs(list) do
    local text, item = textOf(part), mediaOf(part)
    if text then
      texts[#texts + 1], items[#items + 1] = text, { type = "text", text = text }
    elseif item then
      items[#items + 1], hasMedia = item, true
    end
  end
  if hasMedia then return items end
  return #texts > 0 and table.concat(texts, "\n") or nil
end

-- What a tool answers is text: its files come in the user's message behind it.
local function withFiles(list)
  local all = {}
  for _, part in ipairs(list) do
    local response = part.functionResponse
    for index, file in ipairs(response and response.parts or {}) do
      if index == 1 then all[#all + 1] = { text = ("Files from the tool %s:"):format(response.name) } end
      local convert = media[parts.kind(file)]
      all[#all + 1] = convert and not convert(file) and { text = parts.notShown(file) } or file
    end
  end
  return table.move(list, 1, #list, #all + 1, all)
end

local function addUser(messages, content, ids)
  for _, part in ipairs(content.parts) do
    local response = part.functionResponse
    if response then
      messages[#messages + 1] = {
        role = "tool", tool_call_id = ids:ofResponse(response),
        content = core.json.encode(parts.asObject(response.response)),
      }
    end
  end
  local said = userContent(withFiles(content.parts))
  if said then messages[#messages + 1] = { role = "user", content = said } end
end

---- What the model has said

local function toolCall(call, ids)
  -- Arguments that were no JSON are given back as they came.
  local arguments = type(call.args) == "string" and call.args or core.json.encode(parts.asObject(call.args))
  return { id = ids:ofCall(call), type = "function", ["function"] = { name = call.name, arguments = arguments } }
end

local function isReasoning(part)
  return part.thought and type(part.openai) == "table" and part.openai.field == "reasoning_content"
end

local function addModel(messages, content, ids, withReasoning)
  local texts, calls, thoughts = {}, {}, {}
  for _, part in ipairs(content.parts) do
    if part.functionCall then
      calls[#calls + 1] = toolCall(part.functionCall, ids)
    elseif isReasoning(part) then
      thoughts[#thoughts + 1] = part.text
    else
      texts[#texts + 1] = textOf(part)
    end
  end
  if #texts == 0 and #calls == 0 then return end
  messages[#messages + 1] = {
    role = "assistant",
    content = #texts > 0 and table.concat(texts) or core.null,
    tool_calls = #calls > 0 and calls or nil,
    reasoning_content = withReasoning and #thoughts > 0 and table.concat(thoughts) or nil,
  }
end

local function hasKind(content, field)
  for _, part in ipairs(content.parts) do
    if part[field] then return true end
  end
  return false
end

-- DeepSeek wants its reasoning back in the turns in which it called functions, and there only.
local function turnsWithCalls(contents)
  local flags, first = {}, 1
  for index = 1, #contents + 1 do
    local content = contents[index]
    if not content or content.role ~= "model" and not hasKind(content, "functionResponse") then
      local hasCalls = false
      for position = first, index - 1 do hasCalls = hasCalls or hasKind(contents[position], "functionCall") end
      for position = first, index - 1 do flags[position] = hasCalls end
      first = index
    end
  end
  return flags
end

local function isFit(id)
  return #id <= 40
end

local function messagesOf(request)
  local messages, ids = {}, callIds.new(isFit)
  local system = request.systemInstruction
  if system and system ~= "" then messages[1] = { role = "system", content = system } end
  local contents = parts.untilUser(request.contents)
  local withReasoning = turnsWithCalls(contents)
  for index, content in ipairs(contents) do
    if content.role == "model" then
      addModel(messages, content, ids, withReasoning[index])
    else
      addUser(messages, content, ids)
    end
    coroutines.keepPace()
  end
  return messages
end

---- Tools and settings

local function toolsOf(request)
  local tools = {}
  for index, tool in ipairs(request.tools or {}) do
    local description = tool.description ~= "" and tool.description or nil
    tools[index] = {
      type = "function",
      ["function"] = {
        name = tool.name, description = description, parameters = schemaText.raw(schemas.ofParameters(tool.parameters)),
      },
    }
  end
  return parts.withProviderTools(tools, request)
end

local CHOICES = { auto = "auto", none = "none", any = "required" }

local function toolChoice(choice)
  if choice == nil then return nil end
  return CHOICES[choice] or { type = "function", ["function"] = { name = choice } }
end

local function responseFormat(given, quirks)
  local schema = given.responseSchema
  if not schema or quirks.schema == "none" then
    local isJson = schema or given.responseMimeType == "application/json"
    return isJson and { type = "json_object" } or nil
  end
  local strict = quirks.schema == "strict" and strictSchema.of(schema)
  return {
    type = "json_schema",
    json_schema = {
      name = "answer", schema = schemaText.raw(strict or schemas.normalize(schema)),
      strict = strict and true or nil,
    },
  }
end

---@param request moonpad.Request
---@param call moonpad.ModelCall
---@return table body
function requests.body(request, call)
  local quirks = call.settings.quirks
  local given = config.check(request.config, "openai", KNOWN)
  given = config.without(call, given, openaiModels.refused(request.model, given.reasoning))
  local body = {
    model = request.model,
    messages = messagesOf(request),
    tools = toolsOf(request),
    tool_choice = toolChoice(given.toolChoice),
    response_format = responseFormat(given, quirks),
    stop = given.stopSequences and core.array(core.toTable(given.stopSequences)),
  }
  config.rename(body, given, NAMES)
  body[quirks.seed or "seed"] = given.seed
  body[quirks.maxTokens or openaiModels.maxTokensName(request.model)] = given.maxOutputTokens
  if call.stream then
    body.stream = true
    if not quirks.noStreamOptions then body.stream_options = { include_usage = true } end
  end
  return config.merge(body, given.extra)
end

---@param settings moonpad.ModelSettings
---@param schema table
---@param hasTools boolean
---@return boolean
function requests.takesSchema(settings, schema, hasTools)
  local quirks = settings.quirks
  if quirks.schema == "none" then return false end
  return not hasTools or quirks.schemaWithTools == true and strictSchema.of(schema) ~= nil
end

return requests
