--- Somebody else who holds the write lock of a SQLite file: the sqlite3 shell.
local support = require "spec.support"

---Takes the lock; the answer lets it go.
---@param path string
---@param folder string where a note can be left
---@return fun() release
return function(path, folder)
  local note = folder .. "/locked"
  local shell = assert(io.popen("sqlite3 " .. support.quote(path), "w"))
  shell:write(".timeout 5000\nBEGIN IMMEDIATE;\n.shell touch ", support.quote(note), "\n")
  shell:flush()
  for _ = 1, 1000 do
    local file = io.open(note)
    if file then
      file:close()
      os.remove(note)
      return function()
        shell:write("ROLLBACK;\n.quit\n")
        shell:close()
      end
    end
    os.execute "sleep 0.01"
  end
  error "the lock was not taken"
end
