--- Confirmations: a tool call that the user is to approve before it runs. The request is a function
--- call of its own, `adk_request_confirmation`, which the user answers with a function response;
--- then the call is run anew. All that is particular about these requests stands here.
local copy = require "moonpad.util.copy"
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local luaError = require "moonpad.util.lua_error"

local confirmation = {}

---@class moonpad.ToolConfirmation
---@field hint string what the user was told
---@field confirmed boolean
---@field payload any what the user answered besides

---@class moonpad.ConfirmedCall a call that the user has approved or refused
---@field requestId string
---@field functionCall { id: string, name: string, args: table } as the model made it
---@field toolConfirmation moonpad.ToolConfirmation

-- What the requests are called: no tool can have this name.
confirmation.REQUEST_NAME = "adk_request_confirmation"

local HINT = "Please approve or reject the tool call %s() by responding with a FunctionResponse with an expected "
  .. "ToolConfirmation payload."
local REQUIRED = "This tool call requires confirmation, please approve or reject."
local REJECTED = "This tool call is rejected."

---- Asking

local OPTIONS = { "hint", "payload" }
local METHOD = "context:requestConfirmation"

-- The action tells of the request, too; it goes out on the event that answers the call.
local function ask(callbackState, hint, payload)
  if callbackState.invocationContext.isInner then
    core.error("unsupported", ('this call needs a confirmation, and agent "%s" runs as a tool: '
      .. "there is no user who could be asked"):format(callbackState.agent.name))
  end
  local id = callbackState.callId
  if type(id) ~= "string" then core.error("unsupported", METHOD .. ": this function call has no id") end
  local request = { hint = hint, confirmed = false, payload = payload }
  callbackState.requestedConfirmation = request
  callbackState.actions.requestedToolConfirmations = { [id] = request }
end

local function checkStorable(value, name, session)
  if value == nil then return end
  local ok, err = pcall(core.encodeWithin, value, session)
  if ok then return end
  luaError.passOn(err)
  core.error("invalid_argument", ("%s: %s: %s"):format(METHOD, name, errorText.of(err)))
end

---What `context:requestConfirmation` does.
---@param callbackState moonpad.CallbackState
---@param options { hint: string?, payload: any }?
function confirmation.request(callbackState, options)
  if not callbackState.isRunningTool then
    core.error("unsupported", METHOD .. ": only the run function of a tool can do that")
  end
  if options == nil then options = {} end
  core.checkFields(options, METHOD, OPTIONS)
  local hint, payload = options.hint, options.payload
  if hint == nil or hint == core.null then hint = "" end
  if type(hint) ~= "string" then
    core.error("invalid_argument", ("%s: hint: expected a string, got %s"):format(METHOD, type(hint)))
  end
  if payload == core.null then payload = nil end
  checkStorable(hint, "hint", callbackState.invocationContext.session)
  checkStorable(payload, "payload", callbackState.invocationContext.session)
  ask(callbackState, hint, copy(payload))
end

-- Whoever forgets to answer must not let the tool run.
local function isRequired(tool, args, context)
  local required = tool.requireConfirmation
  if type(required) == "boolean" or required == nil then return required end
  local answer = required(copy(args), context)
  if type(answer) == "boolean" then return answer end
  return core.error("tool", ("%s: requireConfirmation: expected a boolean as the answer, got %s"):format(
    tool.name, type(answer)))
end

---What a call is answered in place of its tool: that it needs a confirmation, or that the user has
---refused it; nil where the tool is to run.
---@param tool moonpad.Tool
---@param args table
---@param callbackState moonpad.CallbackState
---@return table?
function confirmation.answerInstead(tool, args, callbackState)
  local given = callbackState.toolConfirmation
  if given then return not given.confirmed and { error = REJECTED } or nil end
  if not isRequired(tool, args, callbackState.context) then return nil end
  ask(callbackState, HINT:format(tool.name))
  callbackState.actions.skipSummarization = true
  return { error = REQUIRED }
end

---The event that asks the user, with a request for each call that asked; nil where none did.
---@param calls { callbackState: moonpad.CallbackState, functionCall: table }[]
---@param newId fun(): string
---@return table? event
function confirmation.toEvent(calls, newId)
  local parts, ids = {}, {}
  for _, call in ipairs(calls) do
    local request, made = call.callbackState.requestedConfirmation, call.functionCall
    if request then
      local id = newId()
      local args = {
        originalFunctionCall = { id = made.id, name = made.name, args = made.args or {} }, toolConfirmation = request,
      }
      parts[#parts + 1] = { functionCall = { id = id, name = confirmation.REQUEST_NAME, args = args } }
      ids[#ids + 1] = id
    end
  end
  if #parts == 0 then return nil end
  return { content = { role = "user", parts = parts }, longRunningToolIds = ids }
end

---- The user's answer

-- A model may call a function of that name itself: that is no request.
local function isRequest(event, call)
  if call.name ~= confirmation.REQUEST_NAME or type(event.longRunningToolIds) ~= "table" then return false end
  for _, id in ipairs(event.longRunningToolIds) do
    if id == call.id then return true end
  end
  return false
end

---The call that a request is about; nil where a function call of an event is no request.
---@param event moonpad.Event
---@param call table
---@return { id: string, name: string, args: table }?
function confirmation.originalCall(event, call)
  local original = isRequest(event, call) and type(call.args) == "table" and call.args.originalFunctionCall
  if type(original) ~= "table" or type(original.id) ~= "string" then return nil end
  return original
end

---What the user was told by a request.
---@param request table the function call
---@return string
function confirmation.hintOf(request)
  local asked = request.args.toolConfirmation
  return type(asked) == "table" and type(asked.hint) == "string" and asked.hint or ""
end

---What the tool itself wants the user to be told; `requireConfirmation` has no words of its own.
---@param request table the function call
---@return string? hint
function confirmation.ownHintOf(request)
  local hint, original = confirmation.hintOf(request), request.args.originalFunctionCall
  return hint ~= "" and hint ~= HINT:format(original.name) and hint or nil
end

local ANSWER = { "confirmed", "payload", "hint" }

---What the user has answered to a request.
---@param response any
---@param hint string
---@param where string
---@return moonpad.ToolConfirmation
function confirmation.ofAnswer(response, hint, where)
  if type(response) ~= "table" then
    core.error("invalid_argument", ("%s: expected { confirmed = true or false }, got %s"):format(where, type(response)))
  end
  core.checkFields(response, where, ANSWER)
  local confirmed, payload = response.confirmed, response.payload
  if type(confirmed) ~= "boolean" then
    core.error("invalid_argument", ("%s.confirmed: expected a boolean, got %s"):format(where,
      (confirmed == nil or confirmed == core.null) and "nothing" or type(confirmed)))
  end
  if payload == core.null then payload = nil end
  return { hint = hint, confirmed = confirmed, payload = payload }
end

---- What models see: neither the requests nor the answers to them

local function isAnswer(event, response)
  return event.author == "user" and response.name == confirmation.REQUEST_NAME
end

local function concerns(event)
  for _, part in ipairs(event.content.parts) do
    local call, response = part.functionCall, part.functionResponse
    if call and isRequest(event, call) or response and isAnswer(event, response) then return true end
  end
  return false
end

local function requestIn(event, requestId)
  for _, request in ipairs(event and event.requests or {}) do
    if request.requestId == requestId then return request end
  end
  return nil
end

local function add(shown, field, entry)
  shown[field] = shown[field] or {}
  table.insert(shown[field], entry)
end

-- `requests` are those of the events before: by their ids, the event that shows each.
local function withoutRequests(event, requests)
  local shown = { author = event.author, branch = event.branch, content = { role = event.content.role, parts = {} } }
  for _, part in ipairs(event.content.parts) do
    local call, response = part.functionCall, part.functionResponse
    if call and isRequest(event, call) then
      local original = confirmation.originalCall(event, call)
      add(shown, "requests", { requestId = call.id, functionCall = original or {} })
      requests[call.id] = shown
    elseif response and isAnswer(event, response) then
      local request = requests[response.id]
      local asked = requestIn(request, response.id)
      local id = asked and asked.functionCall.id
      shown.answersUnknown = shown.answersUnknown or request == nil
      add(shown, "confirmed", { requestId = response.id, request = request, id = id })
    else
      table.insert(shown.content.parts, part)
    end
  end
  return shown
end

---@class moonpad.ShownEvent what stands in the place of an event that is about confirmations
---@field author string
---@field branch string?
---@field content moonpad.Content the parts that are not
---@field requests { requestId: string, functionCall: table }[]? which calls the user is asked about
---@field confirmed { requestId: string, request: moonpad.ShownEvent?, id: string? }[]? which calls are run anew, and
---what shows the request; ids of calls need not be unique, those of requests are
---@field answersUnknown boolean? it answers a request that was not among the events before

---An event of a history without requests for confirmations and the answers to them: itself, or what
---stays in its place.
---@param event table with content
---@param requests table those of the events before, which this one's are added to
---@return table|moonpad.ShownEvent
function confirmation.shown(event, requests)
  return concerns(event) and withoutRequests(event, requests) or event
end

return confirmation
