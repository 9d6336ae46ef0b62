--- A conversation in the words of the chat completions API.
local base64 = require "moonpad.util.base64"
local callIds = require "moonpad.models.call_ids"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local parts = require "moonpad.models.parts"

local messages = {}

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
  local text = mime:find "^text/" and base64.tryDecode(data)
  if text and utf8.len(text) then return { type = "text", text = text } end
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

-- Plain text where there is nothing but text: not every server understands lists.
local function userContent(list)
  local texts, items, hasMedia = {}, {}, false
  for _, part in ipairs(list) do
    local text, item = parts.textOf(part), mediaOf(part)
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

local function addUser(list, content, ids)
  for _, part in ipairs(content.parts) do
    local response = part.functionResponse
    if response then
      list[#list + 1] = {
        role = "tool", tool_call_id = ids:ofResponse(response),
        content = core.json.encode(parts.asObject(response.response)),
      }
    end
  end
  local said = userContent(withFiles(content.parts))
  if said then list[#list + 1] = { role = "user", content = said } end
end

---- What the model has said

-- What this server has given with a part, if it is a part of this adapter.
local function ownOf(part)
  return type(part.openai) == "table" and part.openai or {}
end

local function toolCall(part, ids)
  local call = part.functionCall
  return {
    id = ids:ofCall(call), type = "function",
    ["function"] = { name = call.name, arguments = parts.argumentsText(call) },
    extra_content = ownOf(part).extra_content,
  }
end

-- What a message of the model's is made of.
local function collect(content, ids)
  local said = { texts = {}, calls = {}, thoughts = {} }
  for _, part in ipairs(content.parts) do
    local own = ownOf(part)
    said.details, said.extra = own.details or said.details, own.message_extra_content or said.extra
    if part.functionCall then
      said.calls[#said.calls + 1] = toolCall(part, ids)
    elseif part.thought then
      said.field = own.field or said.field
      if own.field then said.thoughts[#said.thoughts + 1] = part.text end
    else
      said.texts[#said.texts + 1] = parts.textOf(part)
    end
  end
  return said
end

-- Mistral's thoughts are a part of the content.
local function contentOf(said)
  local text = table.concat(said.texts)
  if said.field ~= "thinking" or #said.thoughts == 0 then return #said.texts > 0 and text or core.null end
  local list = { { type = "thinking", thinking = { { type = "text", text = table.concat(said.thoughts) } } } }
  if text ~= "" then list[2] = { type = "text", text = text } end
  return list
end

local function addModel(list, content, ids, withReasoning)
  local said = collect(content, ids)
  if not withReasoning then said.thoughts = {} end
  if #said.texts == 0 and #said.calls == 0 then return end
  local message = {
    role = "assistant", content = contentOf(said), tool_calls = #said.calls > 0 and said.calls or nil,
    reasoning_details = said.details, extra_content = said.extra,
  }
  if #said.thoughts > 0 and said.field == "reasoning_content" then
    message.reasoning_content = table.concat(said.thoughts)
  end
  list[#list + 1] = message
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

-- Mistral's: nine letters and digits.
local function isShort(id)
  return #id == 9 and not id:find "%W"
end

---@param request moonpad.Request
---@param quirks moonpad.ProviderQuirks
---@return table[]
function messages.of(request, quirks)
  local isOfShortIds = quirks.callIds == "short"
  local ids = callIds.new(isOfShortIds and isShort or isFit, isOfShortIds and "call%05d" or nil)
  local list, system = {}, request.systemInstruction
  if system and system ~= "" then list[1] = { role = "system", content = system } end
  local contents = parts.untilUser(request.contents)
  local withReasoning = turnsWithCalls(contents)
  for index, content in ipairs(contents) do
    if content.role == "model" then
      addModel(list, content, ids, withReasoning[index])
    else
      addUser(list, content, ids)
    end
    coroutines.keepPace()
  end
  return list
end

return messages
