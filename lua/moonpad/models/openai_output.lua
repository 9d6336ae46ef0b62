--- The output of a response of OpenAI's: its items, which come whole or in pieces, and the parts
--- that they become.
local core = require "moonpad.core"
local fields = require "moonpad.models.fields"
local growingText = require "moonpad.flow.growing_text"

local output = {}

---An item of the output.
---@class moonpad.OpenaiItem
---@field type string
---@field value table as it came last
---@field isDone boolean? it came whole
---@field contents table<number, table> parts of the texts that came in pieces, by their place in the item
---@field thought table? the part of thoughts that came in pieces
---@field section string? which of its texts those pieces are of

---@class moonpad.OpenaiOutput
---@field items table<number, moonpad.OpenaiItem> by their place
---@field texts moonpad.GrowingTexts
---@field citations table[]
---@field isRefused boolean? the model has said why it does not answer
local Output = {}
Output.__index = Output

---@return moonpad.OpenaiOutput
function output.new()
  return setmetatable({ items = {}, texts = growingText.new(), citations = {} }, Output)
end

---- What comes in

-- The item of that place. It has been announced, by all that the API documents.
local function itemAt(self, place, kind)
  local item = self.items[place] or { type = kind, value = {}, contents = {} }
  self.items[place] = item
  return item
end

---Takes a piece of the text of a message.
---@param place number of the item
---@param index number of the text in it
---@param text string
---@return table[]? shown
function Output:addText(place, index, text)
  local item = itemAt(self, place, "message")
  item.contents[index] = item.contents[index] or { text = "" }
  self.texts:add(item.contents[index], text)
  return text ~= "" and { { text = text } } or nil
end

---Takes a piece of thoughts. An item may hold several texts of them.
---@param place number of the item
---@param section string which of its texts
---@param text string
---@return table[]? shown
function Output:addThought(place, section, text)
  local item = itemAt(self, place, "reasoning")
  if text == "" then return nil end
  if item.section and item.section ~= section then text = "\n\n" .. text end
  item.thought, item.section = item.thought or { text = "", thought = true }, section
  self.texts:add(item.thought, text)
  return { { text = text, thought = true } }
end

local whole = {}

-- What has come in pieces already is not taken again.
function whole.message(self, place, item, path)
  fields.string(item.value, "phase", path)
  local shown = {}
  for index, content in ipairs(fields.objects(item.value, "content", path)) do
    local where = ("%s.content[%d]"):format(path, index)
    fields.objects(content, "annotations", where)
    local refusal = fields.text(content, "refusal", where)
    local text = refusal or fields.text(content, "text", where)
    self.isRefused = self.isRefused or refusal ~= nil
    if text and not item.contents[index - 1] then
      table.move(self:addText(place, index - 1, text), 1, 1, #shown + 1, shown)
    end
  end
  return shown
end

function whole.reasoning(self, place, item, path)
  fields.string(item.value, "encrypted_content", path)
  local shown, isNew = {}, not item.thought
  for _, name in ipairs { "content", "summary" } do
    for index, section in ipairs(fields.objects(item.value, name, path)) do
      local text = fields.text(section, "text", ("%s.%s[%d]"):format(path, name, index))
      if text and isNew then table.move(self:addThought(place, name .. index, text), 1, 1, #shown + 1, shown) end
    end
  end
  return shown
end

function whole.function_call(_, _, item, path)
  fields.check(item.value, path, {
    call_id = fields.string, arguments = fields.string, status = fields.string, namespace = fields.string,
    caller = fields.object,
  })
  fields.required(fields.text, item.value, "name", path)
end

function whole.image_generation_call(_, _, item, path)
  fields.check(item.value, path, { result = fields.string, output_format = fields.string })
end

---Takes an item that begins, or that is whole.
---@param place number
---@param value table
---@param path string for messages
---@param isDone boolean
---@return table[]? shown
function Output:addItem(place, value, path, isDone)
  local kind = fields.required(fields.string, value, "type", path)
  local item = itemAt(self, place, kind)
  item.type, item.value, item.isDone = kind, value, isDone
  local take = isDone and whole[item.type]
  local shown = take and take(self, place, item, path)
  return shown and #shown > 0 and shown or nil
end

---Takes the list of all items, of which those are missing that have not come by themselves.
---@param list table[]
---@param path string
---@return table[]? shown
function Output:addAll(list, path)
  for _, item in pairs(self.items) do
    if item.isDone then return nil end
  end
  local shown = {}
  for index, value in ipairs(list) do
    local more = self:addItem(index - 1, value, ("%s[%d]"):format(path, index), true) or {}
    table.move(more, 1, #more, #shown + 1, shown)
  end
  return #shown > 0 and shown or nil
end

---- What it becomes

local function sortedKeys(map)
  local keys = {}
  for key in pairs(map) do keys[#keys + 1] = key end
  table.sort(keys)
  return keys
end

-- Citations in ADK's form; the places in the text are OpenAI's.
local function addCitations(self, annotations)
  for _, annotation in ipairs(annotations) do
    if annotation.type == "url_citation" then
      self.citations[#self.citations + 1] = {
        startIndex = annotation.start_index, endIndex = annotation.end_index,
        uri = annotation.url, title = annotation.title,
      }
    end
  end
end

local become = {}

-- The phase (comment or final answer) is to be sent back with the text.
function become.message(self, list, item)
  local contents = fields.objects(item.value, "content", "message")
  for _, index in ipairs(sortedKeys(item.contents)) do
    local part, content = item.contents[index], contents[index + 1] or {}
    local annotations = fields.objects(content, "annotations", "content")
    local own = { phase = fields.text(item.value, "phase", "message") }
    if #annotations > 0 then own.annotations = annotations end
    addCitations(self, annotations)
    part.openai = next(own) and own or nil
    if part.text ~= "" then list[#list + 1] = part end
  end
end

local function isWorthKeeping(reasoning)
  local content = reasoning.content
  return type(reasoning.encrypted_content) == "string" or type(content) == "table" and content[1] ~= nil
end

-- Only what the server can read again is kept for it.
function become.reasoning(_, list, item)
  local part = item.thought or { text = "", thought = true }
  if item.isDone and isWorthKeeping(item.value) then part.openai = { item = fields.withoutNulls(item.value) } end
  if part.text ~= "" or part.openai then list[#list + 1] = part end
end

-- An answer that has ended before its time may have ended within a call.
local function isCut(item, answer)
  local status = item.value.status
  return not item.isDone or status == "incomplete" or answer.finishReason ~= "STOP" and status ~= "completed"
end

function become.function_call(_, list, item, answer)
  local call = item.value
  if isCut(item, answer) then answer:refuseCutCall(call.name) end
  local own = { caller = fields.object(call, "caller", "function_call") }
  own.namespace = fields.text(call, "namespace", "function_call")
  list[#list + 1] = {
    functionCall = {
      id = fields.text(call, "call_id", "function_call"), name = call.name,
      args = answer:decodeArguments(call.name, fields.string(call, "arguments", "function_call") or ""),
    },
    openai = next(own) and own or nil,
  }
end

-- The API takes back no more of a picture than this and its data.
function become.image_generation_call(_, list, item)
  local image = item.value
  local data = item.isDone and fields.text(image, "result", "image_generation_call")
  if not data then return end
  local format = fields.text(image, "output_format", "image_generation_call") or "png"
  list[#list + 1] = {
    inlineData = { mimeType = "image/" .. format, data = data },
    openai = { item = { type = image.type, id = image.id, status = image.status } },
  }
end

---The parts of an answer. What only the server understands goes into history as it came.
---@param answer moonpad.OpenaiResponsesAnswer
---@return table[]
function Output:parts(answer)
  self.texts:join()
  local list = {}
  for _, place in ipairs(sortedKeys(self.items)) do
    local item = self.items[place]
    local make = become[item.type]
    if make then
      make(self, list, item, answer)
    elseif item.isDone then
      list[#list + 1] = { openai = { item = item.value } }
    end
  end
  return list
end

---@return table? citationMetadata
function Output:citationMetadata()
  return #self.citations > 0 and { citations = core.array(self.citations) } or nil
end

return output
