--- What a part of a content is, and how adapters read contents.
local arrays = require "moonpad.util.array"
local core = require "moonpad.core"

local parts = {}

local KINDS = { "functionCall", "functionResponse", "inlineData", "fileData", "executableCode", "codeExecutionResult" }

---@param part table
---@return string kind one of the fields above, "text", "thought", or "foreign" for what only its provider understands
function parts.kind(part)
  for _, kind in ipairs(KINDS) do
    if part[kind] ~= nil then return kind end
  end
  if part.thought then return "thought" end
  if part.text ~= nil then return "text" end
  return "foreign"
end

---Code that a model has run, as text for a model that cannot.
---@param part table with executableCode or codeExecutionResult
---@return string
function parts.codeAsText(part)
  local code, result = part.executableCode, part.codeExecutionResult
  if code then return ("```%s\n%s\n```"):format(tostring(code.language or ""):lower(), code.code or "") end
  return ("```output\n%s\n```"):format(result.output or "")
end

---What a part says to a model: text, or code that a model has run.
---@param part table
---@return string? text nil where it says nothing
function parts.textOf(part)
  local kind = parts.kind(part)
  if kind == "text" then return part.text ~= "" and part.text or nil end
  if kind == "executableCode" or kind == "codeExecutionResult" then return parts.codeAsText(part) end
  return nil
end

---What a model is told of a file of a tool that its provider cannot take.
---@param part table with inlineData or fileData
---@return string
function parts.notShown(part)
  local file = part.inlineData or part.fileData or {}
  return ("(a file of type %s that cannot be shown here)"):format(file.mimeType or "unknown")
end

---The tools of a request as a provider wants them, and those that are the provider's own.
---@param own table[]
---@param request table
---@return table[]? list
function parts.withProviderTools(own, request)
  for _, tool in ipairs(request.providerTools or {}) do own[#own + 1] = tool end
  return #own > 0 and own or nil
end

---@param value any the args of a function call, or the response of a function
---@return table value that is a JSON object
function parts.asObject(value)
  if type(value) ~= "table" then return value == nil and {} or { value = value } end
  if value[1] ~= nil or arrays.isMarked(value) and next(value) == nil then
    return #value > 0 and { value = value } or {}
  end
  return value
end

---The arguments of a call as text of JSON. Arguments that were no JSON are given back as they came.
---@param call table a functionCall
---@return string
function parts.argumentsText(call)
  return type(call.args) == "string" and call.args or core.json.encode(parts.asObject(call.args))
end

---What a user says who says nothing.
parts.CONTINUE = "Continue as instructed."

-- Nobody takes a message with nothing in it.
local function saysNothing(content)
  for _, part in ipairs(content.parts) do
    if part.text ~= "" or part.thought or part.thoughtSignature then return false end
  end
  return true
end

---The contents of a request that say something, ended by a turn of the user, because it is the user
---whom a model answers.
---@param contents moonpad.Content[]?
---@return moonpad.Content[]
function parts.untilUser(contents)
  local list = {}
  for _, content in ipairs(contents or {}) do
    if not saysNothing(content) then list[#list + 1] = content end
  end
  local last = list[#list]
  if not last or last.role == "model" then
    list[#list + 1] = { role = "user", parts = { { text = parts.CONTINUE } } }
  end
  return list
end

---Adds text at the end of a list of parts; text goes on where it stopped.
---@param list table[]
---@param texts moonpad.GrowingTexts to be joined at the end
---@param text string
---@param isThought boolean?
---@return table part
function parts.addText(list, texts, text, isThought)
  local last = list[#list]
  if last and parts.kind(last) == (isThought and "thought" or "text") then
    texts:add(last, text)
    return last
  end
  local part = { text = text, thought = isThought or nil }
  list[#list + 1] = part
  return part
end

---A part that only says what has just come in.
---@param text string
---@param isThought boolean?
---@return table[]
function parts.delta(text, isThought)
  return { { text = text, thought = isThought or nil } }
end

return parts
