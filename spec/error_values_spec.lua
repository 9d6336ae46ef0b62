-- Errors that are no value, nil and false: whoever is told of them is told that much, and nothing
-- of moonpad's inside.
local moonpad = require "moonpad"
local support = require "spec.support"

local NOTHING = "it failed without an error value"

support.any_store(function(open)
  local service
  before_each(function() service = open() end)

  -- The event that answers a call of the tool.
  local function answerOf(tool, fields)
    local definition = { name = "A", tools = { tool }, model = moonpad.models.scripted {
      support.calls { tool.name, { request = "x" }, "c1" }, "done",
    } }
    for name, value in pairs(fields or {}) do definition[name] = value end
    local runner = moonpad.runner { appName = "app", agent = moonpad.agent(definition), sessionService = service }
    return support.run(runner, "go")[2]
  end

  local function inner(fields)
    fields.name, fields.model = "inner", fields.model or function() return "x" end
    return moonpad.agentTool { agent = moonpad.agent(fields) }
  end

  for _, case in ipairs { { nil }, { false } } do
    local value, shown = case[1], tostring(case[1])
    local function fail() error(value) end

    local tools = {
      ["a tool"] = function() return { name = "look", run = fail } end,
      ["a question for a confirmation"] = function()
        return { name = "look", run = print, requireConfirmation = fail }
      end,
      ["a callback of an agent as a tool"] = function() return inner { beforeAgentCallback = fail } end,
    }

    for who, make in pairs(tools) do
      it(("error(%s) in %s is told to the model"):format(shown, who), function()
        local event = answerOf(make())
        local said = event:functionResponses()[1].response.error
        assert.equal(NOTHING, said:sub(-#NOTHING))
        assert.matches(NOTHING, event.customMetadata.toolErrors.c1, nil, true)
      end)

      it(("error(%s) in %s is an error object for onToolErrorCallback"):format(shown, who), function()
        local told
        local event = answerOf(make(), { onToolErrorCallback = function(_, _, _, err)
          told = err
          return { rescued = true }
        end })
        assert.equal("tool", told.code)
        assert.equal(NOTHING, told.message:sub(-#NOTHING))
        assert.same({ rescued = true }, event:functionResponses()[1].response)
      end)
    end

    it(("error(%s) in a model says so"):format(shown), function()
      local said = answerOf(inner { model = fail }):functionResponses()[1].response.error
      assert.equal('the model of agent "inner" failed: ' .. NOTHING, said)
    end)
  end
end)
