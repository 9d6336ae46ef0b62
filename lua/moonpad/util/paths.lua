--- Paths of files, as this system has them.
local paths = {}

---Are we on Windows?
paths.isWindows = package.config:sub(1, 1) == "\\"

---The suffix of modules in C.
paths.moduleSuffix = paths.isWindows and "dll" or "so"

---A path with / alone between its names, which Windows knows as well as \.
---@param path string
---@return string
function paths.plain(path)
  return paths.isWindows and (path:gsub("\\", "/")) or path
end

---Does it begin at a root? On Windows that may be the root of the current drive.
---@param path string
---@return boolean
function paths.isAbsolute(path)
  path = paths.plain(path)
  return path:sub(1, 1) == "/" or paths.isWindows and path:find "^%a:/" ~= nil
end

return paths
