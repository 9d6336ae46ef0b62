--- Values that no program should pass, and that programs pass all the same.
local core = require "moonpad.core"
local moonpad = require "moonpad"

local hostile = {}

local FEW = {}
for _, name in ipairs {
  "nil", "false", "true", "null", "removed", "zero", "NaN", "an empty string", "no UTF-8", "a long string",
  "a function", "a function that raises", "a coroutine", "a userdata", "an empty table", "an empty array", "a list",
  "a list with a hole", "mixed keys", "parts of everything", "wrong known fields", "a table within itself",
  "an index that raises", "a text that raises", "a locked metatable", "a session", "a state", "an event", "an error",
} do FEW[name] = true end

-- What is raised by the values themselves says so: it is the user's own error.
hostile.OWN = "raised by the value itself"

local function raise()
  error(hostile.OWN, 0)
end

local function with(metatable, fields)
  return setmetatable(fields or {}, metatable)
end

local function cyclic()
  local value = {}
  value.value = value
  return value
end

local function cyclicList()
  local value = {}
  value[1] = value
  return value
end

local function shared()
  local value = { 1 }
  for _ = 1, 8 do value = { value, value } end
  return value
end

local function deep()
  local value = {}
  for _ = 1, 250 do value = { value } end
  return value
end

local function closedService()
  local service = moonpad.open "memory:"
  service:close()
  return service
end

local function session()
  local service = moonpad.open "memory:"
  return service:createSession { appName = "app", userId = "u", sessionId = "s", state = { list = { 1 } } }
end

local function deletedSession()
  local service = moonpad.open "memory:"
  local name = { appName = "app", userId = "u", sessionId = "s" }
  local deleted = service:createSession(name)
  service:deleteSession(name)
  return deleted
end

local function staleNode()
  local state = moonpad.state { list = { 1 } }
  local node = state.list
  state.list = nil
  return node
end

local function closedFile()
  local file = assert(io.tmpfile())
  file:close()
  return file
end

local function deadThread()
  local thread = coroutine.create(function() end)
  coroutine.resume(thread)
  return thread
end

local function errorObject()
  return select(2, pcall(moonpad.json.decode, "oops"))
end

--- { name, function that makes the value }
hostile.values = {
  { "nil", function() return nil end },
  { "false", function() return false end },
  { "true", function() return true end },
  { "null", function() return moonpad.null end },
  { "removed", function() return moonpad.removed end },
  { "zero", function() return 0 end },
  { "a fraction", function() return 0.5 end },
  { "a negative number", function() return -1 end },
  { "NaN", function() return 0 / 0 end },
  { "infinity", function() return math.huge end },
  { "the smallest integer", function() return math.mininteger end },
  { "an empty string", function() return "" end },
  { "blanks", function() return " \t\n" end },
  { "a NUL", function() return "a\0b" end },
  { "no UTF-8", function() return "\xff\xfe" end },
  { "a long string", function() return ("x"):rep(100000) end },
  { "a number as a string", function() return "12" end },
  { "a placeholder", function() return "{nothing} <a" end },
  { "a function", function() return function() return nil end end },
  { "a function that raises", function() return raise end },
  { "a function that raises nothing", function() return function() error() end end },
  { "a function of C", function() return os.clock end },
  { "a coroutine", function() return coroutine.create(print) end },
  { "a dead coroutine", deadThread },
  { "a userdata", function() return io.stdout end },
  { "a closed file", closedFile },
  { "an empty table", function() return {} end },
  { "an empty array", function() return moonpad.array {} end },
  { "a list", function() return { 1, "two", false } end },
  { "a list with a hole", function() return { 1, nil, 3 } end },
  { "a list of nulls", function() return { moonpad.null, moonpad.removed } end },
  { "mixed keys", function() return { 1, a = 2 } end },
  { "keys that are no strings", function() return { [true] = 1, [1.5] = 2, [print] = 3 } end },
  { "keys of null", function() return { [moonpad.null] = 1 } end },
  { "a key that is no UTF-8", function() return { ["\xff"] = 1 } end },
  { "unknown fields", function() return { nobody = 1, knows = { 2 } } end },
  { "wrong known fields", function()
    return { name = {}, role = 5, parts = 5, text = {}, content = 5, state = 5, id = {}, poll = 5, generate = 5 }
  end },
  { "parts of everything", function()
    return { parts = { 1, {}, "text", { text = {} }, { functionCall = 5 }, { functionResponse = "x" }, false } }
  end },
  { "a table within itself", cyclic },
  { "a list within itself", cyclicList },
  { "a table that is shared", shared },
  { "a deep table", deep },
  { "an index that raises", function() return with { __index = raise, __newindex = raise } end },
  { "an iteration that raises", function() return with({ __pairs = raise, __len = raise }, { 1, 2 }) end },
  { "a comparison that raises", function() return with { __eq = raise, __lt = raise, __concat = raise } end },
  { "a call that raises", function() return with { __call = raise } end },
  { "a call that is none", function() return with { __call = 5 } end },
  { "a text that raises", function() return with { __tostring = raise } end },
  { "a text that is none", function() return with { __tostring = function() return {} end } end },
  { "a name that is none", function() return with { __name = {} } end },
  { "a locked metatable", function() return with({ __metatable = "locked" }, { 1 }) end },
  { "a metatable of false", function() return with({ __metatable = false }, { a = 1 }) end },
  { "a closing that raises", function() return with { __close = raise } end },
  { "a service", function() return moonpad.open "memory:" end },
  { "a closed service", closedService },
  { "a session", session },
  { "a deleted session", deletedSession },
  { "events of a session", function() return session().events end },
  { "a state", function() return moonpad.state { a = { 1 } } end },
  { "a node", function() return session().state.list end },
  { "a stale node", staleNode },
  { "an event", function() return moonpad.event { author = "x", content = { parts = { { text = "x" } } } } end },
  { "an error", errorObject },
  { "the module", function() return moonpad end },
}

--- One of each kind: for tests that cannot try all.
hostile.few = {}
for _, value in ipairs(hostile.values) do
  if FEW[value[1]] then hostile.few[#hostile.few + 1] = value end
end

---- What may come of them

local CODES = {}
for code in ("invalid_argument not_found already_exists conflict template model tool limit busy closed cancelled "
  .. "storage corrupt no_memory unsupported"):gmatch "%S+" do CODES[code] = true end

local function describe(err)
  local ok, text = pcall(tostring, err)
  return ok and text or "what cannot be shown"
end

---Makes a list of what went wrong, and two functions that fill it.
---@return string[] problems
---@return fun(where: string, err: any) judge an error that was raised
---@return fun(where: string, run: function, ...): any try calls a function, and judges its error
function hostile.newJudge()
  local problems, seen = {}, {}
  local function judge(where, err)
    -- What fails a test in busted has the code of what is behind it.
    local isFailure = type(err) == "table" and getmetatable(err) ~= nil and rawget(err, "message") ~= nil
    if isFailure and rawequal(rawget(err, "cause"), hostile.OWN) then return end
    if core.isError(err) or isFailure and rawget(err, "code") ~= nil then
      if CODES[err.code] and type(err.message) == "string" and #tostring(err) > 0 then return end
    elseif err == nil or rawequal(err, hostile.OWN) then
      return
    end
    local text = describe(err)
    local place = text:match "^[^:]+:%d+:" or text
    if not seen[place] then problems[#problems + 1] = ("%s: %s"):format(where, text:sub(1, 300)) end
    seen[place] = true
  end
  local function try(where, run, ...)
    local ok, result = pcall(run, ...)
    if ok then return result end
    judge(where, result)
    return nil
  end
  return problems, judge, try
end

return hostile
