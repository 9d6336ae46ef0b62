--- Server-sent events (WHATWG HTML, "event stream interpretation"), taken apart as the bytes
--- come in.
local core = require "moonpad.core"

local sse = {}

---@class moonpad.ServerSentEvent
---@field type string "message" where the stream names none
---@field data string
---@field id string? the last id that the stream has set

---@class moonpad.EventStream
---@field maxBytes integer of one event
---@field pieces string[] of the line that is not complete yet
---@field data string[] lines of the event that is not complete yet
---@field size integer of both
---@field isAtStart boolean
local Stream = { __name = "moonpad.sse" }
Stream.__index = Stream

local BOM = "\xEF\xBB\xBF"

local DEFAULT_MAX_BYTES = 16 * 1024 * 1024

---@param maxBytes integer? of one event; default 16 MiB
---@return moonpad.EventStream
function sse.new(maxBytes)
  return setmetatable({
    maxBytes = maxBytes or DEFAULT_MAX_BYTES,
    pieces = {}, -- of the line that is not complete yet
    data = {}, -- lines of the event that is not complete yet
    size = 0, -- of both
    isAtStart = true,
  }, Stream)
end

local function dispatch(stream, events)
  local data, name = stream.data, stream.name
  stream.data, stream.name, stream.size = {}, nil, 0
  if #data == 0 then return end
  local text = #data == 1 and data[1] or table.concat(data, "\n")
  events[#events + 1] = { type = name or "message", data = text, id = stream.lastId }
end

local setters = {
  event = function(stream, value) stream.name = value ~= "" and value or nil end,
  data = function(stream, value) stream.data[#stream.data + 1] = value end,
  id = function(stream, value)
    if not value:find("\0", 1, true) then stream.lastId = value end
  end,
}

-- Takes a byte order mark off the first line.
local function withoutMark(stream, line)
  stream.isAtStart = false
  if line:sub(1, 3) ~= BOM then return line end
  stream.size = stream.size - 3
  return line:sub(4)
end

local DATA = "data:"

-- Of data, which may have megabytes, only the value is put together.
local function dataOf(pieces)
  local head = pieces[1]
  if not head or #head <= #DATA or head:sub(1, #DATA) ~= DATA then return nil end
  pieces[1] = head:sub(#DATA + (head:find("^ ", #DATA + 1) and 2 or 1))
  return #pieces == 1 and pieces[1] or table.concat(pieces)
end

-- The line that its pieces make.
local function takeLine(stream, pieces, events)
  local data = dataOf(pieces)
  if data then
    stream.isAtStart = false
    return setters.data(stream, data)
  end
  local line = table.concat(pieces)
  if stream.isAtStart then line = withoutMark(stream, line) end
  if line == "" then return dispatch(stream, events) end
  local colon = line:find(":", 1, true)
  local field = colon and line:sub(1, colon - 1) or line
  local value = colon and line:sub(colon + 1) or ""
  if value:sub(1, 1) == " " then value = value:sub(2) end
  local set = setters[field]
  if set then set(stream, value) end
  -- Only data is kept until the event is complete.
  if field ~= "data" then stream.size = stream.size - #line end
end

local function grow(stream, bytes)
  stream.size = stream.size + bytes
  if stream.size > stream.maxBytes then
    core.error("limit", ("an event of the stream is longer than %d bytes"):format(stream.maxBytes))
  end
end

-- Finds the ends of lines, one after the other. A pattern would look at each byte in turn, which
-- takes ten times as long.
local function newFinder(chunk)
  local returns, feeds = chunk:find("\r", 1, true), chunk:find("\n", 1, true)
  return function(position)
    if returns and returns < position then returns = chunk:find("\r", position, true) end
    if feeds and feeds < position then feeds = chunk:find("\n", position, true) end
    return returns and feeds and math.min(returns, feeds) or returns or feeds
  end
end

---Takes the next bytes, in whatever pieces they come.
---@param chunk string
---@return moonpad.ServerSentEvent[] events that are complete now
function Stream:feed(chunk)
  local events, position = {}, 1
  -- A CR at the very end of the last chunk has ended its line; a LF right after it belongs to it.
  if self.endedInReturn and chunk ~= "" then
    if chunk:byte(1) == 10 then position = 2 end
    self.endedInReturn = false
  end
  local findEnd = newFinder(chunk)
  while position <= #chunk do
    local stop = findEnd(position)
    local piece = chunk:sub(position, (stop or #chunk + 1) - 1)
    if piece ~= "" then
      grow(self, #piece)
      self.pieces[#self.pieces + 1] = piece
    end
    if not stop then break end
    local pieces = self.pieces
    self.pieces = {}
    position = stop + 1
    if chunk:byte(stop) == 13 then
      if position > #chunk then
        self.endedInReturn = true
      elseif chunk:byte(position) == 10 then
        position = position + 1
      end
    end
    takeLine(self, pieces, events)
  end
  return events
end

---Is something left that the end of the stream has cut off?
---@return boolean
function Stream:isIncomplete()
  return #self.pieces > 0 or #self.data > 0
end

return sse
