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
  events[#events + 1] = { type = name or "message", data = table.concat(data, "\n"), id = stream.lastId }
end

local setters = {
  event = function(stream, value) stream.name = value ~= "" and value or nil end,
  data = function(stream, value) stream.data[#stream.data + 1] = value end,
  id = function(stream, value)
    if not value:find("\0", 1, true) then stream.lastId = value end
  end,
}

local function takeLine(stream, line, events)
  if stream.isAtStart then
    stream.isAtStart = false
    if line:sub(1, 3) == BOM then
      line = line:sub(4)
      stream.size = stream.size - 3
    end
  end
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
  while position <= #chunk do
    local stop = chunk:find("[\r\n]", position)
    local piece = chunk:sub(position, (stop or #chunk + 1) - 1)
    if piece ~= "" then
      grow(self, #piece)
      self.pieces[#self.pieces + 1] = piece
    end
    if not stop then break end
    local line = table.concat(self.pieces)
    self.pieces = {}
    position = stop + 1
    if chunk:byte(stop) == 13 then
      if position > #chunk then
        self.endedInReturn = true
      elseif chunk:byte(position) == 10 then
        position = position + 1
      end
    end
    takeLine(self, line, events)
  end
  return events
end

---Is something left that the end of the stream has cut off?
---@return boolean
function Stream:isIncomplete()
  return #self.pieces > 0 or #self.data > 0
end

return sse
