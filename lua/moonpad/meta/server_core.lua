---@meta moonpad.server_core

-- An HTTP/1.1 server that its owner steps (lua/moonpad/server uses it).

local server_core = {}

---@class moonpad.server_core.Server: userdata
local Server = {}

---@class moonpad.server_core.Exchange: userdata a request and its answer; dropped unanswered, its connection is closed
local Exchange = {}

---@class moonpad.server_core.Options
---@field host string
---@field port integer 0: a free one
---@field maxHeaderBytes integer
---@field maxBodyBytes integer
---@field maxConnections integer
---@field timeout number seconds: for a header, a pause in a body, a client that does not read

---@param options moonpad.server_core.Options
---@return moonpad.server_core.Server? server
---@return string? message
function server_core.new(options) end

---@return integer
function Server:port() end

---@return integer
function Server:connections() end

---No new connection is taken; those without a request under way end.
function Server:stopListening() end

---Serves connections until there is news or a descriptor is ready.
---@param seconds number at most so long; below 0: no end
---@param readable integer[]
---@param writable integer[]
---@return table<integer, boolean> ready
function Server:wait(seconds, readable, writable) end

---An exchange of which something is new: it has begun, its body is there, what was written has been
---taken, its client is gone. The same exchange is the same userdata.
---@return moonpad.server_core.Exchange?
function Server:news() end

---Breaks off all connections.
function Server:close() end

---@return string
function Exchange:method() end

---@return string
function Exchange:target() end

---@return table<string, string> headers names in lower case, values of a repeated one joined by ", "
function Exchange:headers() end

---@return string address
function Exchange:peer() end

---Asks for the body; there is news when it is there.
function Exchange:receive() end

---@return boolean
function Exchange:isReceived() end

---@return string
function Exchange:body() end

---@param status integer
---@param headers string[] name, value, name, value, ...
---@param body string
function Exchange:respond(status, headers, body) end

---@param status integer
---@param headers string[]
function Exchange:begin(status, headers) end

---@param piece string
---@return integer unsent bytes that the client has not taken yet
function Exchange:write(piece) end

function Exchange:finish() end

---@return integer
function Exchange:unsent() end

---@return boolean
function Exchange:isOpen() end

---Closes the connection at once.
function Exchange:abort() end

return server_core
