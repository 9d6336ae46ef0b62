--- What is done through a node that was kept: `root` is what its key holds, `list` an array in
--- that, kept as well, and `state` is that of the same object.
local moonpad = require "moonpad"

local kept = {}

local function drain(...)
  for _ in ... do end
end

-- Everything that tells what is in it: name, function.
kept.READS = {
  { "a member", function(root) return root.x end },
  { "a member that is not there", function(root) return root.none end },
  { "an item", function(_, list) return list[2] end },
  { "a node in it", function(root) return root.list end },
  { "the length of an array", function(_, list) return #list end },
  { "the length of an object", function(root) return #root end },
  { "pairs of an object", function(root) drain(pairs(root)) end },
  { "pairs of an array", function(_, list) drain(pairs(list)) end },
  { "ipairs", function(_, list) drain(ipairs(list)) end },
  { "tostring", function(root) return tostring(root) end },
  { "toTable", function(root) return moonpad.toTable(root) end },
  { "toTable of a table around it", function(root) return moonpad.toTable { root } end },
  { "json.encode", function(root) return moonpad.json.encode(root) end },
  { "json.encode of a table around it", function(_, list) return moonpad.json.encode { deep = { list } } end },
  { "its copy under another key", function(root, _, state) state.copy = root end },
  { "its copy in a table under another key", function(_, list, state) state:update { copy = { list } } end },
  { "its copy in a node of another key", function(_, list, state)
    state.copy = {}
    state.copy.inner = list
  end },
  { "its copy as a default", function(root, _, state) state:setDefault("copy", root) end },
  { "its copy at an array's end", function(root, _, state) state:append("copy", root) end },
  { "its copy in an event", function(root)
    return moonpad.event { author = "agent", customMetadata = { copy = root } }
  end },
  { "table.concat", function(_, list) return table.concat(list, ",") end },
  { "table.unpack", function(_, list) return table.unpack(list) end },
  { "table.move to a table", function(_, list) return table.move(list, 1, #list, 1, {}) end },
}

-- Everything that writes to it: name, function.
kept.WRITES = {
  { "a member", function(root) root.x = 2 end },
  { "a new member", function(root) root.new = { 1 } end },
  { "a member that goes away", function(root) root.x = nil end },
  { "a node in place of one", function(root) root.list = { "z" } end },
  { "a member of a node in it", function(root) root.sub.y = 2 end },
  { "an item", function(_, list) list[1] = "z" end },
  { "an item at the end", function(_, list) list[#list + 1] = "z" end },
  { "an item at the end without a look", function(_, list) list[4] = "z" end },
  { "table.insert", function(_, list) table.insert(list, "z") end },
  { "table.remove", function(_, list) table.remove(list) end },
  { "table.sort", function(_, list) table.sort(list) end },
}

return kept
