--- Files that specs write and read whole.
local files = {}

---@param path string
---@return string content "" where there is no such file (yet)
function files.read(path)
  local file <close> = io.open(path, "rb")
  return file and file:read "a" or ""
end

---@param path string
---@param text string
function files.write(path, text)
  local file <close> = assert(io.open(path, "wb"))
  file:write(text)
end

---The folder that the specs run in: the root of the repository.
---@return string path
function files.here()
  local pipe <close> = io.popen "pwd"
  return pipe:read "l"
end

return files
