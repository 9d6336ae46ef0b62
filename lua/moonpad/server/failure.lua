--- What goes wrong, as an answer of HTTP: a status, and `{"error":…,"detail":…}` (the one is
--- adk-js's word for it, the other adk-python's).
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"
local redact = require "moonpad.models.redact"

local failure = {}

---@class moonpad.server.Failure
---@field status integer
---@field message string
---@field headers string[]? of the answer: name, value, name, value, ...
local Failure = {}
Failure.__index = Failure

-- The statuses of moonpad's errors. What is not here is the server's fault.
local STATUS = {
  invalid_argument = 400, not_found = 404, already_exists = 409, conflict = 409, limit = 429, unsupported = 501,
  busy = 503, closed = 503,
}

---Ends the request with an error.
---@param status integer
---@param message string a format
---@param ... any for the format
function failure.raise(status, message, ...)
  error(setmetatable({ status = status, message = message:format(...) }, Failure), 0)
end

---The same, with headers of the answer.
---@param status integer
---@param headers string[]
---@param message string a format
function failure.raiseWith(status, headers, message, ...)
  error(setmetatable({ status = status, headers = headers, message = message:format(...) }, Failure), 0)
end

---@param err any what was raised
---@return moonpad.server.Failure
function failure.of(err)
  if getmetatable(err) == Failure then return err end
  local code = (core.isError(err) or type(err) == "table") and err.code or nil
  return setmetatable({ status = STATUS[code] or 500, message = errorText.of(err) }, Failure)
end

---What clients are told. An error that is none of moonpad's may say anything, what nobody outside
---should know as well: those beyond this machine are not told.
---@param err any
---@param isPublic boolean?
---@return string
function failure.message(err, isPublic)
  if isPublic and getmetatable(err) ~= Failure and not core.isError(err) then return "internal error" end
  return failure.of(err).message
end

---The body of an error, without what looks like a key.
---@param message string
---@return table body
function failure.body(message)
  message = redact.shapes(errorText.valid(message))
  return { error = message, detail = message }
end

return failure
