--- What fails in a test. In busted it is a failure at the line of the spec; elsewhere, where nobody
--- knows failures, it is an error object.
local core = require "moonpad.core"
local errorText = require "moonpad.util.error_text"

local failures = {}

-- Where moonpad's own files are: the line that counts is the nearest one outside.
local FOLDER = debug.getinfo(1, "S").source:match "^(.*)testing[/\\]failure%.lua$"

local function isOfTests(info)
  return info.currentline > 0 and info.source:sub(1, #FOLDER) ~= FOLDER and not info.source:find "luassert[/\\]"
end

---The line of the test that is running in this coroutine.
---@return string? place "agent_spec.lua:12: "; nil where nothing but moonpad is running
function failures.place()
  local level = 2
  while true do
    local info = debug.getinfo(level, "Sl")
    if not info then return nil end
    if isOfTests(info) then return ("%s:%d: "):format(info.short_src, info.currentline) end
    level = level + 1
  end
end

-- `fail` of busted, which makes a failure; nil outside of busted.
local function failOfBusted()
  local busted = package.loaded.busted
  return type(busted) == "table" and busted.fail or nil
end

-- failure -> its message without a place.
local messages = setmetatable({}, { __mode = "k" })

---Fails a test.
---@param code moonpad.ErrorCode
---@param message string
---@param options { place: string?, cause: any }? place: where no test is running in this coroutine; cause: the error
---behind it
function failures.raise(code, message, options)
  options = options or {}
  local fail = failOfBusted()
  if not fail then core.error(code, message, { cause = options.cause }) end
  local _, failure = pcall(fail, (failures.place() or options.place or "") .. message, 0)
  failure.code, failure.cause = code, options.cause
  messages[failure] = message
  error(failure, 0)
end

---Fails a test with an error that a run has ended with, at the line of the test that has begun
---the run.
---@param err any
---@param traceback string? of the error
function failures.pass(err, traceback)
  if not failOfBusted() then error(err, 0) end
  local message = messages[err]
  if message then failures.raise(err.code, message, { cause = err.cause }) end
  local code = core.isError(err) and err.code or nil
  message = (code and code .. ": " or "") .. errorText.of(err)
  failures.raise(code, traceback and message .. "\n" .. traceback or message, { cause = err })
end

return failures
