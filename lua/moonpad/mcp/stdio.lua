--- A server that is a process of ours: one message a line, on its standard input and output.
local connections = require "moonpad.mcp.connection"
local core = require "moonpad.core"
local jsonrpc = require "moonpad.mcp.jsonrpc"
local wakeSources = require "moonpad.runtime.wake_sources"

local stdio = {}

---@class moonpad.McpStdioConnection: moonpad.McpConnection
---@field process moonpad.Process
---@field diagnostics moonpad.McpDiagnostics
---@field output moonpad.McpLines
---@field errors moonpad.McpLines
---@field replies integer that may wait until it reads
---@field isDeaf boolean? it reads nothing any more
---@field endsAt number? when it is taken for over although it lives (core.monotonic)
local Connection = {}
Connection.__index = Connection

-- As long as the longest answer of a model may be.
local MAX_LINE_BYTES = 64 * 1024 * 1024
local MAX_ERROR_LINE_BYTES = 4096

-- So many seconds it is read at a time from each of the two streams, however much comes, so that no
-- frame is held up.
local SLICE = 0.00025

-- How long a process that has closed its output may take to tell how it ended.
local SECONDS_TO_END = 0.3

-- So much longer it is read what others still write to its streams, or what nobody had time for.
local SECONDS_OF_REMAINS = 0.5
local LOOK_AGAIN_SECONDS = 0.01

---- Lines

local CARRIAGE_RETURN = 13

---@class moonpad.McpLines
---@field text string what has come
---@field position integer in it: so far it has been looked at
---@field pieces string[] of the line that is not complete
---@field size integer
---@field limit integer

local function newLines(limit)
  return { text = "", position = 1, pieces = {}, size = 0, limit = limit }
end

local function addText(lines, text)
  lines.text, lines.position = text or "", 1
end

local function hasText(lines)
  return lines.position <= #lines.text
end

local function restOf(lines)
  local rest = table.concat(lines.pieces)
  lines.pieces, lines.size = {}, 0
  return rest
end

-- The next line, without what ends it on this system or another; nil: it is not complete. False: it
-- is too long.
local function nextLine(lines)
  local stop = lines.text:find("\n", lines.position, true)
  local part = lines.text:sub(lines.position, (stop or #lines.text + 1) - 1)
  lines.position = (stop or #lines.text) + 1
  lines.pieces[#lines.pieces + 1], lines.size = part, lines.size + #part
  if lines.size > lines.limit then return false end
  if not stop then return nil end
  local line = restOf(lines)
  return line:byte(-1) == CARRIAGE_RETURN and line:sub(1, -2) or line
end

---- The end

-- What it was is known from now on by `ending` alone.
local function finish(self, text)
  if self.ending then return end
  self.ending, self.diagnostics.lastEnding = text, text
  wakeSources.remove(self)
  self.process:close()
  connections.failAll(self, text)
end

---- Writing

local function send(self, text)
  if not self.ending then self.isDeaf = not self.process:write(text .. "\n") end
end

-- Who asks and asks, and does not read the answers, is not given all of them: they would pile up.
local MAX_REPLIES = 100

local function sendReply(self, text)
  if not self.process:isWriting() then self.replies = 0 end
  if self.replies >= MAX_REPLIES then return end
  self.replies = self.replies + 1
  send(self, text)
end

---- Reading

local function takeLine(self, line)
  if not line:find "%S" then return end
  local messages = jsonrpc.read(line)
  if not messages then return self.diagnostics:wroteNoMessage(line) end
  self.diagnostics:wroteMessage()
  for _, message in ipairs(messages) do
    local reply = connections.take(self, message)
    if reply then sendReply(self, reply) end
  end
end

-- Gives the lines that have come, as long as there is time. Whether any text has, and whether the
-- stream is at its end.
local function readLines(self, stream, lines, take)
  local stop, moved = core.monotonic() + SLICE, false
  repeat
    if not hasText(lines) then
      local text, isAtEnd = self.process:read(stream)
      addText(lines, text)
      if not text then return moved, isAtEnd end
    end
    take(self, nextLine(lines))
    moved = true
  until self.ending or core.monotonic() >= stop
  return moved, false
end

local function takeOutput(self, line)
  if line then
    takeLine(self, line)
  elseif line == false then
    finish(self, ("wrote a line of more than %d bytes and was ended"):format(MAX_LINE_BYTES))
  end
end

local function takeError(self, line)
  -- What is longer than a line can be is told in pieces.
  if line == false then line = restOf(self.errors) end
  if line then self.diagnostics:said(line) end
end

-- Whether anything has come.
local function readErrors(self)
  local moved, isAtEnd = readLines(self, "error", self.errors, takeError)
  if isAtEnd then self.diagnostics:said(restOf(self.errors)) end
  return moved
end

-- A process that is over has left nobody who could write: at most what the pipes hold is to be
-- read. One that has only closed its output or its input is of no use any more.
local function lookForEnd(self, how, isAtEnd, moved)
  if not how and not isAtEnd and not self.isDeaf then return end
  local now = core.monotonic()
  self.endsAt = self.endsAt or now + SECONDS_TO_END
  local isRead = how and isAtEnd and not moved
  if not isRead and now < self.endsAt + (moved and SECONDS_OF_REMAINS or 0) then return end
  -- What is no line yet will be none.
  self.diagnostics:said(restOf(self.errors))
  finish(self, (how or isAtEnd and "it closed its output" or "it closed its input") .. self.diagnostics:wroteInstead())
end

---@return boolean moved
function Connection:advance()
  if self.ending then return false end
  if self.process:isForeign() then
    finish(self, "it belongs to the process that this one was forked from")
    return true
  end
  if not self.isDeaf then self.isDeaf = not self.process:flush() end
  -- Before it is read what it has left behind.
  local how = self.process:ending()
  local moved, isAtEnd = readLines(self, "output", self.output, takeOutput)
  if self.ending then return true end
  moved = readErrors(self) or moved
  self.isBehind = hasText(self.output)
  lookForEnd(self, how, isAtEnd, moved)
  return moved or self.ending ~= nil
end

---- As a source of news for waits

function Connection:isActive()
  return next(self.calls) ~= nil
end

---@return number? seconds
function Connection:prepare(readable, writable)
  if hasText(self.output) or hasText(self.errors) then return 0 end
  self.process:descriptors(readable, writable)
  return self.endsAt and LOOK_AGAIN_SECONDS or nil
end

---- Asking

---@param call moonpad.McpCall
function Connection:start(call)
  self.calls[call.id] = call
  if self.ending then return connections.fail(self, call, self.ending) end
  send(self, jsonrpc.encode(call.method, call.params, call.id))
end

---@param method string
---@param params table?
function Connection:notify(method, params)
  send(self, jsonrpc.encode(method, params))
end

---@param call moonpad.McpCall
function Connection:giveUp(call)
  self.calls[call.id] = nil
  -- The handshake may not be cancelled.
  if call.method == "initialize" then return end
  self:notify("notifications/cancelled", { requestId = call.id, reason = "nobody waits for the answer any more" })
end

function Connection:close()
  finish(self, "it was closed")
end

---- Starting

---@param options { command: string[], environment: string[], folder: string?, diagnostics: moonpad.McpDiagnostics }
---@return moonpad.McpStdioConnection? connection
---@return string? message
function stdio.open(options)
  local ok, module = pcall(require, "moonpad.process_core")
  if not ok then
    core.error("unsupported", "moonpad.mcp needs moonpad's module moonpad.process_core to start a server: "
      .. tostring(module):gsub("\n.*", ""))
  end
  local process, message, failed = module.start {
    command = options.command, environment = options.environment, folder = options.folder,
  }
  if not process then
    local what = failed == "folder" and "cwd: " .. options.folder or options.command[1]
    return nil, ("could not be started: %s: %s"):format(what, message)
  end
  options.diagnostics:forget()
  local self = setmetatable(connections.new(), Connection)
  self.process, self.diagnostics, self.notifiesChanges = process, options.diagnostics, true
  self.output, self.errors = newLines(MAX_LINE_BYTES), newLines(MAX_ERROR_LINE_BYTES)
  self.replies = 0
  wakeSources.add(self)
  return self
end

return stdio
