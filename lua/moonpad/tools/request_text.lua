--- How tools add to what a model is asked.
local requestText = {}

---Adds a paragraph to the system instruction of a request.
---@param request table
---@param text string
function requestText.append(request, text)
  local before = request.systemInstruction
  request.systemInstruction = before and before .. "\n\n" .. text or text
end

return requestText
