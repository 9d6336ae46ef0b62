--- A conversation as the input of OpenAI's Responses API: a list of items.
local callIds = require "moonpad.models.call_ids"
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local parts = require "moonpad.models.parts"

local input = {}

-- Nothing is stored at the server (`store = false`): an id that it gave names nothing that it could
-- find, and one item with its id asks for others with theirs. Items of the other types cannot do
-- without.
local WITHOUT_ID = {
  reasoning = true, web_search_call = true, tool_search_call = true, tool_search_output = true, shell_call = true,
  shell_call_output = true, compaction = true,
}

-- What a part holds of this server's.
local function ownOf(part)
  return type(part.openai) == "table" and part.openai or {}
end

local function itemOf(part)
  local item = ownOf(part).item
  return type(item) == "table" and item or nil
end

---@class moonpad.OpenaiInput
---@field items table[] so far
---@field ids moonpad.CallIds
---@field callers table<string, table> by the id of the call
---@field answered table<string, true> ids of calls that the server itself has answered
---@field takesReasoning boolean

---- What users say

-- The endings of names of files, where a type does not say them itself.
local ENDINGS = { ["text/plain"] = "txt", ["text/markdown"] = "md" }

local media = {}

local function isFile(mime)
  return mime:find "^application/" ~= nil or mime:find "^text/" ~= nil
end

function media.inlineData(part)
  local mime, data = tostring(part.inlineData.mimeType), part.inlineData.data
  local url = ("data:%s;base64,%s"):format(mime, data)
  if mime:find "^image/" then return { type = "input_image", image_url = url, detail = "auto" } end
  if not isFile(mime) then return nil, "data of type " .. mime end
  local ending = ENDINGS[mime] or mime:match "^%a+/(%w+)$"
  local name = part.inlineData.displayName or ending and "file." .. ending or "file"
  return { type = "input_file", filename = name, file_data = url }
end

function media.fileData(part)
  local uri, mime = tostring(part.fileData.fileUri), tostring(part.fileData.mimeType)
  if uri:find "^https?://" then
    if mime:find "^image/" then return { type = "input_image", image_url = uri, detail = "auto" } end
    if isFile(mime) then return { type = "input_file", file_url = uri } end
  end
  return nil, "a reference to a file of type " .. mime
end

local function userContent(list)
  local content = {}
  for _, part in ipairs(list) do
    local text, convert = parts.textOf(part), media[parts.kind(part)]
    if text then
      content[#content + 1] = { type = "input_text", text = text }
    elseif convert then
      local item, what = convert(part)
      content[#content + 1] = item or core.error("invalid_argument", "openai: a response cannot take " .. what)
    end
  end
  return content
end

-- Text where there is nothing but that. Of a file that cannot be shown the model is told.
local function outputOf(response)
  local text = core.json.encode(parts.asObject(response.response))
  if not response.parts or #response.parts == 0 then return text end
  local list = { { type = "input_text", text = text } }
  for _, part in ipairs(response.parts) do
    local said, convert = parts.textOf(part), media[parts.kind(part)]
    if convert then
      list[#list + 1] = convert(part) or { type = "input_text", text = parts.notShown(part) }
    elseif said then
      list[#list + 1] = { type = "input_text", text = said }
    end
  end
  return list
end

local function addUser(self, content)
  for _, part in ipairs(content.parts) do
    local response = part.functionResponse
    if response then
      local id = self.ids:ofResponse(response)
      self.items[#self.items + 1] = {
        type = "function_call_output", call_id = id, output = outputOf(response), caller = self.callers[id],
      }
    end
  end
  local said = userContent(content.parts)
  if #said > 0 then self.items[#self.items + 1] = { type = "message", role = "user", content = said } end
end

---- What the model has said

local function echo(item, more)
  local copied = {}
  for name, value in pairs(item) do copied[name] = value end
  for name, value in pairs(more or {}) do copied[name] = value end
  if WITHOUT_ID[item.type] then copied.id = nil end
  -- Only answers have this.
  copied.created_by = nil
  return copied
end

-- Calls that the client is to run, where the server does not do so itself.
local FOR_CLIENT = {
  custom_tool_call = true, computer_call = true, local_shell_call = true, shell_call = true, apply_patch_call = true,
  tool_search_call = true,
}

-- The API refuses what asks for an answer and has none.
local function isUnanswered(self, item)
  if item.type == "mcp_approval_request" then return true end
  return FOR_CLIENT[item.type] and type(item.call_id) == "string" and not self.answered[item.call_id]
end

local made = {}

local function message(part, text)
  return text and { type = "message", role = "assistant", content = text, phase = ownOf(part).phase } or nil
end

function made.text(part)
  return message(part, parts.textOf(part))
end
made.executableCode, made.codeExecutionResult = made.text, made.text

function made.thought(part, self)
  local item = itemOf(part)
  return self.takesReasoning and item and item.type == "reasoning" and echo(item) or nil
end

function made.functionCall(part, self)
  local call, own = part.functionCall, ownOf(part)
  local id = self.ids:ofCall(call)
  self.callers[id] = own.caller
  return {
    type = "function_call", call_id = id, name = call.name, arguments = parts.argumentsText(call),
    namespace = own.namespace, caller = own.caller,
  }
end

-- Pictures that the server's own tool has made.
function made.inlineData(part)
  local item = itemOf(part)
  return item and item.type == "image_generation_call" and echo(item, { result = part.inlineData.data }) or nil
end

function made.foreign(part, self)
  local item = itemOf(part)
  return item and not isUnanswered(self, item) and echo(item) or nil
end

-- Texts that follow each other are one message.
local function add(list, item)
  local last = list[#list]
  if last and last.type == "message" and item.type == "message" and last.phase == item.phase then
    last.content = last.content .. item.content
  else
    list[#list + 1] = item
  end
end

-- Reasoning is taken back only in front of what it has led to: where that is gone, it goes as well.
local function withoutOrphans(list)
  local kept = {}
  for index, item in ipairs(list) do
    local following = list[index + 1]
    if item.type ~= "reasoning" or following and following.type ~= "reasoning" then kept[#kept + 1] = item end
  end
  return kept
end

local function addModel(self, content)
  local list = {}
  for _, part in ipairs(content.parts) do
    local make = made[parts.kind(part)]
    local item = make and make(part, self)
    if item then add(list, item) end
  end
  local kept = withoutOrphans(list)
  table.move(kept, 1, #kept, #self.items + 1, self.items)
end

-- The ids of calls that the server has run itself: it has given their outputs, too.
local function answeredCalls(contents)
  local answered = {}
  for _, content in ipairs(contents) do
    for _, part in ipairs(content.parts) do
      local item = itemOf(part)
      local isOutput = item and type(item.type) == "string" and item.type:find "_output$"
      if isOutput and type(item.call_id) == "string" then answered[item.call_id] = true end
    end
  end
  return answered
end

local function isFit(id)
  return #id <= 64
end

---@param request moonpad.Request
---@param takesReasoning boolean does the model take reasoning back?
---@return table[]
function input.of(request, takesReasoning)
  local contents = parts.untilUser(request.contents)
  ---@type moonpad.OpenaiInput
  local self = {
    items = {}, ids = callIds.new(isFit), callers = {}, answered = answeredCalls(contents),
    takesReasoning = takesReasoning,
  }
  for _, content in ipairs(contents) do
    local take = content.role == "model" and addModel or addUser
    take(self, content)
    coroutines.keepPace()
  end
  return core.array(self.items)
end

return input
