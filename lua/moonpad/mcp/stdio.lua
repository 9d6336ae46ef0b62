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
---@field isDeaf boolean? it reads nothing any more
---@field endsAt number? when it is taken for over although it lives (core.monotonic)
local Connection = {}
Connection.__index = Connection

-- As long as the longest answer of a model may be.
local MAX_LINE_BYTES = 64 * 1024 * 1024
local MAX_ERROR_LINE_BYTES = 4096

-- So much is read at a time, so that no frame is held up. Each line of errors goes to a log.
local MAX_READ_BYTES, MAX_READ_ERROR_BYTES = 1024 * 1024, 8192

-- How long a process that has closed its output may take to tell how it ended.
local SECONDS_TO_END = 0.3
local LOOK_AGAIN_SECONDS = 0.01

---- Lines

---@class moonpad.McpLines
---@field pieces string[] of the line that is not complete
---@field size integer
---@field limit integer

local function newLines(limit)
  return { pieces = {}, size = 0, limit = limit }
end

-- Adds what has come and gives the lines that are complete. False: the line is too long.
local function addPiece(lines, piece, take)
  local position = 1
  while true do
    local stop = piece:find("\n", position, true)
    local part = piece:sub(position, (stop or #piece + 1) - 1)
    lines.pieces[#lines.pieces + 1], lines.size = part, lines.size + #part
    if lines.size > lines.limit then return false end
    if not stop then return true end
    local line = table.concat(lines.pieces)
    lines.pieces, lines.size = {}, 0
    take(line)
    position = stop + 1
  end
end

local function restOf(lines)
  local rest = table.concat(lines.pieces)
  lines.pieces, lines.size = {}, 0
  return rest
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

---- Reading

local function takeLine(self, line)
  if not line:find "%S" then return end
  local messages = jsonrpc.read(line)
  if not messages then return self.diagnostics:log("wrote what is no message: " .. line) end
  for _, message in ipairs(messages) do
    local reply = connections.take(self, message)
    if reply then send(self, reply) end
  end
end

-- Whether anything has come, and whether the stream is at its end.
local function readOutput(self)
  local size = 0
  while size < MAX_READ_BYTES do
    local piece, isAtEnd = self.process:read "output"
    if not piece then return size > 0, isAtEnd end
    size = size + #piece
    if not addPiece(self.output, piece, function(line) takeLine(self, line) end) then
      finish(self, ("wrote a line of more than %d bytes and was ended"):format(MAX_LINE_BYTES))
      return true, false
    end
  end
  return true, false
end

-- Whether anything has come.
local function readErrors(self)
  local function take(line) self.diagnostics:said(line) end
  local piece, isAtEnd = self.process:read("error", MAX_READ_ERROR_BYTES)
  -- What is longer than a line can be is told in pieces.
  if isAtEnd or piece and not addPiece(self.errors, piece, take) then take(restOf(self.errors)) end
  return piece ~= nil
end

-- What a process has left behind that is over: at most what a pipe holds.
local function readLastErrors(self)
  while readErrors(self) do end
end

-- A process that is over has left nobody who could write. One that has only closed its output or
-- its input is of no use any more.
local function lookForEnd(self, isAtEnd)
  local how, now = self.process:ending(), core.monotonic()
  if not how and not isAtEnd and not self.isDeaf then return end
  self.endsAt = self.endsAt or now + SECONDS_TO_END
  if not (how and isAtEnd) and now < self.endsAt then return end
  if how then readLastErrors(self) end
  finish(self, how or isAtEnd and "it closed its output" or "it closed its input")
end

---@return boolean moved
function Connection:advance()
  if self.ending then return false end
  if self.process:isForeign() then
    finish(self, "it belongs to the process that this one was forked from")
    return true
  end
  if not self.isDeaf then self.isDeaf = not self.process:flush() end
  local moved, isAtEnd = readOutput(self)
  if self.ending then return true end
  moved = readErrors(self) or moved
  lookForEnd(self, isAtEnd)
  return moved or self.ending ~= nil
end

---- As a source of news for waits

function Connection:isActive()
  return next(self.calls) ~= nil
end

---@return number? seconds
function Connection:prepare(readable, writable)
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
    local what = failed == "folder" and options.folder or options.command[1]
    return nil, ("could not be started: %s: %s"):format(what, message)
  end
  options.diagnostics:forget()
  local self = setmetatable(connections.new(), Connection)
  self.process, self.diagnostics, self.notifiesChanges = process, options.diagnostics, true
  self.output, self.errors = newLines(MAX_LINE_BYTES), newLines(MAX_ERROR_LINE_BYTES)
  wakeSources.add(self)
  return self
end

return stdio
