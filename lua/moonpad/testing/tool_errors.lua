--- Which tools have failed in a run of `testing.run`: the model is told and may keep it to itself,
--- the test is told by its assertions.
local toolErrors = {}

---@class moonpad.ToolError
---@field name string of the tool
---@field message string what the model was told
---@field traceback string

-- What testing.run returned, or the session in it -> the errors.
local errorsOf = setmetatable({}, { __mode = "k" })

---The tool errors that an event tells of.
---@param event moonpad.Event
---@param list moonpad.ToolError[] gets them
function toolErrors.collect(event, list)
  local tracebacks = type(event.customMetadata) == "table" and event.customMetadata.toolErrors
  if type(tracebacks) ~= "table" then return end
  for _, response in ipairs(event:functionResponses()) do
    local traceback = tracebacks[response.id]
    if traceback then
      list[#list + 1] = { name = response.name, message = response.response.error, traceback = traceback }
    end
  end
end

---Keeps them for the assertions about a result.
---@param result moonpad.TestRun
function toolErrors.note(result)
  errorsOf[result], errorsOf[result.session] = result.toolErrors, result.toolErrors
end

---What assertions say about them.
---@param holder any what testing.run returned, or the session in it
---@return string text empty where no tool has failed
function toolErrors.text(holder)
  local lines = {}
  for _, err in ipairs(holder ~= nil and errorsOf[holder] or {}) do
    lines[#lines + 1] = ('\n  the tool "%s" failed: %s'):format(err.name, (err.traceback:gsub("\n", "\n    ")))
  end
  return table.concat(lines)
end

return toolErrors
