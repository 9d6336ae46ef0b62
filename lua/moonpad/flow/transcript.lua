--- A conversation as text, for whoever is to sum it up.
local core = require "moonpad.core"

local transcript = {}

-- What a tool was given or has answered is seldom needed in full.
local MOST_JSON <const> = 2000

local function shortened(text, most)
  if #text <= most then return text end
  local stop = utf8.offset(text, 0, most + 1) or most + 1
  return text:sub(1, stop - 1) .. "..."
end

local function jsonOf(value)
  return shortened(core.json.encode(value == nil and {} or value), MOST_JSON)
end

local function lineOf(part)
  if part.thought then return nil end
  if part.functionCall then
    return ("calls %s with %s"):format(part.functionCall.name, jsonOf(part.functionCall.args))
  elseif part.functionResponse then
    return ("gets from %s: %s"):format(part.functionResponse.name, jsonOf(part.functionResponse.response))
  elseif type(part.text) == "string" then
    return part.text:find "%S" and part.text or nil
  elseif part.inlineData then
    return ("sends a file (%s)"):format(part.inlineData.mimeType or "unknown")
  end
  return nil
end

---What happened in an event, a line for each part: "user: Hello".
---@param event table as session_history keeps it
---@return string "" where it says nothing
function transcript.of(event)
  local lines = {}
  for _, part in ipairs(event.content and event.content.parts or {}) do
    local line = lineOf(part)
    local says = line and (part.text and not part.functionCall and ": " or " ")
    if line then lines[#lines + 1] = (event.author or "?") .. says .. line .. "\n" end
  end
  return table.concat(lines)
end

return transcript
