-- The tool calls of one model answer: in which order they go on, and what each of them sees
-- (contract 1.4 point 2).
local moonpad = require "moonpad"
local toolCalls = require "spec.support.tool_calls"

local waitFor = toolCalls.waitFor

-- A table without the order of its keys.
local function plain(value)
  return moonpad.toTable(value)
end

---- What people write: with a wait in the middle, and without

-- Adds to an order in the way that `add` does.
local function ordering(add)
  return function(item)
    return { item, function(_, context, wait) add(context.state, item, wait) end }
  end
end

local function cartOf(state, item, wait)
  local cart = state.cart or {}
  wait()
  cart[#cart + 1] = item
  state.cart = cart
end

-- Each pattern: what is there, `calls` (name and function of the arguments, the context and a
-- function that waits), and what comes of it: `sequence` where nothing waits, `overlap` where each
-- waits in its middle. In there: state, the keys of the conflicts by call, and the answers that
-- matter by call.
local function patterns()
  local list = {}
  local function pattern(name, definition)
    definition.name = name
    list[#list + 1] = definition
  end

  local function counter(name)
    return { name, function(_, context, wait)
      local n = context.state.n or 0
      wait()
      context.state.n = n + 1
    end }
  end
  pattern("a counter", {
    start = { n = 10 }, calls = { counter "a", counter "b", counter "c" },
    sequence = { state = { n = 13 } },
    overlap = { state = { n = 11 }, conflicts = { ["2"] = { "n" }, ["3"] = { "n" } } },
  })
  pattern("a counter where there was none", {
    calls = { counter "a", counter "b", counter "c" },
    sequence = { state = { n = 3 } },
    overlap = { state = { n = 1 }, conflicts = { ["2"] = { "n" }, ["3"] = { "n" } } },
  })

  local order = ordering(cartOf)
  pattern("a cart where there was none", {
    calls = { order "i1", order "i2" },
    sequence = { state = { cart = { "i1", "i2" } } }, overlap = { state = { cart = { "i1", "i2" } } },
  })
  pattern("a cart that was there", {
    start = { cart = { "old" } }, calls = { order "i1", order "i2" },
    sequence = { state = { cart = { "old", "i1", "i2" } } }, overlap = { state = { cart = { "old", "i1", "i2" } } },
  })

  local function copying(copyOf)
    return ordering(function(state, item, wait)
      local cart = copyOf(state.cart)
      wait()
      cart[#cart + 1] = item
      state.cart = cart
    end)
  end
  for name, copyOf in pairs {
    ["a plain copy of a cart"] = moonpad.toTable,
    ["a fresh copy of a cart"] = function(cart) return table.move(cart, 1, #cart, 1, {}) end,
  } do
    order = copying(copyOf)
    pattern(name, {
      start = { cart = { "old" } }, calls = { order "i1", order "i2" },
      sequence = { state = { cart = { "old", "i1", "i2" } } },
      overlap = { state = { cart = { "old", "i1" } }, conflicts = { ["2"] = { "cart" } } },
    })
  end

  order = ordering(function(state, item, wait)
    local done = state.done or {}
    wait()
    done[item] = true
    state.done = done
  end)
  pattern("places of a table that a tool has made", {
    calls = { order "i1", order "i2" },
    sequence = { state = { done = { i1 = true, i2 = true } } },
    overlap = { state = { done = { i1 = true, i2 = true } } },
  })

  local function spend(name)
    return { name, function(_, context, wait)
      local balance = context.state["user:balance"]
      wait()
      context.state["user:balance"] = balance - 10
    end }
  end
  pattern("a balance", {
    start = { ["user:balance"] = 100 }, calls = { spend "a", spend "b" },
    sequence = { state = { ["user:balance"] = 80 } },
    overlap = { state = { ["user:balance"] = 90 }, conflicts = { ["2"] = { "user:balance" } } },
  })

  local function pay(name)
    return { name, function(_, context, wait)
      if context.state.paid then return { told = "already paid" } end
      wait()
      context.state.paid = true
      return { told = "paid" }
    end }
  end
  pattern("a guard", {
    calls = { pay "a", pay "b" },
    sequence = { state = { paid = true }, told = { "paid", "already paid" } },
    overlap = { state = { paid = true }, told = { "paid" }, conflicts = { ["2"] = { "paid" } } },
  })

  local function quota(context)
    local used = context.state.used or 0
    if used >= 1 then return { told = "no more" } end
    context.state.used = used + 1
  end
  local function work(name)
    return { name, function(_, context, wait)
      wait()
      context.state:append("worked", name)
      return { told = "worked" }
    end }
  end
  local worked = { state = { used = 1, worked = { "a" } }, told = { "worked", "no more", "no more" } }
  pattern("a quota in beforeToolCallback", {
    fields = { beforeToolCallback = quota }, calls = { work "a", work "b", work "c" },
    sequence = worked, overlap = worked,
  })
  pattern("a quota in a plugin's beforeToolCallback", {
    plugins = { { beforeToolCallback = quota } }, calls = { work "a", work "b", work "c" },
    sequence = worked, overlap = worked,
  })

  local function ask(name)
    return { name, function(_, context, wait)
      wait()
      context.state:increment "asked"
      return { told = "found" }
    end }
  end
  pattern("a cache in beforeToolCallback and afterToolCallback", {
    fields = {
      beforeToolCallback = function(context) return context.state.found and plain(context.state.found) end,
      afterToolCallback = function(context, _, _, answer) context.state.found = answer end,
    },
    calls = { ask "a", ask "b" },
    sequence = { state = { asked = 1, found = { told = "found" } }, told = { "found", "found" } },
    overlap = { state = { asked = 2, found = { told = "found" } }, told = { "found", "found" } },
  })

  pattern("a login and what needs it", {
    calls = {
      { "login", function(_, context, wait)
        wait()
        context.state["temp:token"] = "t"
      end },
      { "fetch", function(_, context, wait)
        wait()
        return { told = context.state["temp:token"] or "no token" }
      end },
    },
    sequence = { shown = { ["temp:token"] = "t" }, told = { [2] = "t" } },
    overlap = { shown = { ["temp:token"] = "t" }, told = { [2] = "no token" } },
  })

  local nothing = { "nothing", function(_, _, wait) wait() end }
  pattern("a count in afterToolCallback", {
    fields = { afterToolCallback = function(context) context.state.count = (context.state.count or 0) + 1 end },
    calls = { nothing, { "nothing_more", nothing[2] }, { "nothing_at_all", nothing[2] } },
    sequence = { state = { count = 3 } }, overlap = { state = { count = 3 } },
  })

  local instructions = {}
  local function agent(name)
    return { name, isAgent = true, function(_, context, wait, request)
      instructions[name] = request.systemInstruction
      local ideas = context.state.ideas or 0
      wait()
      context.state.ideas = ideas + 1
      return "by " .. name
    end }
  end
  pattern("agents as tools", {
    calls = { agent "M", agent "N" },
    sequence = {
      state = { ideas = 2, ["said by M"] = "by M", ["said by N"] = "by N" }, made = { M = "Of []", N = "Of [by M]" },
    },
    overlap = {
      state = { ideas = 1, ["said by M"] = "by M" }, made = { M = "Of []", N = "Of []" },
      conflicts = { ["2"] = { "ideas" } },
    },
    made = instructions,
  })
  return list
end

-- The tool of a call. An agent answers with its instruction and says something.
local function toolOf(call, wait)
  if not call.isAgent then
    return { call[1], function(args, context)
      return call[2](args, context, function() wait(context) end)
    end }
  end
  return moonpad.agentTool { agent = moonpad.agent {
    name = call[1], outputKey = "said by " .. call[1], instruction = function(context)
      return "Of [" .. (context.state["said by M"] or "") .. "]"
    end,
    model = function(request, context)
      return call[2](nil, context, function() wait(context) end, request)
    end,
  } }
end

-- The whole scene of a pattern.
local function sceneOf(pattern, wait)
  local tools = {}
  for index, call in ipairs(pattern.calls) do tools[index] = toolOf(call, wait) end
  return { start = pattern.start, tools = tools, fields = pattern.fields, plugins = pattern.plugins }
end

local function expectOutcome(expected, result, pattern)
  if expected.state then assert.same(expected.state, result.state) end
  if expected.shown then assert.same(expected.shown, result.shown) end
  assert.same(expected.conflicts or {}, result.conflicts)
  for index, told in pairs(expected.told or {}) do assert.equal(told, result.responses[index].told) end
  if expected.made then assert.same(expected.made, pattern.made) end
  for id, keys in pairs(result.conflicts) do
    assert.matches(('"%s"'):format(keys[1]), result.responses[tonumber(id)].error, nil, true)
    assert.matches(keys[1], result.errors[id], nil, true)
  end
  assert.equal(3, #result.events)
end

describe("what people write in tools", function()
  toolCalls.eachWay(function(play)
    for _, pattern in ipairs(patterns()) do
      for name, wait in pairs(toolCalls.waits) do
        it(("does what it should where it %s: %s"):format(name, pattern.name), function()
          local expected = name == "does not wait" and pattern.sequence or pattern.overlap
          expectOutcome(expected, play(sceneOf(pattern, wait)), pattern)
        end)
      end
    end
  end)
end)

---- Order

describe("the calls of one answer", function()
  toolCalls.eachWay(function(play, service)
    local log
    before_each(function() log = {} end)

    local function note(what) log[#log + 1] = what end

    -- A tool that waits so often, and tells when it goes on.
    local function noting(name, times)
      return { name, function(_, context)
        note("begin " .. name)
        for _ = 1, times or 0 do
          coroutine.yield()
          note("go on " .. name)
        end
        context.state:append("ended", name)
        note("end " .. name)
        return { from = name }
      end }
    end

    local function partsOf(result)
      local names = {}
      for index, response in ipairs(result.answer:functionResponses()) do
        names[index] = response.name .. response.id .. ":" .. tostring(response.response.from)
      end
      return table.concat(names, " ")
    end

    it("go on one after the other where none waits", function()
      local result = play { tools = { noting "a", noting "b", noting "c" } }
      assert.same({ "begin a", "end a", "begin b", "end b", "begin c", "end c" }, log)
      assert.equal("a1:a b2:b c3:c", partsOf(result))
    end)

    it("begin in call order, each when the one before it waits or ends", function()
      local result = play { tools = { noting("a", 2), noting "b", noting("c", 1), noting "d" } }
      assert.same({ "begin a", "begin b", "end b", "begin c", "begin d", "end d" }, table.move(log, 1, 6, 1, {}))
      table.sort(log)
      assert.same({
        "begin a", "begin b", "begin c", "begin d", "end a", "end b", "end c", "end d", "go on a", "go on a", "go on c",
      }, log)
      assert.equal("a1:a b2:b c3:c d4:d", partsOf(result))
      assert.equal("b d", table.concat(result.state.ended, " "):sub(1, 3))
    end)

    it("are answered in call order, whatever the order in which they end", function()
      local isEnded = {}
      local function after(name, other)
        return { name, function(_, context)
          if other then waitFor(function() return isEnded[other] end) end
          context.state:append("ended", name)
          isEnded[name] = true
          return { from = name }
        end }
      end
      local result = play { tools = { after("a", "b"), after("b", "c"), after "c" } }
      assert.same({ "c", "b", "a" }, result.state.ended)
      assert.equal("a1:a b2:b c3:c", partsOf(result))
      assert.equal(3, #result.events)
    end)

    it("begin with their callbacks: one that waits there lets the next begin", function()
      play { tools = { noting "a", noting "b" }, fields = {
        beforeToolCallback = function(_, tool)
          note("before " .. tool.name)
          if tool.name == "a" then coroutine.yield() end
        end,
        afterToolCallback = function(_, tool) note("after " .. tool.name) end,
      } }
      assert.same({
        "before a", "before b", "begin b", "end b", "after b", "begin a", "end a", "after a",
      }, log)
    end)

    it("do not begin while another one asks a store", function()
      local function asking(name)
        return { name, function(_, context)
          note("begin " .. name)
          local mine = service()
          mine:incrementState { appName = context.session.appName, userId = "u", key = "asked" }
          note("asked " .. name)
          context.state:append("seen", mine:getUserState { appName = context.session.appName, userId = "u" }.asked)
          mine:createSession { appName = context.session.appName, userId = "u", sessionId = name }
          note("end " .. name)
        end }
      end
      local function asks(what)
        return function(context)
          note(what .. " asks")
          service():getAppState { appName = context.session.appName }
          note(what .. " was answered")
        end
      end
      local result = play { tools = { asking "a", asking "b" }, fields = {
        beforeToolCallback = asks "before", afterToolCallback = asks "after",
      } }
      local expected = {}
      for _, name in ipairs { "a", "b" } do
        for _, what in ipairs {
          "before asks", "before was answered", "begin " .. name, "asked " .. name, "end " .. name, "after asks",
          "after was answered",
        } do expected[#expected + 1] = what end
      end
      assert.same(expected, log)
      assert.same({ 1, 2 }, result.state.seen)
    end)

    it("that are known to be wrong when they begin are answered in their place", function()
      local result = play { tools = { noting "a", noting "b" }, calls = {
        { "a", {}, "1" }, { "nobody", {}, "2" }, { "b", {}, "3" },
      } }
      assert.same({ "begin a", "end a", "begin b", "end b" }, log)
      assert.matches("unknown tool", result.responses[2].error)
      assert.same({ "a", "b" }, result.state.ended)
    end)

    ---- Snapshots

    local START = {
      n = 1, gone = "here", prefs = { theme = "light", sub = { x = 1 } }, list = { "a" }, count = 5, log = { "x" },
      ["user:u"] = 1, ["app:a"] = 1,
    }

    -- Changes all of that.
    local function changeAll(state)
      state.n, state.gone, state.new = 2, nil, { y = 1 }
      state.prefs.theme, state.prefs.more, state.prefs.sub = "dark", 1, { x = 2 }
      state.list[1] = "b"
      table.insert(state.list, "c")
      state:increment("count", 10)
      state:append("log", "y")
      state["user:u"], state["app:a"], state["temp:t"], state["user:new"] = 2, 2, 2, 2
    end

    local function keysOf(state)
      local keys = {}
      for key in pairs(state) do keys[#keys + 1] = key end
      return keys
    end

    -- Everything that tells about the state, each in a way of its own.
    local looks = {
      { "getAll", function(state) return state:getAll() end },
      { "index", function(state)
        return { state.n, state.gone or "none", state.new and "new" or "none", state["temp:t"] or "none" }
      end },
      { "get", function(state) return { state:get "n", state:get("user:new", "none"), state:get "user:u" } end },
      { "has", function(state) return { state:has "gone", state:has "new", state:has "temp:t" } end },
      { "pairs", keysOf },
      { "nodes", function(state)
        return { state.prefs.theme, state.prefs.more or "none", state.prefs.sub.x, #state.list, state.list[1] }
      end },
      { "nodes as tables", function(state) return plain(state.prefs) end },
      { "what was added to", function(state) return { state.count, #state.log } end },
      { "a template", function(_, context)
        return moonpad.injectSessionState("{n} {gone?} {new?} {prefs.theme} {list} {count} {user:u} {temp:t?}", context)
      end },
    }

    -- The first waits until the second has changed everything; before that it looks as
    -- `first` says.
    local function lookAround(first, later)
      local seen, isOver, before = {}, false, nil
      local result = play { start = START, tools = {
        { "one", function(_, context)
          before = first and first(context.state, context)
          waitFor(function() return isOver end)
          for _ = 1, 2 do seen[#seen + 1] = later(context.state, context) end
        end },
        { "two", function(_, context)
          changeAll(context.state)
          seen.two = later(context.state, context)
          isOver = true
        end },
        { "three", function(_, context) seen.three = later(context.state, context) end },
      }, fields = { afterToolCallback = function(context, tool)
        if tool.name == "one" then seen.after = later(context.state, context) end
      end } }
      assert.same({}, result.conflicts)
      return seen, before
    end

    for _, look in ipairs(looks) do
      it("see what was there when they began, whatever is committed while they wait, by " .. look[1], function()
        local begun
        play { start = START, tools = { { "look", function(_, context)
          begun = look[2](context.state, context)
        end } } }
        for _, first in ipairs { look[2], false, function(state) return keysOf(state) and look[2](state) end } do
          -- What a template shows must not need to have been looked at before.
          if first and look[1] == "a template" and first ~= look[2] then first = false end
          local seen, before = lookAround(first, look[2])
          if first then assert.same(begun, before) end
          assert.same({ begun, begun }, { seen[1], seen[2] })
          assert.are_not.same(begun, seen.two)
          -- Who begins afterwards sees it: a call, and the callback of the call itself.
          assert.same(seen.two, seen.three)
          assert.same(seen.two, seen.after)
        end
      end)
    end

    it("see their own writes over what was there when they began", function()
      local seen, isOver
      local result = play { start = START, tools = {
        { "one", function(_, context)
          local state = context.state
          state.mine, state.prefs.lang = 1, "no"
          state:increment "count"
          state:append("log", "mine")
          local prefs = state.prefs
          waitFor(function() return isOver end)
          seen = {
            mine = state.mine, theme = prefs.theme, lang = prefs.lang, sub = prefs.sub.x, isSame = prefs == state.prefs,
            count = state.count, log = plain(state.log),
          }
        end },
        { "two", function(_, context)
          local state = context.state
          state.prefs.theme, state.prefs.sub.x = "dark", 2
          state:increment("count", 10)
          state:append("log", "theirs")
          isOver = true
        end },
      } }
      assert.same({
        mine = 1, theme = "light", lang = "no", sub = 1, isSame = true, count = 6, log = { "x", "mine" },
      }, seen)
      assert.same({ {}, 16, { "x", "theirs", "mine" } }, { result.conflicts, result.state.count, result.state.log })
      assert.same({ theme = "dark", lang = "no", sub = { x = 2 } }, result.state.prefs)
    end)

    it("see no writes of one that has not ended, nor of one that failed", function()
      local seen, isOver = {}, false
      play { start = { n = 1 }, tools = {
        { "one", function(_, context)
          context.state.n, context.state.new, context.state["temp:t"] = 2, 2, 2
          coroutine.yield()
          waitFor(function() return isOver end)
          error "no"
        end },
        { "two", function(_, context)
          seen[1] = context.state:getAll()
          isOver = true
        end },
        { "three", function(_, context)
          coroutine.yield()
          seen[2] = context.state:getAll()
        end },
      } }
      assert.same({ { n = 1 }, { n = 1 } }, seen)
    end)

    ---- Callbacks: each function a transaction

    -- Two functions of one hook; the call "one" is asked. While the first of them waits, the call
    -- "two" sets n to 2.
    local function asked(hook, place, first, second)
      local isOver = false
      local function of(run)
        return function(context, tool)
          if tool.name == "one" then
            return run(context, function() waitFor(function() return isOver end) end)
          end
        end
      end
      local scene = { start = { n = 0 }, tools = {
        { "one", function() if hook == "onToolErrorCallback" then error "no" end end },
        { "two", function(_, context)
          context.state.n, context.state.new = 2, 2
          isOver = true
        end },
      } }
      if place == "the agent's list" then
        scene.fields = { [hook] = { of(first), of(second) } }
      elseif place == "a plugin's list" then
        scene.plugins = { { [hook] = { of(first), of(second) } } }
      elseif place == "two plugins" then
        scene.plugins = { { [hook] = of(first) }, { [hook] = of(second) } }
      else
        scene.plugins, scene.fields = { { [hook] = of(first) } }, { [hook] = of(second) }
      end
      return play(scene)
    end

    for _, hook in ipairs { "beforeToolCallback", "afterToolCallback", "onToolErrorCallback" } do
      for _, place in ipairs { "the agent's list", "a plugin's list", "two plugins", "plugin and agent" } do
        local which = hook .. ", " .. place
        it("are asked about by functions that see what is there when each begins: " .. which, function()
          local seen
          local result = asked(hook, place, function(context, wait)
            seen = { context.state.n }
            context.state.first = 1
            wait()
            seen[2], seen[3] = context.state.n, context.state.new or "none"
          end, function(context)
            seen[4], seen[5], seen[6] = context.state.n, context.state.new, context.state.first
            context.state.n = context.state.n + 1
          end)
          assert.same({ 0, 0, "none", 2, 2, 1 }, seen)
          assert.same({ n = 3, new = 2, first = 1 }, result.state)
          assert.same({}, result.conflicts)
        end)

        it("are asked about by functions whose reads are their own: " .. which, function()
          local result = asked(hook, place, function(context, wait)
            assert.equal(0, context.state.n)
            wait()
            context.state.first = 1
          end, function(context) context.state.n = 5 end)
          assert.same({ n = 5, new = 2, first = 1 }, result.state)
          assert.same({}, result.conflicts)
        end)
      end
    end

    it("see what their callbacks have written, and these what they have", function()
      local seen = {}
      local function look(what)
        return function(context)
          seen[#seen + 1] = context.state.trail or ""
          context.state.trail = (context.state.trail or "") .. what
        end
      end
      local result = play {
        tools = { { "t", function(_, context)
          look "t" (context)
          error "no"
        end } },
        fields = { beforeToolCallback = { look "a", look "b" }, onToolErrorCallback = look "e" },
        plugins = { { beforeToolCallback = look "p" } },
      }
      assert.same({ "", "p", "pa", "pab", "pab" }, seen)
      assert.same({ trail = "pabe" }, result.state)
    end)

    it("give callbacks and tools one table of actions, of which a failed tool's go with its writes", function()
      local result = play {
        tools = { { "bad", function(_, context)
          context.actions.skipSummarization = true
          context:escalate()
          context.actions.own = { 1 }
          error "no"
        end }, { "good", function(_, context) context.actions.good = 1 end } },
        fields = { beforeToolCallback = function(context, tool) context.actions["before " .. tool.name] = 1 end },
      }
      assert.same({ ["before bad"] = 1, ["before good"] = 1, good = 1, stateDelta = {} }, plain(result.answer.actions))
    end)
  end)
end)
