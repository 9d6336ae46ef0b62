--- A command at a terminal, which `script` makes. What the terminal shows is in the file "out".
local files = require "spec.support.files"
local support = require "spec.support"

local quote = support.quote

local GONE <const> = "<the terminal is gone>"

local Terminal = {}
Terminal.__index = Terminal

-- A test that would wait in vain for what nobody shows says so before it begins.
local function needTerminal(folder, script)
  local pipe = assert(io.popen(("cd %s && %s -qec 'echo at a terminal' /dev/null 2>&1"):format(quote(folder), script)))
  local said = pipe:read "a"
  pipe:close()
  assert(said:find("at a terminal", 1, true),
         ("a terminal is needed here, which `%s` (Debian: bsdutils) makes of /dev/ptmx: %s"):format(script, said))
end

---@param options table folder, command; type (the value of TERM, default "dumb"), script (default "script")
function Terminal.start(options)
  local script = options.script or "script"
  needTerminal(options.folder, script)
  local path = options.folder .. "/out"
  os.remove(path) -- that of an earlier one
  -- Ctrl-C reaches the shell around the command as well, and not every shell outlives it.
  local command = ("trap : INT; (%s); echo code $?"):format(options.command)
  local pipe = assert(io.popen(("cd %s && (TERM=%s %s -qec %s /dev/null; echo '%s') > out 2>&1")
    :format(quote(options.folder), options.type or "dumb", script, quote(command), GONE), "w"))
  return setmetatable({ pipe = pipe, path = path }, Terminal)
end

---Presses keys.
---@param keys string
function Terminal:type(keys)
  self.pipe:write(keys):flush()
end

---All that has been shown so far, with what steers the terminal.
---@return string
function Terminal:shown()
  return files.read(self.path)
end

---Waits until the condition holds for what is shown.
---@param what string for the message, when it never does
---@param condition fun(shown: string): any
function Terminal:waitUntil(what, condition)
  support.waitUntil(what, function()
    local shown = self:shown()
    if condition(shown) then return true end
    assert(not shown:find(GONE, 1, true), shown)
  end)
end

---@param text string
function Terminal:waitFor(text)
  self:waitUntil(text, function(shown) return shown:find(text, 1, true) end)
end

---@param count integer how many prompts there have been
function Terminal:waitForPrompts(count)
  self:waitUntil(count .. " prompts", function(shown) return select(2, shown:gsub("\n> ", "")) == count end)
end

---Waits for the end of the command.
---@param keys string? pressed before
---@return string shown all that was shown
function Terminal:close(keys)
  if keys then self:type(keys) end
  self.pipe:close()
  return self:shown()
end

return Terminal
