--- The agent that browsers talk to in specs: what is said to it says what it does. No network.
local moonpad = require "moonpad"

local OBJECT = { type = "object", properties = {} }

local count = moonpad.tool {
  name = "count", description = "Counts in all scopes", parameters = OBJECT,
  run = function(_, context)
    context.state.count = (context.state.count or 0) + 1
    context.state["user:total"] = (context.state["user:total"] or 0) + 1
    context.state["app:visits"] = (context.state["app:visits"] or 0) + 1
    context.state["temp:secret"] = "never seen"
    return { count = context.state.count }
  end,
}

local write = moonpad.tool {
  name = "write_note", description = "Writes a file", parameters = OBJECT,
  run = function(_, context) return { version = context:saveArtifact("note.txt", "what was noted") } end,
}

local pay = moonpad.tool {
  name = "pay", description = "Pays", parameters = OBJECT, requireConfirmation = true,
  run = function(_, context)
    context.state.paid = true
    return { paid = true }
  end,
}

local order = moonpad.longRunningTool {
  name = "order", description = "Is answered later", parameters = OBJECT,
  run = function() return { status = "pending" } end,
}

local function stream(words, pause)
  local index = 0
  return function()
    index = index + 1
    if index > #words then return nil end
    moonpad.sleep(pause)
    return words[index] .. " "
  end
end

local CALLS = { count = "count", note = "write_note", pay = "pay", order = "order" }

local function answerOf(response)
  return ("%s: %s"):format(response.name, moonpad.json.encode(response.response))
end

local function model(request)
  local parts = request.contents[#request.contents].parts
  local last = parts[1]
  if last.functionResponse then return answerOf(last.functionResponse) end
  for _, part in ipairs(parts) do
    if part.inlineData then return "a file of " .. part.inlineData.mimeType end
  end
  local text = last.text or ""
  if CALLS[text] then return moonpad.functionCall(CALLS[text], {}) end
  if text == "stream" then return stream({ "one", "two", "three", "four", "five" }, 0.15) end
  if text == "slow" then return stream({ "still", "here", "and", "here", "and", "so", "on" }, 2) end
  if text == "fail" then error("the model has failed", 0) end
  return {
    content = moonpad.text("You said: " .. text),
    usageMetadata = { promptTokenCount = 31, candidatesTokenCount = 7, totalTokenCount = 38 },
  }
end

return moonpad.agent {
  name = "counter", description = "Counts", model = model, tools = { count, write, pay, order },
}
