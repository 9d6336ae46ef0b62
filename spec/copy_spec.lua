-- Copies of what users hand in: what of a table is copied, and what stays with the original.
local copy = require "moonpad.util.copy"
local moonpad = require "moonpad"
local support = require "spec.support"

describe("a copy", function()
  it("is deep, and keeps the marks of arrays", function()
    local node = moonpad.state { k = { 1 } }.k
    local original = { list = moonpad.array {}, { moonpad.array { 1 } }, nothing = moonpad.null, node = node }
    local copied = copy(original)
    assert.equal('{"list":[],"node":[1],"nothing":null}',
      moonpad.json.encode { list = copied.list, nothing = copied.nothing, node = copied.node })
    assert.equal("table", type(copied.node))
    assert.not_equal(original[1], copied[1])
    assert.equal("[[1]]", moonpad.json.encode(copied[1]))
  end)

  it("keeps those of lua-cjson", function()
    local loaded = package.loaded.cjson
    finally(function() package.loaded.cjson = loaded end)
    local cjson = { array_mt = {}, empty_array_mt = {} }
    package.loaded.cjson = cjson
    local copied = copy {
      setmetatable({}, cjson.array_mt), setmetatable({}, cjson.empty_array_mt),
      setmetatable({ a = 1 }, cjson.empty_array_mt),
    }
    assert.equal('[[],[],{"a":1}]', moonpad.json.encode(copied))
    package.loaded.cjson = nil
    assert.equal('{}', moonpad.json.encode(copy(setmetatable({}, cjson.array_mt))))
  end)

  it("has nothing of any other metatable", function()
    local collected = 0
    local original = setmetatable({ a = 1 }, { __gc = function() collected = collected + 1 end, __name = "mine" })
    for _ = 1, 5 do assert.is_nil(getmetatable(copy(original))) end
    collectgarbage()
    collectgarbage()
    assert.equal(0, collected)
    for _, protected in ipairs { "locked", false, 5, moonpad.array {} } do
      assert.same({ a = 1 }, copy(setmetatable({ a = 1 }, { __metatable = protected })))
    end
    assert.equal(1, original.a)
  end)

  it("is what is taken from tables with metatables in a run", function()
    local function locked(fields) return setmetatable(fields, { __metatable = "locked" }) end
    local agent = moonpad.agent {
      name = "A", config = locked { temperature = 0 },
      tools = { {
        name = "look", parameters = locked { type = "object" }, run = function() return locked { seen = 1 } end,
      } },
      model = function(request)
        if #request.contents > 1 then return locked { content = locked { parts = { locked { text = "done" } } } } end
        return locked(support.calls { "look" })
      end,
    }
    local service = moonpad.open "memory:"
    local events = support.run(moonpad.runner { appName = "app", agent = agent, sessionService = service }, {
      userId = "u", sessionId = "s", newMessage = locked { parts = { locked { text = "go" } } },
      stateDelta = locked { x = locked { 1 } },
    })
    assert.same({ seen = 1 }, events[2]:functionResponses()[1].response)
    assert.equal("done", events[3]:text())
    assert.same({ x = { 1 } }, support.stored(service).state:getAll())
  end)
end)

describe("an empty array of lua-cjson's", function()
  it("that a tool returns is an array, and so is one that it is given", function()
    local loaded = package.loaded.cjson
    finally(function() package.loaded.cjson = loaded end)
    package.loaded.cjson = { array_mt = {} }
    local function empty() return setmetatable({}, package.loaded.cjson.array_mt) end
    local model = moonpad.models.scripted { support.calls { "look", { list = empty(), object = empty() } },
      support.calls { "look", { list = empty() } }, "done" }
    local agent = moonpad.agent { name = "A", model = model, tools = { {
      name = "look", run = empty,
      parameters = { type = "object", properties = { list = { type = "array" }, object = { type = "object" } } },
    } } }
    local events = support.run(moonpad.runner {
      appName = "app", agent = agent, sessionService = moonpad.open "memory:",
    }, "go")
    assert.matches("object: expected an object, got array", events[2]:functionResponses()[1].response.error)
    assert.equal('{"result":[]}', moonpad.json.encode(events[4]:functionResponses()[1].response))
  end)
end)
