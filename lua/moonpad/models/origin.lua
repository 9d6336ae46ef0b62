--- What a server gave to be sent back (signatures, reasoning, its own blocks) goes back to that
--- server and to no other (contract section 4). Each part that holds such a thing says which server
--- it is from, in ADK's place for what is known of a part.
local origin = {}

-- Fields of a part that only their giver understands.
local BOUND = { "thoughtSignature", "openai", "anthropic", "toolCall", "toolResponse" }

local function isBound(part)
  for _, field in ipairs(BOUND) do
    if part[field] ~= nil then return true end
  end
  return false
end

---Notes where the parts of an answer are from.
---@param parts table[]
---@param server string scheme, host and port
function origin.mark(parts, server)
  for _, part in ipairs(parts) do
    if isBound(part) then part.partMetadata = { server = server } end
  end
end

---Takes away what another server has given. A part that does not say whose it is stays whole.
---@param contents moonpad.Content[] whose parts may be changed
---@param server string
function origin.keepOwn(contents, server)
  for _, content in ipairs(contents) do
    for _, part in ipairs(content.parts) do
      local from = type(part.partMetadata) == "table" and part.partMetadata.server
      if from and from ~= server then
        for _, field in ipairs(BOUND) do part[field] = nil end
      end
    end
  end
end

return origin
