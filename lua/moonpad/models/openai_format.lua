--- The form to which an answer is held, in what OpenAI's two APIs have in common of it.
local schemaText = require "moonpad.schema.text"
local schemas = require "moonpad.schema.normalize"
local strictSchema = require "moonpad.schema.strict"

local formats = {}

---@class moonpad.OpenaiFormat
---@field type "json_object"|"json_schema"
---@field schema table? as it goes over the wire
---@field strict boolean? the server holds the answer to it

---@param given table config of the request
---@param quirks moonpad.ProviderQuirks
---@return moonpad.OpenaiFormat? nil: any text will do
function formats.of(given, quirks)
  local schema = given.responseSchema
  if schema and quirks.schema ~= "none" then
    local strict = quirks.schema == "strict" and strictSchema.of(schema)
    local plain = strict or schemas.normalize(schema)
    return { type = "json_schema", schema = schemaText.raw(plain), strict = strict and true or false }
  end
  if schema or given.responseMimeType == "application/json" then return { type = "json_object" } end
  return nil
end

return formats
