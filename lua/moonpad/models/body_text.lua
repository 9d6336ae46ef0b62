--- The body of a request as JSON. The conversation in it may be long: it is encoded message by
--- message, so that a step of a run can end on the way.
local core = require "moonpad.core"
local coroutines = require "moonpad.runtime.coroutines"
local jsonText = require "moonpad.util.json_text"

local bodyText = {}

-- So many bytes are encoded in the time that an event of ordinary size takes elsewhere.
local ORDINARY_BYTES = 1024

-- The members of an object, without its braces.
local function membersOf(object)
  return jsonText.encode(object):sub(2, -2)
end

---@param body table
---@param conversation string the field that holds the messages
---@return string[] pieces of the text as jsonText.encode would write it
function bodyText.encode(body, conversation)
  local list, before, behind = body[conversation], {}, {}
  if type(list) ~= "table" or list[1] == nil then return { jsonText.encode(body) } end
  for name, value in pairs(body) do
    if name ~= conversation then (name < conversation and before or behind)[name] = value end
  end
  local texts = { "{", membersOf(before), next(before) and "," or "", core.json.encode(conversation), ":[" }
  for index, item in ipairs(list) do
    local text = core.json.encode(item)
    texts[#texts + 1], texts[#texts + 2] = index > 1 and "," or "", text
    coroutines.keepPace(1 + #text // ORDINARY_BYTES)
  end
  table.move({ "]", next(behind) and "," or "", membersOf(behind), "}" }, 1, 4, #texts + 1, texts)
  return texts
end

return bodyText
