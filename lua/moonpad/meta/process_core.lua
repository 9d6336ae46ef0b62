---@meta moonpad.process_core

-- Child processes over pipes that never block (lua/moonpad/mcp uses them), and waiting for
-- descriptors (lua/moonpad/runtime/wake_sources.lua).

local process_core = {}

---A child that leads a process group of its own. It ends when it is closed or collected, and with
---the host.
---@class moonpad.Process: userdata
local Process = {}

---@class moonpad.ProcessCommand
---@field command string[] a path, or a name to look for in the PATH of `environment`, and its arguments
---@field environment string[] "NAME=value"; nothing else is inherited
---@field folder string? it works in; default: ours

---@param command moonpad.ProcessCommand
---@return moonpad.Process? process
---@return string? message
---@return "program"|"folder"|"pipes"|"start"|nil failed what was wrong
function process_core.start(command) end

---Waits until one of the descriptors is ready.
---@param readable integer[]
---@param writable integer[]
---@param seconds number at most so long
---@return boolean isReady
function process_core.poll(readable, writable, seconds) end

---Writes to its standard input. What the pipe does not take now, `flush` writes.
---@param text string
---@return true? ok
---@return string? message
function Process:write(text) end

---@return true? ok
---@return string? message
function Process:flush() end

---@return boolean isWriting is there something that `flush` has to write?
function Process:isWriting() end

---@param stream "output"|"error"
---@param limit integer? of bytes
---@return string? chunk nil when nothing has come
---@return true? isAtEnd nothing more will come
function Process:read(stream, limit) end

---Adds the descriptors that tell that there is something to read, or room to write; on Windows all
---of them to the first list.
---@param readable integer[]
---@param writable integer[]
function Process:descriptors(readable, writable) end

---@return string? how it ended; nil while it lives
function Process:ending() end

---@return boolean isForeign was it started by the process that this one was forked from?
function Process:isForeign() end

---@return integer id of the process
function Process:id() end

---Closes its standard input. If it does not end by that, its group gets SIGTERM, and then SIGKILL,
---all within two seconds and in the background. On Windows it is ended with its own children.
function Process:close() end

return process_core
