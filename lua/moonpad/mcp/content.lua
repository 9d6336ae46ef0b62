--- What servers answer, as what tools return: a response, and files beside it. Blocks of content
--- are texts, images, audio, resources and links to resources.
local base64 = require "moonpad.util.base64"
local core = require "moonpad.core"

local content = {}

local UNKNOWN_TYPE = "application/octet-stream"

local function isText(value)
  return type(value) == "string"
end

-- nil where the data is no base64.
local function fileOf(mimeType, data, name)
  if base64.problem(data) then return nil end
  return { inlineData = { mimeType = isText(mimeType) and mimeType or UNKNOWN_TYPE, data = data, displayName = name } }
end

---A resource that a server has sent along, or that was read.
---@param resource any
---@return moonpad.Part? part nil where it is none
local function partOfResource(resource)
  if type(resource) ~= "table" then return nil end
  if isText(resource.text) then return { text = resource.text } end
  if not isText(resource.blob) then return nil end
  return fileOf(resource.mimeType, resource.blob, isText(resource.uri) and resource.uri or nil)
end

local function linkText(block)
  local text = ("%s <%s>"):format(isText(block.name) and block.name or "Resource", block.uri)
  if isText(block.mimeType) then text = ("%s (%s)"):format(text, block.mimeType) end
  return isText(block.description) and text .. ": " .. block.description or text
end

local readers = {
  text = function(block) return isText(block.text) and { text = block.text } end,
  image = function(block) return isText(block.data) and fileOf(block.mimeType, block.data) end,
  resource = function(block) return partOfResource(block.resource) end,
  resource_link = function(block) return isText(block.uri) and { text = linkText(block) } end,
}
readers.audio = readers.image

---The part that a block of content is. What nobody knows is told as a text.
---@param block any
---@return moonpad.Part
function content.part(block)
  local kind = type(block) == "table" and block.type
  local read = readers[kind]
  local part = read and read(block)
  return part or { text = ("[content of type %s that cannot be shown]"):format(isText(kind) and kind or "unknown") }
end

-- The texts, joined, and the files.
local function split(blocks)
  local texts, files = {}, {}
  for _, block in ipairs(type(blocks) == "table" and blocks or {}) do
    local part = content.part(block)
    if part.text then
      texts[#texts + 1] = part.text
    else
      files[#files + 1] = part
    end
  end
  -- One of many megabytes is not copied.
  return texts[2] and table.concat(texts, "\n") or texts[1] or "", files
end

local function isStructured(value)
  return value ~= nil and value ~= core.null
end

---What a call of a tool has given.
---@param result table
---@return any response nil where it is an error
---@return moonpad.Part[]|string|nil parts files; or what went wrong
function content.ofCall(result)
  local text, files = split(result.content)
  local structured = result.structuredContent
  if result.isError == true then
    if text == "" and isStructured(structured) then text = core.json.encode(structured) end
    return nil, text ~= "" and text or "the tool failed without a message"
  end
  local response = { result = text }
  if isStructured(structured) then response = structured end
  return response, #files > 0 and files or nil
end

local ROLES = { user = "user", assistant = "model" }

---The messages of a prompt.
---@param result table
---@return moonpad.Content[]
function content.ofPrompt(result)
  local list = {}
  for _, message in ipairs(type(result.messages) == "table" and result.messages or {}) do
    local blocks = type(message) == "table" and message.content
    if type(blocks) ~= "table" or blocks[1] == nil then blocks = { blocks } end
    local parts = {}
    for index, block in ipairs(blocks) do parts[index] = content.part(block) end
    list[#list + 1] = { role = ROLES[message.role] or "user", parts = parts }
  end
  return list
end

---What a resource holds.
---@param result table
---@return moonpad.Part[]
function content.ofResource(result)
  local list = {}
  for _, resource in ipairs(type(result.contents) == "table" and result.contents or {}) do
    list[#list + 1] = partOfResource(resource)
  end
  return list
end

return content
