-- Reads the annotations for editors (LuaLS) of Lua files: classes, aliases and functions. They are
-- the one source of types: scripts/reference.lua makes docs/reference.md of them, and
-- spec/types_spec.lua compares them with what the code declares.
--   local all = require("scripts.annotations").read { "lua/moonpad/init.lua", ... }

local annotations = {}

---- Types

-- Where the type that begins at `first` ends: at a blank outside of brackets, unless the type goes
-- on behind it.
local function typeEnd(text, first)
  local depth, position = 0, first
  while position <= #text do
    local character = text:sub(position, position)
    if character:find "[%(%[{<]" then
      depth = depth + 1
    elseif character:find "[%)%]}>]" then
      depth = depth - 1
    elseif character == '"' then
      position = text:find('"', position + 1, true) or #text
    elseif character:find "%s" and depth == 0 then
      local before, behind = text:sub(1, position - 1):match "(%S)%s*$", text:match("^%s*(%S)", position)
      if not (before and before:find "[|:,]") and behind ~= "|" then return position - 1 end
    end
    position = position + 1
  end
  return #text
end

-- "TYPE text" -> type, text
local function splitType(text)
  local last = typeEnd(text, 1)
  return text:sub(1, last), (text:sub(last + 1):gsub("^%s+", ""))
end

---- Blocks of comments

local function readField(rest)
  local visibility, more = rest:match "^(%a+)%s+(.+)$"
  if visibility == "package" or visibility == "private" or visibility == "protected" then
    rest = more
  else
    visibility = nil
  end
  local name, after = rest:match "^(%[.-%])%s+(.+)$"
  if not name then name, after = rest:match "^(%S+)%s+(.+)$" end
  local kind, text = splitType(after)
  local bare = name:gsub("%?$", "")
  local isOptional = bare ~= name or kind:find "%?$" ~= nil or kind:find "|nil$" ~= nil or kind == "any"
  return {
    name = bare, type = (kind:gsub("%?$", ""):gsub("|nil$", "")), text = text, isOptional = isOptional,
    isHidden = visibility ~= nil,
  }
end

local function readParam(rest)
  local name, after = rest:match "^(%S+)%s+(.+)$"
  local kind, text = splitType(after)
  local bare = name:gsub("%?$", "")
  local isOptional = bare ~= name or kind:find "%?$" ~= nil or kind:find "|nil$" ~= nil
  return { name = bare, type = (kind:gsub("%?$", ""):gsub("|nil$", "")), text = text, isOptional = isOptional }
end

local function readReturn(rest)
  local kind, text = splitType(rest)
  local name, more = text:match "^([%a_][%w_]*)%s*(.*)$"
  -- The word behind the type is a name. Where it is all there is, it says something at least.
  if name and more ~= "" then text = more end
  return { type = kind, text = text }
end

local readers = {
  field = function(block, rest) table.insert(block.fields, readField(rest)) end,
  param = function(block, rest) table.insert(block.params, readParam(rest)) end,
  ["return"] = function(block, rest) table.insert(block.returns, readReturn(rest)) end,
  class = function(block, rest)
    local name, parent, text = rest:match "^([%w_.]+)%s*:%s*([%w_.]+)%s*(.*)$"
    if not name then name, text = rest:match "^([%w_.]+)%s*(.*)$" end
    block.class = { name = name, parent = parent, text = text }
  end,
  alias = function(block, rest)
    local name, kind = rest:match "^([%w_.]+)%s+(.+)$"
    block.alias = { name = name or rest, type = kind or "" }
  end,
}

local function newBlock()
  return { text = {}, fields = {}, params = {}, returns = {} }
end

local function addLine(block, line)
  local tag, rest = line:match "^%-%-%-@(%a+)%s*(.*)$"
  if tag then
    if readers[tag] then readers[tag](block, rest) end
    block.last = tag == "field" and block.fields[#block.fields] or tag == "param" and block.params[#block.params]
      or tag == "return" and block.returns[#block.returns] or nil
    return
  end
  local text = line:match "^%-%-%-%s?(.*)$"
  -- `---| "value"` belongs to an alias; a line behind a field goes on with its text.
  if block.alias and text:find "^|" then
    local choice = text:gsub("^|%s*", "")
    block.alias.type = block.alias.type .. (block.alias.type ~= "" and "|" or "") .. splitType(choice)
  elseif block.last then
    block.last.text = block.last.text .. " " .. text
  else
    block.text[#block.text + 1] = text
  end
end

---- Files

local function addClass(all, block, variable, variables)
  local class = block.class
  class.fields, class.methods = block.fields, {}
  local text = table.concat(block.text, " ")
  if text ~= "" then class.text = text end
  all.classes[class.name] = class
  if variable then variables[variable] = class end
end

-- "function Runner:run(options)" belongs to the class of the variable Runner.
local function addFunction(block, line, variables)
  local variable, separator, name = line:match "^function ([%w_]+)([.:])([%w_]+)%("
  if not variable then
    variable, name = line:match "^([%w_]+)%.([%w_]+) = "
    separator = "."
  end
  local class = variable and variables[variable]
  if not class or name:find "^__" then return end
  -- One that tells the type of its self is called with a colon as well.
  local tellsSelf = block.params[1] and block.params[1].name == "self"
  if tellsSelf then table.remove(block.params, 1) end
  table.insert(class.methods, {
    name = name, isMethod = separator == ":" or tellsSelf, params = block.params, returns = block.returns,
    text = table.concat(block.text, " "),
  })
end

local function readFile(all, path)
  local variables, block = {}, nil
  for line in io.lines(path) do
    if line:find "^%-%-%-" and not line:find "^%-%-%-%-" then
      block = block or newBlock()
      addLine(block, line)
    elseif block then
      if block.class then addClass(all, block, line:match "^local ([%w_]+)", variables) end
      if block.alias then
        block.alias.text = table.concat(block.text, " ")
        all.aliases[block.alias.name] = block.alias
      end
      if not block.class then addFunction(block, line, variables) end
      block = nil
    elseif line:find "^function " then
      addFunction(newBlock(), line, variables)
    end
  end
end

---All annotations of some files.
---@param paths string[]
---@return { classes: table<string, table>, aliases: table<string, table> }
function annotations.read(paths)
  local all = { classes = {}, aliases = {} }
  for _, path in ipairs(paths) do readFile(all, path) end
  return all
end

---The Lua files of moonpad, sorted.
---@return string[]
function annotations.files()
  local pipe <close> = assert(io.popen "find lua/moonpad -name '*.lua' | sort")
  local paths = {}
  for path in pipe:lines() do paths[#paths + 1] = path end
  return paths
end

---All fields of a class, those of the classes above it as well, by name.
---@param all table
---@param name string
---@return table<string, table>
function annotations.fieldsOf(all, name)
  local fields, class = {}, all.classes[name]
  while class do
    for _, field in ipairs(class.fields) do fields[field.name] = fields[field.name] or field end
    class = class.parent and all.classes[class.parent]
  end
  return fields
end

---- What users can reach

local function eachTypeIn(class, visit)
  if class.parent then visit(class.parent) end
  for _, field in ipairs(class.fields) do
    if not field.isHidden then visit(field.type) end
  end
  for _, method in ipairs(class.methods) do
    for _, param in ipairs(method.params) do visit(param.type) end
    for _, result in ipairs(method.returns) do visit(result.type) end
  end
end

---The names of the classes and aliases that are named by the class `moonpad`, by those, and so on.
---@param all table
---@return table<string, true>
function annotations.public(all)
  local seen = {}
  local function visit(text)
    for name in text:gmatch "moonpad[%w_.]*" do
      if not seen[name] then
        seen[name] = true
        if all.classes[name] then eachTypeIn(all.classes[name], visit) end
        if all.aliases[name] then visit(all.aliases[name].type) end
      end
    end
  end
  visit "moonpad"
  return seen
end

return annotations
