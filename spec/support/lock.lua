--- Somebody else who holds the write lock of a SQLite file: the sqlite3 shell.
local support = require "spec.support"

---Takes the lock; the answer lets it go.
---@param path string
---@param folder string where a note can be left
---@return fun() release
return function(path, folder)
  local note = folder .. "/locked"
  local shell = assert(io.popen("sqlite3 " .. support.quote(path), "w"))
  shell:write(".timeout ", support.TIMEOUT_MS, "\nBEGIN IMMEDIATE;\n.once ", support.quote(note), "\nSELECT 1;\n")
  shell:flush()
  support.waitUntil("the lock", function()
    local file = io.open(note)
    return file and file:close()
  end)
  os.remove(note)
  return function()
    shell:write("ROLLBACK;\n.quit\n")
    shell:close()
  end
end
