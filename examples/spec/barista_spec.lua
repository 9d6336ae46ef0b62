-- Run it from the project's root after `make`:  lua5.4 /usr/bin/busted examples/spec
local barista = dofile "examples/spec/barista.lua"
local moonpad = require "moonpad"
local testing = require "moonpad.testing"

describe("the barista", function()
  it("has a tool that puts drinks on the order", function()
    local _, order = barista(function() end)
    local context = testing.toolContext { state = { drinks = { { drink = "tea", count = 1 } } } }
    assert.are.same({ orders = 2 }, order.run({ drink = "coffee", count = 2 }, context))
    assert.has_state(context, {
      drinks = { { drink = "tea", count = 1 }, { drink = "coffee", count = 2 } }, ["app:sold"] = 2,
    })
  end)

  it("orders what the guest asks for, and says so", function()
    local model = testing.scriptedModel {
      {
        expect = { text = "Two teas", instruction = "Serve Ann politely", tools = { "order" } },
        reply = { content = { role = "model", parts = {
          { functionCall = { name = "order", args = { drink = "tea", count = 2 } } },
        } } },
      },
      { expect = { functionResponse = { order = { orders = 1 } } }, reply = "Two teas, coming up." },
    }
    local result = testing.run {
      agent = barista(model), messages = "Two teas, please", state = { ["user:name"] = "Ann" },
    }
    model:assertDone()
    assert.are.equal("Two teas, coming up.", result.text)
    assert.state_delta(result.events[2], { drinks = { { drink = "tea", count = 2 } }, ["app:sold"] = 2 })
    assert.has_state(result.session, { lastAnswer = "Two teas, coming up." })
  end)

  it("is told when an order makes no sense", function()
    local model = testing.scriptedModel {
      moonpad.functionCall("order", { drink = "soup" }),
      { expect = function(request)
        local response = request.contents[#request.contents].parts[1].functionResponse.response
        assert.matches("drink", response.error)
      end, reply = "We have no soup." },
    }
    local result = testing.run { agent = barista(model), messages = "Soup!" }
    assert.are.equal("We have no soup.", result.text)
    assert.has_state(result.session, { drinks = moonpad.removed })
  end)
end)
