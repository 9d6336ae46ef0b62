--- What was said in a span, as JSON: by the names and in the shapes of OpenTelemetry's conventions
--- for generative AI.
local core = require "moonpad.core"

local contents = {}

-- Longer ones are left out: who wants all of it has the events.
local MOST <const>, LEFT_OUT <const> = 256 * 1024, '"[left out: more than 256 KiB]"'

local function encoded(value)
  if value == nil then return nil end
  local ok, text = pcall(core.encodeWithin, value, MOST)
  return ok and #text <= MOST and text or LEFT_OUT
end

-- A file is named, not sent.
local function partOf(part)
  if part.text then return { type = part.thought and "reasoning" or "text", content = part.text } end
  local call, response, inline = part.functionCall, part.functionResponse, part.inlineData
  if call then return { type = "tool_call", id = call.id, name = call.name, arguments = call.args } end
  if response then return { type = "tool_call_response", id = response.id, response = response.response } end
  if inline then return { type = "blob", mime_type = inline.mimeType, modality = "file", content = "" } end
  if part.fileData then
    return { type = "uri", mime_type = part.fileData.mimeType, modality = "file", uri = part.fileData.fileUri }
  end
  return { type = "other" }
end

local ROLES <const> = { model = "assistant", user = "user" }

local function messageOf(content, finishReason)
  local parts, role = core.array {}, ROLES[content.role] or content.role or "user"
  for index, part in ipairs(content.parts or {}) do
    parts[index] = partOf(part)
    if part.functionResponse then role = "tool" end
  end
  return { role = role, parts = parts, finish_reason = finishReason }
end

local function messagesOf(list)
  local messages = core.array {}
  for index, content in ipairs(list or {}) do messages[index] = messageOf(content) end
  return messages
end

local function outputOf(response)
  if not response or not response.content then return nil end
  local reason = type(response.finishReason) == "string" and response.finishReason:lower() or "stop"
  return core.array { messageOf(response.content, reason) }
end

local function definitionsOf(tools)
  if not tools or #tools == 0 then return nil end
  local list = core.array {}
  for index, tool in ipairs(tools) do
    list[index] = { type = "function", name = tool.name, description = tool.description, parameters = tool.parameters }
  end
  return list
end

---@param span moonpad.Span that has just ended
---@return table<string, string>
function contents.of(span)
  local said, found = span.said, {}
  local request = said.request
  if request then
    local system = request.systemInstruction
    found["gen_ai.system_instructions"] = encoded(system and core.array { { type = "text", content = system } })
    found["gen_ai.input.messages"] = encoded(messagesOf(request.contents))
    found["gen_ai.tool.definitions"] = encoded(definitionsOf(request.tools))
  end
  found["gen_ai.output.messages"] = encoded(outputOf(said.response))
  found["gen_ai.tool.call.arguments"] = encoded(said.arguments)
  found["gen_ai.tool.call.result"] = encoded(said.result)
  return found
end

---@param found table<string, string>
---@return integer bytes
function contents.size(found)
  local size = 0
  for _, text in pairs(found) do size = size + #text end
  return size
end

contents.encoded = encoded

return contents
