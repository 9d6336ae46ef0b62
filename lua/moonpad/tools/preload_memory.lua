--- The tool `preload_memory`: what was said in former sessions and fits the user's message is put
--- into each request. No model calls it.
local core = require "moonpad.core"
local events = require "moonpad.events.event"
local requestText = require "moonpad.tools.request_text"
local tools = require "moonpad.tools.tool"

local preloadMemory = tools.define {
  name = "preload_memory",
  description = "Puts what was said in earlier conversations with this user into the request.",
  run = function()
    core.error("unsupported", "preload_memory: works by itself, with each request; there is nothing to be called")
  end,
}
preloadMemory.isHidden = true

local INSTRUCTION = [[
The following content is from your previous conversations with the user.
They may be useful for answering the user's current query.
<PAST_CONVERSATIONS>
%s
</PAST_CONVERSATIONS>]]

-- Texts of parts stand on their own, so there must be something between two of them.
local function textOf(content, separator)
  local texts = {}
  for _, part in ipairs(events.parts { content = content }) do
    if type(part.text) == "string" and part.text:find "%S" then texts[#texts + 1] = part.text end
  end
  return table.concat(texts, separator)
end

-- A host may not have opened the library `os`; and not every number is a time.
local function timeOf(timestamp)
  if type(timestamp) == "number" then
    local ok, text = pcall(function() return os.date("!%Y-%m-%dT%H:%M:%SZ", math.floor(timestamp)) end)
    return ok and text or nil
  end
  return type(timestamp) == "string" and timestamp ~= "" and timestamp or nil
end

-- A memory service of the user's own may answer with anything.
local function describe(memory)
  if type(memory) ~= "table" then return nil end
  local text, time = textOf(memory.content, " "), timeOf(memory.timestamp)
  if text == "" then return nil end
  local isKnown = type(memory.author) == "string" and memory.author ~= ""
  return (time and "Time: " .. time .. "\n" or "") .. (isKnown and memory.author .. ": " or "") .. text
end

function preloadMemory.processLlmRequest(context, request)
  local query = textOf(context.userContent, "\n")
  if query == "" then return end
  local found, texts = context:searchMemory(query), {}
  local memories = type(found) == "table" and found.memories
  for _, memory in ipairs(type(memories) == "table" and memories or {}) do texts[#texts + 1] = describe(memory) end
  if #texts == 0 then return end
  requestText.append(request, INSTRUCTION:format(table.concat(texts, "\n")))
end

return preloadMemory
