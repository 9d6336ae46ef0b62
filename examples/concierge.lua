--- A hotel concierge that remembers its guest. Run it, twice, and see what it still knows the
--- second time:
---   bin/moonpad run examples/concierge.lua --db /tmp/hotel.db < examples/concierge.txt
--- The plan belongs to the session; name, preferences and visits (`user:`) to the guest, in all
--- sessions; the number of all visits (`app:`) to the hotel.
local moonpad = require "moonpad"

---- Tools
-- They assign to context.state; what they changed is stored with the event that answers the call.

local checkIn = moonpad.tool {
  name = "check_in",
  description = "Counts a visit of the guest, and notes the name.",
  parameters = { type = "object", properties = { name = { type = "string", minLength = 1 } } },
  run = function(args, context)
    -- An increment is added where it is stored: two hotels that check in one guest at once lose
    -- no visit.
    context.state:increment("user:visits")
    context.state:increment("app:visits")
    if args.name then context.state["user:name"] = args.name end
    return { visit = context.state["user:visits"], name = context.state["user:name"] }
  end,
}

local setPreference = moonpad.tool {
  name = "set_preference",
  description = "Remembers what the guest likes, for this and every later stay.",
  parameters = { type = "object", properties = { likes = { type = "string" } }, required = { "likes" } },
  run = function(args, context)
    local preferences = context.state:setDefault("user:preferences", moonpad.array {})
    for _, known in ipairs(preferences) do
      if known == args.likes then return { remembered = args.likes } end
    end
    table.insert(preferences, args.likes)
    return { remembered = args.likes }
  end,
}

local function findInPlan(plan, item)
  for index, planned in ipairs(plan) do
    if planned == item then return index end
  end
  return nil
end

local changePlan = moonpad.tool {
  name = "change_plan",
  description = "Adds something to the plan of this stay, or takes it off.",
  parameters = {
    type = "object",
    properties = { action = { enum = { "add", "remove" } }, item = { type = "string" } },
    required = { "action", "item" },
  },
  run = function(args, context)
    local plan = context.state:setDefault("plan", moonpad.array {})
    local index = findInPlan(plan, args.item)
    if args.action == "remove" then
      -- An error is answered to the model, which can tell the guest.
      if not index then error(args.item .. " is not on your plan", 0) end
      table.remove(plan, index)
      return { removed = args.item }
    end
    if index then error(args.item .. " is on your plan already", 0) end
    table.insert(plan, args.item)
    return { added = args.item }
  end,
}

---- Callbacks

-- `temp:` lives as long as this run; the instruction below reads it.
local function prepareGreeting(context)
  local name = context.state["user:name"]
  context.state["temp:greeting"] = name and "Welcome back, " .. name or "Welcome to Hotel Moonpad"
end

local function logTool(context, tool)
  context.state:append("log", tool.name)
end

---- The model: a function that stands in for a real one, and knows a few phrases only
-- It reads the instruction that it is given, as a real one would.

local function line(request, label)
  return request.systemInstruction:match(label .. ": ([^\n]*)")
end

local function planCalls(action, text)
  local parts = {}
  for item in (text .. " and "):gmatch "(.-) and " do
    parts[#parts + 1] = moonpad.functionCall("change_plan", { action = action, item = item })
  end
  return parts
end

-- What the guest says, and what to do about it: a reply, or calls of tools.
local phrases = {
  { "^Hello, I am (.+)", function(_, name) return moonpad.functionCall("check_in", { name = name }) end },
  { "^Hello", function() return moonpad.functionCall "check_in" end },
  { "^I like (.+)", function(_, likes) return moonpad.functionCall("set_preference", { likes = likes }) end },
  { "^Please book (.+)", function(_, items) return planCalls("add", items) end },
  { "^Please cancel (.+)", function(_, items) return planCalls("remove", items) end },
  { "plan%?$", function(request) return "Your plan: " .. line(request, "Plan") end },
  { "about me%?$", function(request)
    return ("You are %s, and you like %s."):format(line(request, "Guest"), line(request, "Likes"))
  end },
}

local function replyTo(request, text)
  for _, phrase in ipairs(phrases) do
    local found = text:match(phrase[1])
    if found then return phrase[2](request, found) end
  end
  return "I can book or cancel something, note what you like, and tell you your plan."
end

local sayings = {
  visit = function(visit, request) return ("%s. This is visit %d."):format(line(request, "Greeting"), visit) end,
  remembered = function(likes) return ("I will remember that you like %s."):format(likes) end,
  added = function(item) return ("Booked: %s."):format(item) end,
  removed = function(item) return ("Cancelled: %s."):format(item) end,
  error = function(message) return ("Sorry: %s."):format(message) end,
}

local function sayResults(request, parts)
  local texts = {}
  for _, part in ipairs(parts) do
    for field, value in pairs(part.functionResponse.response) do
      if sayings[field] then texts[#texts + 1] = sayings[field](value, request) end
    end
  end
  return table.concat(texts, " ")
end

local function model(request)
  local last = request.contents[#request.contents]
  if last.parts[1].functionResponse then return sayResults(request, last.parts) end
  return replyTo(request, last.parts[1].text)
end

---- The agent

return moonpad.agent {
  name = "concierge",
  description = "Looks after the guests of Hotel Moonpad.",
  -- This one line is the model: put a function here that asks a real one over HTTP and returns what
  -- it answers.
  model = model,
  -- {key} must be there (or be marked optional by ?), <key> may be missing.
  instruction = [[
You are the concierge of Hotel Moonpad. Be brief and kind.
Greeting: <temp:greeting>
Guest: {user:name?}
Likes: {user:preferences?}
Plan: {plan?}]],
  tools = { checkIn, setPreference, changePlan },
  beforeAgentCallback = prepareGreeting,
  afterToolCallback = logTool,
  outputKey = "last_reply",
}
