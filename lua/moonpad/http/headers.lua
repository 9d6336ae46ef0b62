--- The headers of a request, as users give them.
local errorText = require "moonpad.util.error_text"
local fields = require "moonpad.schema.fields"

local headers = {}

-- How a message is framed on its connection is libcurl's affair: another length would make the rest
-- of a body the beginning of somebody else's request.
local FRAMING = {
  ["content-length"] = true, ["transfer-encoding"] = true, ["connection"] = true, ["keep-alive"] = true,
  ["proxy-connection"] = true, ["te"] = true, ["trailer"] = true, ["upgrade"] = true, ["expect"] = true,
  ["http2-settings"] = true,
}

-- What a header may be called, by RFC 9110.
local NAME = "^[%w!#$%%&'*+%-.^_`|~]+$"

---Checks headers and brings their names into lower case. A value is never quoted: it may be a key.
---@param given any
---@param where string for messages
---@return table<string, string>
function headers.read(given, where)
  if type(given) ~= "table" then fields.refuse(where, "expected a table, got " .. fields.describe(given)) end
  local read = {}
  for name, value in pairs(given) do
    if type(name) ~= "string" or not name:find(NAME) then
      fields.refuse(where, errorText.show(name) .. " is no name of a header: letters, digits and some signs")
    elseif FRAMING[name:lower()] then
      fields.refuse(where .. "." .. name, "is not for you to set: it says how the request is sent")
    elseif type(value) ~= "string" then
      fields.refuse(where .. "." .. name, "expected a string, got " .. fields.describe(value))
    elseif value:find "[%c]" then
      fields.refuse(where .. "." .. name, "must not contain line ends or other control characters")
    end
    read[name:lower()] = value
  end
  return read
end

return headers
