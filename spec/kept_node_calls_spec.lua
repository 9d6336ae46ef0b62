-- A node proxy that the functions of a tool call share, or that an agent keeps over its own events:
-- to look at it is a read of its key in each of them (contract 1.4 points 2 and 3, 2.2).
local checks = require "spec.support.checks"
local kept = require "spec.support.kept_nodes"
local moonpad = require "moonpad"
local support = require "spec.support"
local toolCalls = require "spec.support.tool_calls"

local waitFor = toolCalls.waitFor

toolCalls.eachWay(function(play)
  describe("a node in the arguments of calls that overlap", function()
    -- beforeToolCallback puts the node of box into the arguments of both calls. "late" ends after
    -- "early", and does what it does before early ends or after that. `start` is what box is.
    local function overlapIn(moment, late, early, start)
      local begun, isOver = {}, false
      return play {
        start = { box = start },
        fields = { beforeToolCallback = function(context, _, args) args.box = context.state.box end },
        tools = {
          { "late", function(args, context)
            begun.late = true
            if moment == "before" then late(args.box, context.state) end
            waitFor(function() return isOver end)
            if moment == "after" then late(args.box, context.state) end
          end },
          { "early", function(args, context)
            waitFor(function() return begun.late end)
            early(args.box, context.state)
            coroutine.yield()
            isOver = true
          end },
        },
      }
    end

    local function overlap(late, early, check, start)
      for _, moment in ipairs { "before", "after" } do
        check(overlapIn(moment, late, early, start or { n = 0, x = 1, list = { 1 } }))
      end
    end

    local function setByEarly(box) box.n = box.n + 1 end

    local function expectConflict(result)
      assert.same({ ["1"] = { "box" } }, result.conflicts)
      assert.same({ box = { n = 1, x = 1, list = { 1 } } }, result.state)
      assert.matches('"box"', result.responses[1].error, nil, true)
    end

    local function expectNone(expected)
      return function(result)
        assert.same({}, result.failures)
        assert.same(expected, result.state)
      end
    end

    it("is written in the same place: the call that ends later is told of the conflict", function()
      for _, late in ipairs {
        function(box) box.n = box.n + 10 end,
        function(box) box.n = 10 end,
        function(box) box.n = 1 end,
        function(box) box.n = nil end,
      } do
        overlap(late, setByEarly, expectConflict)
      end
    end)

    for _, write in ipairs(checks.chosen(kept.WRITES)) do
      it("is written below what the other one has replaced: " .. write[1], function()
        overlap(function(box) write[2](box, box.list) end, function(_, state) state.box = "early" end,
          function(result)
            assert.same({ ["1"] = { "box" } }, result.conflicts)
            assert.same({ box = "early" }, result.state)
          end, { x = 1, sub = { y = 1 }, list = { "c", "a", "b" } })
      end)
    end

    it("is written in different places: both have theirs", function()
      overlap(function(box)
        box.seen = box.n
        table.insert(box.list, "late")
      end, function(box)
        box.n = 1
        table.insert(box.list, "early")
      end, expectNone { box = { n = 1, seen = 0, x = 1, list = { 1, "early", "late" } } })
    end)

    for _, read in ipairs(checks.chosen(kept.READS)) do
      it("counts as read by " .. read[1] .. " when its key is written", function()
        overlap(function(box, state)
          read[2](box, box.list, state)
          state.box = "late"
        end, setByEarly, expectConflict)
      end)
    end

    it("counts as read when its key is removed", function()
      overlap(function(box, state) state.box = box.n > 5 and box or nil end, setByEarly, expectConflict)
    end)

    it("is no conflict for who only looks at it", function()
      overlap(function(box, state) state.seen = { box.n, #box.list, tostring(box) } end, setByEarly,
        expectNone { box = { n = 1, x = 1, list = { 1 } }, seen = { 0, 1, '{"list":[1],"n":0,"x":1}' } })
    end)

    it("counts not as read where nobody looks: the call that ends later wins", function()
      overlap(function(_, state) state.box = "late" end, setByEarly, expectNone { box = "late" })
    end)

    it("counts not as read by a template", function()
      overlap(function(_, state)
        assert(moonpad.injectSessionState("{box.n}", state) == "0")
        state.box = "late"
      end, setByEarly, expectNone { box = "late" })
    end)
  end)

  describe("a node that the functions of one call share", function()
    -- Both calls return the node of box, and afterToolCallback does `write` with it; in the first
    -- one it waits in between until the second call is over.
    local function playAfter(write)
      local isOver = false
      return play {
        start = { box = { n = 0, list = { 1 } } },
        fields = { afterToolCallback = function(context, tool, _, result)
          if tool.name == "slow" then waitFor(function() return isOver end) end
          write(result, context.state, tool.name)
          isOver = true
        end },
        tools = {
          { "slow", function(_, context) return context.state.box end },
          { "fast", function(_, context) return context.state.box end },
        },
      }
    end

    it("is written in the same place by afterToolCallback: the error of its call", function()
      local result = playAfter(function(box) box.n = box.n + 1 end)
      assert.same({ ["1"] = { "box" } }, result.conflicts)
      assert.same({ box = { n = 1, list = { 1 } } }, result.state)
      assert.matches('"box"', result.responses[1].error, nil, true)
      assert.equal(1, result.responses[2].n)
    end)

    it("is written in different places by afterToolCallback: both have theirs", function()
      local result = playAfter(function(box, _, name) box[name] = 1 end)
      assert.same({}, result.failures)
      assert.same({ box = { n = 0, slow = 1, fast = 1, list = { 1 } } }, result.state)
    end)

    it("is read by afterToolCallback, which writes its key", function()
      local result = playAfter(function(box, state) state.box = { n = box.n + 1 } end)
      assert.same({ ["1"] = { "box" } }, result.conflicts)
      assert.same({ box = { n = 1 } }, result.state)
    end)

    it("is no conflict with its own call, nor with one that is over", function()
      local function add(box, state)
        box.n = box.n + 1
        state.box = moonpad.toTable(box)
      end
      local result = play {
        start = { box = { n = 0 } },
        fields = {
          beforeToolCallback = function(context, _, args)
            args.box = context.state.box
            args.box.n = args.box.n + 1
          end,
          afterToolCallback = function(context) add(context.state.box, context.state) end,
        },
        tools = {
          { "one", function(args, context) add(args.box, context.state) end },
          { "two", function(args, context) add(args.box, context.state) end },
          { "three", function(args) args.box.n = args.box.n + 1 end },
        },
      }
      assert.same({}, result.failures)
      assert.same({ box = { n = 9 } }, result.state)
    end)

    it("takes no writes once another call has changed what it holds", function()
      local isOver = false
      local result = play {
        start = { box = { n = 0 } },
        fields = { beforeToolCallback = function(context, tool, args)
          args.box = context.state.box
          if tool.name == "slow" then waitFor(function() return isOver end) end
        end },
        tools = {
          { "slow", function(args)
            assert(args.box.n == 0)
            args.box.n = args.box.n + 1
          end },
          { "fast", function(args)
            args.box.n = args.box.n + 10
            isOver = true
          end },
        },
      }
      assert.equal("invalid_argument", result.failures["1"].code)
      assert.matches("stale", result.responses[1].error, nil, true)
      assert.same({ box = { n = 10 } }, result.state)
    end)
  end)
end)

describe("a node that an agent keeps over its own event", function()
  support.any_store(function(open)
    local service
    before_each(function() service = open { durability = "normal" } end)

    -- Runs an agent that keeps the node of a key, stores what it wrote there, and does `write`
    -- after the key was stored by another session of the same user.
    local function runOver(way, key, write)
      local appName = key .. way
      local function create(sessionId, state)
        return service:createSession { appName = appName, userId = "u", sessionId = sessionId, state = state }
      end
      create("s", { [key] = { n = 0 } })
      local agent = moonpad.customAgent { name = "A", run = function(context)
        local box = context.state[key]
        box.n = 1
        context:emit "first"
        local other = create "other"
        other.state[key] = "theirs"
        service:updateSession(other)
        write(box, context.state)
        context:emit "second"
      end }
      local runner = moonpad.runner { appName = appName, sessionService = service, agent = agent }
      local events = 0
      local options = { userId = "u", sessionId = "s", newMessage = "go" }
      local ok, err = pcall(toolCalls.drive[way], runner, options, function() events = events + 1 end)
      return ok and "stored" or err, support.stored(service, appName).state[key], events
    end

    local WRITES = {
      { "a member is written", function(box) box.n = 2 end },
      { "a member is counted up", function(box) box.n = box.n + 1 end },
      { "it is read and the key written", function(box, state, key) state[key] = { n = box.n + 1 } end },
      { "it is read and the key removed", function(box, state, key) if box.n == 1 then state[key] = nil end end },
    }
    for _, case in ipairs(WRITES) do
      it("counts as read when " .. case[1], function()
        for _, way in ipairs(toolCalls.WAYS) do
          for _, key in ipairs { "user:" .. case[1], "app:" .. case[1] } do
            local err, value, events = runOver(way, key, function(box, state) case[2](box, state, key) end)
            assert.equal("conflict", err.code)
            assert.same({ key }, err.keys)
            assert.equal("theirs", value)
            assert.equal(1, events)
          end
        end
      end)
    end

    it("counts not as read when the key is written without a look", function()
      for _, way in ipairs(toolCalls.WAYS) do
        local stored, value, events = runOver(way, "user:box", function(_, state) state["user:box"] = "mine" end)
        assert.same({ "stored", "mine", 2 }, { stored, value, events })
      end
    end)
  end)
end)
