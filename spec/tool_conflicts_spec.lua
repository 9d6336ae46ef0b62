-- Tool calls of one answer that overlap: what both get, what the later one wins, and what it is
-- told (contract 1.4 points 3 and 4).
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local toolCalls = require "spec.support.tool_calls"
local turns = require "spec.support.turns"

local waitFor = toolCalls.waitFor

---- What overlaps: two calls, of which "early" ends before "late"

local function put(key, value)
  return function(state) state[key] = value end
end

local function insert(key, ...)
  local items = { ... }
  return function(state)
    for _, item in ipairs(items) do table.insert(state[key], item) end
  end
end

-- Writes what it had read.
local function rewrite(key, value)
  return function(state)
    local _ = state[key]
    state[key] = value
  end
end

local function all(...)
  local steps = { ... }
  return function(state, context)
    for _, step in ipairs(steps) do step(state, context) end
  end
end

-- name, what is there, what early does, what late does, what comes of it: `state`, and the keys of
-- late's conflict where it has one. The state of keys that nobody changes is left out of `start`.
local CASES = {
  ---- What both can have, both get
  { "different keys", {}, put("a", 1), put("b", 2), state = { a = 1, b = 2 } },
  { "different places of a table", { t = { z = 0 } }, function(s) s.t.x = 1 end, function(s) s.t.y = 2 end,
    state = { t = { x = 1, y = 2, z = 0 } } },
  { "different places of a table, whatever they had read", { t = { x = 0, y = 0 } },
    function(s) s.t.x = s.t.y + 1 end, function(s) s.t.y = s.t.x + #s:getAll() + 2 end,
      state = { t = { x = 1, y = 2 } } },
  { "different places deep in a table", { t = { a = { b = { z = 0 } } } },
    function(s) s.t.a.b.x = 1 end, function(s) s.t.a.b.y = 2 end,
      state = { t = { a = { b = { x = 1, y = 2, z = 0 } } } } },
  { "a place and one deep beside it", { t = { a = { z = 0 } } },
    function(s) s.t.a.z = 1 end, function(s) s.t.b = { c = 2 } end, state = { t = { a = { z = 1 }, b = { c = 2 } } } },
  { "a place that is removed and one beside it", { t = { x = 1, y = 1 } },
    function(s) s.t.x = nil end, function(s) s.t.y = 2 end, state = { t = { y = 2 } } },
  { "names with quotes, brackets and dots", { t = { ["a.b"] = { c = 0 }, a = { b = 0 }, ["[1]"] = 0, ['"'] = 0 } },
    function(s) s.t["a.b"].c, s.t["[1]"] = 1, 1 end, function(s) s.t.a.b, s.t['"'] = 2, 2 end,
    state = { t = { ["a.b"] = { c = 1 }, a = { b = 2 }, ["[1]"] = 1, ['"'] = 2 } } },
  { "names of which one begins like the other", { t = { a = { x = 0 }, ab = { x = 0 } } },
    function(s) s.t.a = 1 end, function(s) s.t.ab.x = 2 end, state = { t = { a = 1, ab = { x = 2 } } } },
  { "different items of an array", { l = { 1, 2, 3 } }, function(s) s.l[1] = "a" end, function(s) s.l[3] = "b" end,
    state = { l = { "a", 2, "b" } } },
  { "below different items of an array", { l = { { n = 0 }, { n = 0 } } },
    function(s) s.l[1].n = 1 end, function(s) s.l[2].n = 2 end, state = { l = { { n = 1 }, { n = 2 } } } },
  { "an item of an array and its end", { l = { 1 } }, function(s) s.l[1] = "a" end, insert("l", "b"),
    state = { l = { "a", "b" } } },
  { "its end and an item of an array", { l = { 1 } }, insert("l", "b"), function(s) s.l[1] = "a" end,
    state = { l = { "a", "b" } } },
  { "items at an array's end", { l = { 0 } }, insert("l", 1, 2), insert("l", 3), state = { l = { 0, 1, 2, 3 } } },
  { "items at an array's end by #", { l = { 0 } },
    function(s) s.l[#s.l + 1] = { n = 1 } end, function(s) s.l[#s.l + 1] = { n = 2 } end,
    state = { l = { 0, { n = 1 }, { n = 2 } } } },
  { "items at the end of an array deep in a table", { t = { l = { 0 } } },
    function(s) table.insert(s.t.l, 1) end, function(s) table.insert(s.t.l, 2) end,
      state = { t = { l = { 0, 1, 2 } } } },
  { "items at the end of an empty array", { l = moonpad.array {} }, insert("l", 1), insert("l", 2),
    state = { l = { 1, 2 } } },
  { "items at the end of what begins as an empty table", { l = {} }, insert("l", 1), insert("l", 2),
    state = { l = { 1, 2 } } },
  { "items that change after they were added", { l = { 0 } },
    function(s) table.insert(s.l, { n = 0 }) s.l[2].n = 1 end,
      function(s) table.insert(s.l, { n = 0 }) s.l[2].n = 2 end,
    state = { l = { 0, { n = 1 }, { n = 2 } } } },
  { "increments", { n = 1 }, function(s) s:increment("n", 2) end, function(s) s:increment("n", 0.5) end,
    state = { n = 3.5 } },
  { "increments where there was none", {}, function(s) s:increment "n" end, function(s) s:increment("n", 2) end,
    state = { n = 3 } },
  { "increments of what was read", { n = 1 }, function(s) s:increment("n", s.n) end,
    function(s) s:increment("n", s.n) end,
    state = { n = 3 } },
  { "an increment of what was set", { n = 1 }, put("n", 10), function(s) s:increment("n", s.n) end,
    state = { n = 11 } },
  { "an increment of what was removed", { n = 1 }, put("n", nil), function(s) s:increment "n" end, state = { n = 1 } },
  { "appends", { l = { 0 } }, function(s) s:append("l", 1) end, function(s) s:append("l", 2) s:append("l", 3) end,
    state = { l = { 0, 1, 2, 3 } } },
  { "appends where there was none", {}, function(s) s:append("l", 1) end, function(s) s:append("l", 2) end,
    state = { l = { 1, 2 } } },
  { "an append to what was set", { l = { 0 } }, put("l", { "x" }), function(s) s:append("l", 1) end,
    state = { l = { "x", 1 } } },
  { "an append and an item at the end", { l = { 0 } }, function(s) s:append("l", 1) end, insert("l", 2),
    state = { l = { 0, 1, 2 } } },
  { "an item at the end and an append", { l = { 0 } }, insert("l", 1), function(s) s:append("l", 2) end,
    state = { l = { 0, 1, 2 } } },
  { "an append and an item that changes", { l = { 0 } }, function(s) s:append("l", 1) end, function(s) s.l[1] = "x" end,
    state = { l = { "x", 1 } } },

  -- To insert further up is to write the places up to the end, and to add there what stood last.
  -- Nothing is lost; who ends later adds behind what the other one has added.
  { "an item inserted at the front, and one at the end", { l = { 1, 2, 3 } },
    function(s) table.insert(s.l, 1, "urgent") end, insert("l", 4), state = { l = { "urgent", 1, 2, 3, 4 } } },
  { "an item at the end, and one inserted at the front", { l = { 1, 2, 3 } }, insert("l", 4),
    function(s) table.insert(s.l, 1, "urgent") end, state = { l = { "urgent", 1, 2, 4, 3 } } },
  { "an append, and an item inserted at the front", { l = { 1, 2, 3 } }, function(s) s:append("l", 4) end,
    function(s) table.insert(s.l, 1, "urgent") end, state = { l = { "urgent", 1, 2, 4, 3 } } },

  ---- Tables that each put there because there was none
  { "a table that each put there", {}, function(s) s.t = s.t or {} s.t.x = 1 end,
    function(s) s.t = s.t or {} s.t.y = 2 end,
    state = { t = { x = 1, y = 2 } } },
  { "a table that each put there with what is in it", {}, rewrite("t", { x = 1 }), rewrite("t", { y = 2 }),
    state = { t = { x = 1, y = 2 } } },
  { "an empty table that each put there without a look", {}, function(s) s.t = {} s.t.x = 1 end,
    function(s) s.t = {} s.t.y = 2 end, state = { t = { x = 1, y = 2 } } },
  { "a table that each put there by setDefault", {}, function(s) s:setDefault("t", {}).x = 1 end,
    function(s) s:setDefault("t", {}).y = 2 end, state = { t = { x = 1, y = 2 } } },
  { "an array that each put there by setDefault", {}, function(s) table.insert(s:setDefault("l", {}), 1) end,
    function(s) table.insert(s:setDefault("l", {}), 2) end, state = { l = { 1, 2 } } },
  { "an array that each put there with what is in it", {}, rewrite("l", { 1 }), rewrite("l", { 2 }),
    state = { l = { 1, 2 } } },
  { "an empty array that one put there, and a filled one", {}, rewrite("l", moonpad.array {}), rewrite("l", { 2 }),
    state = { l = { 2 } } },
  { "empty tables that each put there", {}, rewrite("t", {}), rewrite("t", {}), state = { t = {} } },
  { "an empty table that one put there, and a filled one", {}, rewrite("t", { x = { 1 } }), rewrite("t", {}),
    state = { t = { x = { 1 } } } },
  { "a table that each put into another one", { t = { z = 0 } },
    function(s) s.t.sub = s.t.sub or {} s.t.sub.x = 1 end, function(s) s.t.sub = { y = { 2 } } end,
    state = { t = { sub = { x = 1, y = { 2 } }, z = 0 } } },
  { "tables in tables that each put there", {}, rewrite("t", { a = { b = { x = 1 } } }),
    rewrite("t", { a = { b = { y = 2 }, c = 3 } }), state = { t = { a = { b = { x = 1, y = 2 }, c = 3 } } } },
  { "an array in a table that each put there", {}, rewrite("t", { l = { 1 }, x = 1 }),
    rewrite("t", { l = { 2 }, y = 2 }),
    state = { t = { l = { 1, 2 }, x = 1, y = 2 } } },
  { "a table in an array's place that each put there", { l = { 0 } },
    function(s) table.insert(s.l, { x = 1 }) end, function(s) table.insert(s.l, { y = 2 }) end,
    state = { l = { 0, { x = 1 }, { y = 2 } } } },

  ---- The same place, or below one that is replaced or removed
  { "a key that both had read", { n = 1 }, rewrite("n", 2), rewrite("n", 3), state = { n = 2 }, keys = { "n" } },
  { "a key that both had read, the same value", { n = 1 }, rewrite("n", 2), rewrite("n", 2), state = { n = 2 },
    keys = { "n" } },
  { "a key that both had read, what it was before", { n = 1 }, rewrite("n", 2), rewrite("n", 1), state = { n = 2 },
    keys = { "n" } },
  { "a key that was set to what it was", { n = 1 }, rewrite("n", 1), rewrite("n", 2), state = { n = 1 },
    keys = { "n" } },
  { "a key where there was none", {}, rewrite("n", 2), rewrite("n", 3), state = { n = 2 }, keys = { "n" } },
  { "a key that only late had read", { n = 1 }, put("n", 2), rewrite("n", 3), state = { n = 2 }, keys = { "n" } },
  { "a key that only early had read", { n = 1 }, rewrite("n", 2), put("n", 3), state = { n = 3 } },
  { "a key that none had read", { n = 1 }, put("n", 2), put("n", 3), state = { n = 3 } },
  { "a key that one removes", { n = 1 }, put("n", nil), rewrite("n", 3), state = {}, keys = { "n" } },
  { "a key that both remove", { n = 1 }, rewrite("n", nil), rewrite("n", nil), state = {}, keys = { "n" } },
  { "a key that late removes", { n = 1 }, rewrite("n", 2), rewrite("n", nil), state = { n = 2 }, keys = { "n" } },
  { "a key that late removes without a look", { n = 1 }, rewrite("n", 2), put("n", nil), state = {} },
  { "an increment, and a key that was read", { n = 1 }, function(s) s:increment "n" end, rewrite("n", 5),
    state = { n = 2 }, keys = { "n" } },
  { "an increment, and a key that was not", { n = 1 }, function(s) s:increment "n" end, put("n", 5),
    state = { n = 5 } },
  { "an append, and a key that was read", { l = { 0 } }, function(s) s:append("l", 1) end, rewrite("l", { 5 }),
    state = { l = { 0, 1 } }, keys = { "l" } },
  { "an increment by one that also sets", { n = 1 }, function(s) s:increment "n" end,
    function(s) local n = s.n s:increment "n" s.n = n + 5 end, state = { n = 2 }, keys = { "n" } },
  { "a place of a table", { t = { x = 0 } }, function(s) s.t.x = 1 end, function(s) s.t.x = 2 end,
    state = { t = { x = 1 } }, keys = { "t" } },
  { "a place of a table, the same value", { t = { x = 0 } }, function(s) s.t.x = 1 end, function(s) s.t.x = 1 end,
    state = { t = { x = 1 } }, keys = { "t" } },
  { "a new place of a table", { t = { z = 0 } }, function(s) s.t.x = 1 end, function(s) s.t.x = 2 end,
    state = { t = { z = 0, x = 1 } }, keys = { "t" } },
  { "a place of a table that each put there", {}, rewrite("t", { x = 1 }), rewrite("t", { x = 2 }),
    state = { t = { x = 1 } }, keys = { "t" } },
  { "a table that each put there without a look, with what is in it", {}, put("t", { x = 1 }), put("t", { y = 2 }),
    state = { t = { y = 2 } } },
  { "a place that one removes", { t = { x = 0, z = 0 } }, function(s) s.t.x = nil end, function(s) s.t.x = 2 end,
    state = { t = { z = 0 } }, keys = { "t" } },
  { "a place that late removes", { t = { x = 0, z = 0 } }, function(s) s.t.x = 1 end, function(s) s.t.x = nil end,
    state = { t = { x = 1, z = 0 } }, keys = { "t" } },
  { "items that are inserted at the front", { l = { 1, 2 } }, function(s) table.insert(s.l, 1, "a") end,
    function(s) table.insert(s.l, 1, "b") end, state = { l = { "a", 1, 2 } }, keys = { "l" } },
  { "an item of an array", { l = { 1, 2 } }, function(s) s.l[2] = "a" end, function(s) s.l[2] = "b" end,
    state = { l = { 1, "a" } }, keys = { "l" } },
  { "items that are sorted", { l = { 3, 2, 1 } }, function(s) table.sort(s.l) end, function(s) table.sort(s.l) end,
    state = { l = { 1, 2, 3 } }, keys = { "l" } },
  { "below a key that was replaced", { t = { x = 0 } }, put("t", { y = 1 }), function(s) s.t.x = 2 end,
    state = { t = { y = 1 } }, keys = { "t" } },
  { "below a key that was removed", { t = { x = 0 } }, put("t", nil), function(s) s.t.x = 2 end, state = {},
    keys = { "t" } },
  { "below a place that was replaced", { t = { a = { x = 0 } } }, function(s) s.t.a = { y = 1 } end,
    function(s) s.t.a.x = 2 end, state = { t = { a = { y = 1 } } }, keys = { "t" } },
  { "deep below a place that was replaced", { t = { a = { b = { x = 0 } } } }, function(s) s.t.a = 1 end,
    function(s) s.t.a.b.x = 2 end, state = { t = { a = 1 } }, keys = { "t" } },
  { "beside a place that was replaced", { t = { a = { x = 0 } } }, function(s) s.t.a = { y = 1 } end,
    function(s) s.t.b = 2 end, state = { t = { a = { y = 1 }, b = 2 } } },
  { "below an item that was replaced", { l = { { x = 0 } } }, function(s) s.l[1] = { y = 1 } end,
    function(s) s.l[1].x = 2 end, state = { l = { { y = 1 } } }, keys = { "l" } },
  { "the end of an array that was replaced", { l = { 0 } }, put("l", { 5 }), insert("l", 1), state = { l = { 5 } },
    keys = { "l" } },
  { "the end of an array that was shortened", { l = { 1, 2 } }, function(s) table.remove(s.l, 1) end, insert("l", 3),
    state = { l = { 2 } }, keys = { "l" } },
  { "an array that is shortened after it grew", { l = { 1, 2 } }, insert("l", 3), function(s) table.remove(s.l, 1) end,
    state = { l = { 1, 2, 3 } }, keys = { "l" } },
  { "an item that both take", { l = { 1, 2 } }, function(s) table.remove(s.l) end, function(s) table.remove(s.l) end,
    state = { l = { 1 } }, keys = { "l" } },
  { "a key with places that were written", { t = { x = 0 } }, function(s) s.t.x = 1 end, rewrite("t", { y = 2 }),
    state = { t = { x = 1 } }, keys = { "t" } },
  { "a key with places that were written, without a look", { t = { x = 0 } }, function(s) s.t.x = 1 end,
    put("t", { y = 2 }), state = { t = { y = 2 } } },
  { "a place with places that were written", { t = { a = { x = 0 } } }, function(s) s.t.a.x = 1 end,
    function(s) s.t.a = 2 end, state = { t = { a = { x = 1 } } }, keys = { "t" } },
  { "a place with items that were added", { t = { l = { 0 } } }, function(s) table.insert(s.t.l, 1) end,
    function(s) s.t.l = nil end, state = { t = { l = { 0, 1 } } }, keys = { "t" } },
  { "a table that one put there, and another value", {}, rewrite("t", { x = 1 }), rewrite("t", 5),
    state = { t = { x = 1 } }, keys = { "t" } },
  { "a value that one put there, and a table", {}, rewrite("t", 5), rewrite("t", { x = 1 }), state = { t = 5 },
    keys = { "t" } },
  { "members that one put there, and items", {}, rewrite("t", { x = 1 }), rewrite("t", { "item" }),
    state = { t = { x = 1 } }, keys = { "t" } },
  { "items that one put there, and members without a look", {}, put("t", { "item" }), put("t", { x = 1 }),
    state = { t = { x = 1 } } },

  ---- Only keys that it writes are looked at, and all of them
  { "a key that late only read", { n = 1 }, rewrite("n", 2), function(s) s.m = s.n + #s:getAll() end,
    state = { n = 2, m = 1 } },
  { "two keys", { a = 1, b = 1, c = 1 }, all(put("a", 2), put("b", 2)), all(rewrite("a", 3),
    rewrite("b", 3), put("c", 3)),
    state = { a = 2, b = 2, c = 1 }, keys = { "a", "b" } },
  { "one of several keys", { a = 1, t = { z = 0 }, l = { 0 } }, all(put("a", 2), function(s) s.t.x = 1 end),
    all(rewrite("a", 3), put("b", 3), function(s) s.t.y = 3 s:increment "n" s:append("l", 3) end, put("temp:t", 3)),
    state = { a = 2, t = { x = 1, z = 0 }, l = { 0 } }, keys = { "a" } },
  { "a key that none had read, and one that late had", { a = 1, b = 1 }, all(put("a", 2), put("b", 2)),
    all(put("a", 3), rewrite("b", 3)), state = { a = 2, b = 2 }, keys = { "b" } },
}

for _, prefix in ipairs { "user:", "app:", "temp:" } do
  local key = prefix .. "k"
  local start = prefix ~= "temp:" and { [key] = { x = 0, y = 0 } } or {}
  local first = prefix == "temp:" and put(key, { x = 0, y = 0 }) or nil
  local function case(name, early, late, expected, keys)
    CASES[#CASES + 1] = { name .. " of " .. prefix, start, early, late, first = first, shown = { [key] = expected },
      keys = keys }
  end
  case("different places", function(s) s[key].x = 1 end, function(s) s[key].y = 2 end, { x = 1, y = 2 })
  case("the same place", function(s) s[key].x = 1 end, function(s) s[key].x = 2 end, { x = 1, y = 0 }, { key })
  case("a key that was not read", put(key, 1), put(key, 2), 2)
  case("a key that was read", put(key, 1), rewrite(key, 2), 1, { key })
end

-- Everything that tells about a key is a read (2.2).
local READS = {
  { "index", function(s) return s.n end },
  { "get", function(s) return s:get "n" end },
  { "has", function(s) return s:has "n" end },
  { "pairs", function(s)
    local count = 0
    for _ in pairs(s) do count = count + 1 end
    return count
  end },
  { "getAll", function(s) return s:getAll() end },
  { "toTable", function(s) return s:toTable() end },
  { "nested access", function(s) return s.n.x end },
  { "a nested write", function(s) s.n.y = 1 end },
  { "setDefault's answer", function(s) return s:setDefault("n", 7) end },
  { "delete's answer", function(s) return s:delete "n" end },
}
for _, read in ipairs(READS) do
  CASES[#CASES + 1] = { "a key that late had read by " .. read[1], { n = { x = 1 } }, put("n", 2),
    all(read[2], put("n", 3)),
    state = { n = 2 }, keys = { "n" } }
end
for _, read in ipairs {
  { "a template", function(_, context) return moonpad.injectSessionState("{n} {n.x}", context) end },
  { "reading another key", function(s) return s.other end },
  { "looking at what it had written itself", function(s)
    s.n = 5
    return s.n
  end },
} do
  CASES[#CASES + 1] = { "a key that late had not read by " .. read[1], { n = { x = 1 } }, put("n", 2),
    all(read[2], put("n", 3)), state = { n = 3 } }
end
CASES[#CASES + 1] = { "a key that was not there when late asked for it", {}, put("n", 2),
  function(s) if not s:has "n" then s.n = 3 end end, state = { n = 2 }, keys = { "n" } }
CASES[#CASES + 1] = { "a key that late gave a default", {}, put("n", 2), function(s) s:setDefault("n", 3) end,
  state = { n = 2 }, keys = { "n" } }

-- Where what is there has come from, which of the two calls comes first in the answer, and when
-- late writes.
local SCHEDULES = {}
for _, origin in ipairs { "stored", "written by a call before them", "written by a callback before them" } do
  for _, first in ipairs { "early", "late" } do
    for _, moment in ipairs { "before early ends", "after early has ended" } do
      SCHEDULES[#SCHEDULES + 1] = { origin = origin, first = first, moment = moment }
    end
  end
end

-- The two calls of a case by a schedule.
local function sceneOf(case, schedule)
  local begun, isOver = {}, false
  local function setUp(context)
    context.state:update(case[2])
    if case.first then case.first(context.state) end
  end
  local before = { "setup", function(_, context)
    if schedule.origin == "stored" then return case.first and case.first(context.state) end
    if schedule.origin == "written by a call before them" then setUp(context) end
  end }
  local calls = {}
  function calls.early(_, context)
    begun.early = true
    waitFor(function() return begun.late end)
    case[3](context.state, context)
    isOver = true
  end
  function calls.late(_, context)
    begun.late = true
    if schedule.moment == "before early ends" then case[4](context.state, context) end
    waitFor(function() return isOver end)
    if schedule.moment ~= "before early ends" then case[4](context.state, context) end
  end
  local second = schedule.first == "early" and "late" or "early"
  local tools = { before, { schedule.first, calls[schedule.first] }, { second, calls[second] } }
  return {
    tools = tools, start = schedule.origin == "stored" and case[2] or nil, lateId = second == "late" and "3" or "2",
    fields = schedule.origin == "written by a callback before them" and {
      beforeToolCallback = function(context, tool) if tool.name == "setup" then setUp(context) end end,
    } or nil,
  }
end

describe("two calls that overlap:", function()
  support.each_store(function(open)
    local service
    before_each(function() service = open { durability = "normal" } end)

    for number, case in ipairs(CASES) do
      it(case[1], function()
        for index, schedule in ipairs(checks.chosen(SCHEDULES)) do
          local scene = sceneOf(case, schedule)
          local way = toolCalls.WAYS[(number + index) % 2 + 1]
          local result = toolCalls.play(service, way, scene)
          local where = ("%s first, %s, %s, in %s: "):format(schedule.first, schedule.moment, schedule.origin, way)
          assert.same({ [scene.lateId] = case.keys }, result.conflicts, where .. "conflicts")
          if case.state then checks.identical(case.state, result.state) end
          for key, value in pairs(case.shown or {}) do checks.identical(value, result.shown[key]) end
          local told = result.responses[tonumber(scene.lateId)].error
          assert.equal(case.keys ~= nil, told ~= nil, where .. "what the model is told")
          assert.equal(case.keys ~= nil, result.errors[scene.lateId] ~= nil, where .. "toolErrors")
        end
      end)
    end
  end)
end)

---- What is told

describe("a conflict of tool calls", function()
  toolCalls.eachWay(function(play)
    local log
    before_each(function() log = {} end)

    -- The call "late" reads n, waits until "early" has set it to 2, and sets it in `place`: a tool
    -- or callback. `more`: further fields of the scene; what the callbacks of `fields` do is done
    -- as well, for "late" only.
    local function lateIn(place, more)
      more = more or {}
      local isOver = false
      local function lose(context)
        local n = context.state.n
        context.state.lost, context.state["temp:lost"] = 1, 1
        context.actions.lost = 1
        waitFor(function() return isOver end)
        context.state.n = n + 10
      end
      local function late(context)
        log[#log + 1] = "run"
        context.state:append("tools", "late")
        if place == "onToolErrorCallback" then error("no", 0) end
        if place == "run" then lose(context) end
        return { from = "late" }
      end
      local fields = {}
      for _, hook in ipairs { "beforeToolCallback", "afterToolCallback", "onToolErrorCallback" } do
        local also = more[hook]
        fields[hook] = function(context, tool, args, last)
          if tool.name ~= "late" then return end
          log[#log + 1] = hook
          context.state:append("hooks", hook)
          if place == hook then lose(context) end
          if also then return also(context, tool, args, last) end
        end
      end
      return play {
        start = { n = 1 }, fields = fields, plugins = more.plugins,
        tools = {
          { "late", function(_, context) return late(context) end },
          { "early", function(_, context)
            context.state.n = 2
            isOver = true
            return { from = "early" }
          end },
        },
      }
    end

    local function expectTold(result)
      assert.same({ ["1"] = { "n" } }, result.conflicts)
      assert.equal("conflict", result.failures["1"].code)
      assert.same({ 2 }, { result.state.n })
      assert.is_nil(result.shown.lost)
      assert.is_nil(result.shown["temp:lost"])
      assert.is_nil(result.answer.actions.lost)
      assert.same({ from = "early" }, result.responses[2])
      assert.equal(3, #result.events)
      assert.equal("done", result.events[3]:text())
    end

    local function expectError(result)
      assert.is_string(result.responses[1].error)
      assert.matches('"n"', result.responses[1].error, nil, true)
      assert.same({ "1" }, checks.keys(result.errors))
      assert.matches('"n"', result.errors["1"], nil, true)
    end

    it("in run is its call's error, found before afterToolCallback: what its callbacks wrote stays", function()
      local result = lateIn "run"
      expectTold(result)
      expectError(result)
      assert.same({ "beforeToolCallback", "run", "onToolErrorCallback" }, log)
      assert.same({ n = 2, hooks = { "beforeToolCallback", "onToolErrorCallback" } }, result.state)
    end)

    it("in run may be answered by onToolErrorCallback, and then afterToolCallback is asked", function()
      local asked
      local result = lateIn("run", {
        onToolErrorCallback = function(context, _, _, err)
          -- Who answers sees what is there now, and not what the tool has written.
          asked = { err.code, err.keys, context.state.n, context.state.lost or "none", context.state.tools or "none" }
          context.state.n = context.state.n + 10
          return { from = "error" }
        end,
        afterToolCallback = function(_, _, _, answer) answer.after = true end,
      })
      assert.same({ "conflict", { "n" }, 2, "none", "none" }, asked)
      assert.same({ from = "error", after = true }, result.responses[1])
      assert.same({}, result.errors)
      assert.same({ "beforeToolCallback", "run", "onToolErrorCallback", "afterToolCallback" }, log)
      assert.same({ n = 12, hooks = { "beforeToolCallback", "onToolErrorCallback", "afterToolCallback" } },
        result.state)
    end)

    it("in beforeToolCallback is its call's error: the tool does not run", function()
      local result = lateIn "beforeToolCallback"
      expectTold(result)
      expectError(result)
      assert.same({ "beforeToolCallback", "onToolErrorCallback" }, log)
      assert.same({ n = 2, hooks = { "onToolErrorCallback" } }, result.state)
    end)

    it("in beforeToolCallback may be answered by onToolErrorCallback: the tool does not run", function()
      local result = lateIn("beforeToolCallback", { onToolErrorCallback = function() return { from = "error" } end })
      expectTold(result)
      assert.same({ from = "error" }, result.responses[1])
      assert.same({}, result.errors)
      assert.is_nil(result.state.tools)
    end)

    it("in beforeToolCallback takes away its answer, too", function()
      local result = lateIn("beforeToolCallback", { beforeToolCallback = function() return { from = "before" } end })
      expectTold(result)
      expectError(result)
    end)

    it("in one function of beforeToolCallback leaves what the functions before it wrote", function()
      local result = lateIn("beforeToolCallback", { plugins = { { beforeToolCallback = function(context, tool)
        context.state:append("hooks", "plugin, " .. tool.name)
      end } } })
      expectTold(result)
      assert.same({ "plugin, late", "plugin, early", "onToolErrorCallback" }, result.state.hooks)
    end)

    it("in afterToolCallback takes the answer's place: what the tool wrote stays", function()
      local result = lateIn "afterToolCallback"
      expectTold(result)
      expectError(result)
      assert.same({ "beforeToolCallback", "run", "afterToolCallback", "onToolErrorCallback" }, log)
      assert.same({ n = 2, tools = { "late" }, hooks = { "beforeToolCallback", "onToolErrorCallback" } }, result.state)
    end)

    it("in afterToolCallback may be answered by onToolErrorCallback", function()
      local result = lateIn("afterToolCallback", {
        afterToolCallback = function() return { from = "after" } end,
        onToolErrorCallback = function(_, _, _, err) return { from = "error", code = err.code, keys = err.keys } end,
      })
      expectTold(result)
      assert.same({ from = "error", code = "conflict", keys = { "n" } }, result.responses[1])
      assert.same({}, result.errors)
    end)

    it("in onToolErrorCallback itself is the answer, and nobody is asked again", function()
      local result = lateIn("onToolErrorCallback", { onToolErrorCallback = function() return { from = "error" } end })
      assert.equal("no", result.failures["1"])
      expectError(result)
      assert.is_nil(result.shown.lost)
      assert.same({ n = 2, hooks = { "beforeToolCallback" } }, result.state)
      assert.same({ "beforeToolCallback", "run", "onToolErrorCallback" }, log)
    end)

    it("stops nobody: who begins afterwards sees what was committed, and may write it", function()
      local isOver, again = false, nil
      local result = play { start = { n = 1 }, tools = {
        { "late", function(_, context)
          local n = context.state.n
          waitFor(function() return isOver end)
          context.state.n = n + 10
        end },
        { "early", function(_, context)
          context.state.n = 2
          isOver = true
        end },
        { "next", function(_, context) context.state.n = context.state.n + 100 end },
      }, fields = { onToolErrorCallback = function(context)
        again = context.state.n
        context.state.n = context.state.n + 1000
        return { ok = true }
      end } }
      assert.same({ { ["1"] = { "n" } }, 102, 1102 }, { result.conflicts, again, result.state.n })
      assert.same({ n = 1102 }, result.delta)
    end)

    it("leaves a node that it made stale, and what it had saved outside the state", function()
      local isOver, kept, err
      lateIn "run"
      play { start = { n = 1 }, tools = {
        { "late", function(_, context)
          context.state.box = {}
          kept = context.state.box
          local n = context.state.n
          waitFor(function() return isOver end)
          context.state.n = n + 1
        end },
        { "early", function(_, context)
          context.state.n = 2
          isOver = true
        end },
      }, fields = { afterAgentCallback = function() err = checks.failure(function() kept.x = 1 end) end } }
      assert.equal("invalid_argument", err.code)
    end)

    -- Two tools: the early one changes the state before the late one adds to it. Returns the late
    -- one's error, and what the early one has left.
    local function addedTooLate(start, early, add)
      local isOver = false
      local result = play { start = start, tools = {
        { "late", function(_, context)
          waitFor(function() return isOver end)
          context.state.lost = 1
          add(context.state)
        end },
        { "early", function(_, context)
          early(context.state)
          isOver = true
        end },
      } }
      assert.is_nil(result.state.lost)
      assert.same({ "1" }, checks.keys(result.errors))
      return { result.failures["1"].code, result.state.k }
    end

    it("is no other error: what cannot be added to what another call has left is told as what it is", function()
      assert.same({ "invalid_argument", "text" },
        addedTooLate({ k = 1 }, put("k", "text"), function(s) s:increment "k" end))
      assert.same({ "invalid_argument", { x = 1 } },
        addedTooLate({ k = { 1 } }, put("k", { x = 1 }), function(s) s:append("k", 2) end))
      assert.same({ "invalid_argument", math.maxinteger }, addedTooLate({ k = 1 },
        function(s) s:increment("k", math.maxinteger - 1) end, function(s) s:increment "k" end))
      assert.same({ "invalid_argument", { 1 } },
        addedTooLate({}, function(s) s:append("k", 1) end, function(s) s:increment "k" end))
      assert.same({ "invalid_argument", 1 },
        addedTooLate({}, function(s) s:increment "k" end, function(s) s:append("k", 1) end))
    end)

    turns.rarely("is no other error: neither where both together are too large", function()
      local long = ("x"):rep(9 * 1024 * 1024)
      assert.same({ "limit", { long } }, addedTooLate({ k = moonpad.array {} }, insert("k", long),
        function(s) table.insert(s.k, long) end))
    end)

    it("comes from a look at what others have pending, too: delta() tells of it", function()
      local wrote, isOver, keys = false, false, nil
      local result = play { start = { a = 0 }, tools = {
        { "writer", function(_, context) context.state.a, wrote = 5, true end },
        { "late", function(_, context)
          waitFor(function() return wrote end)
          local held = context.state:delta().a
          waitFor(function() return isOver end)
          context.state.a = held + 1
        end },
        { "early", function(_, context) context.state.a, isOver = 2, true end },
      }, fields = { onToolErrorCallback = function(_, _, _, err) keys = err.keys end } }
      assert.equal(2, result.state.a)
      assert.same({ "a" }, keys)
    end)

    it("is none with a call that failed, or that had a conflict itself", function()
      local isOver = false
      local function wait() waitFor(function() return isOver end) end
      local function add(amount, before)
        return function(_, context)
          local n = context.state.n
          before()
          context.state.n = n + amount
        end
      end
      local result = play { start = { n = 1 }, tools = {
        { "slow", add(10, wait) },
        { "failing", add(100, function() error("no", 0) end) },
        { "fast", function()
          isOver = true
        end },
      } }
      assert.same({ {}, 11 }, { result.conflicts, result.state.n })
    end)

    it("may have happened at any of several transactions since it began", function()
      local committed = 0
      local function one(name, run)
        return { name, function(_, context)
          run(context.state)
          committed = committed + 1
        end }
      end
      local result = play { start = { t = { a = 0, b = 0, c = 0 }, n = 0 }, tools = {
        { "late", function(_, context)
          local t = context.state.t
          waitFor(function() return committed == 3 end)
          t.a, context.state.m = 5, 5
        end },
        one("first", function(s) s.t.a = 1 end),
        one("second", function(s) s.t.b = 2 end),
        one("third", function(s) s.t.c = 3 end),
        { "later", function(_, context)
          context.state.t.d = context.state.t.a + context.state.t.b + context.state.t.c
        end },
      } }
      assert.same({ ["1"] = { "t" } }, result.conflicts)
      assert.same({ t = { a = 1, b = 2, c = 3, d = 6 }, n = 0 }, result.state)
    end)
  end)
end)

describe("onConflict = \"overwrite\"", function()
  support.each_store(function(open)
    it("lets the call that ends later win", function()
      local service, isOver = open { durability = "normal", onConflict = "overwrite" }, false
      local result = toolCalls.play(service, "run", { start = { n = 1 }, tools = {
        { "late", function(_, context)
          local held = context.state.n
          waitFor(function() return isOver end)
          context.state.n = held + 10
        end },
        { "early", function(_, context) context.state.n, isOver = 5, true end },
      } })
      assert.same({}, result.conflicts)
      assert.equal(11, result.state.n)
    end)
  end)
end)
