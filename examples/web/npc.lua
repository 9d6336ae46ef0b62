--- Mira, who keeps an inn in a web page. What she knows is in a SQLite file that the page saves in
--- IndexedDB: her mood belongs to the evening (the session), what she knows of the guest (`user:`)
--- to all evenings, what the inn has sold (`app:`) to the inn. What was said on other evenings she
--- finds in her memory.
---
--- The page (main.c, page.js) gives the URL of the store, runs the runner of the table that this
--- file returns, and calls the functions in it, with a text in and a text out.
local moonpad = require "moonpad"
local url = ...

local APP, GUEST = "inn", "guest"
local DISHES = { "ale", "stew", "bread", "pie" }
local PRICES = { ale = 2, stew = 3, bread = 1, pie = 4 }

local service = moonpad.open(url, { durability = "normal" })
local memory = moonpad.memoryService(url)

---- Tools: all that changes the state

local function object(properties, required)
  return { type = "object", properties = properties, required = required }
end

local rememberName = moonpad.tool {
  name = "remember_name",
  description = "Keeps the guest's name in mind.",
  parameters = object({ name = { type = "string" } }, { "name" }),
  run = function(args, context)
    context.state["user:name"] = args.name
    return { known = args.name }
  end,
}

local serve = moonpad.tool {
  name = "serve",
  description = "Sells the guest ale (2 gold), stew (3), bread (1) or pie (4).",
  parameters = object({ what = { type = "string", enum = DISHES } }, { "what" }),
  run = function(args, context)
    local state, price = context.state, PRICES[args.what]
    if state["user:gold"] < price then error(("%s costs %d gold, the guest has less"):format(args.what, price), 0) end
    state:increment("user:gold", -price)
    state:append("user:had", args.what)
    state:increment("app:till", price)
    state:increment "app:served"
    return { what = args.what, gold = state["user:gold"] }
  end,
}

local payForWork = moonpad.tool {
  name = "pay_for_work",
  description = "Gives the guest 5 gold for work that was done.",
  parameters = object({ work = { type = "string" } }, { "work" }),
  run = function(args, context)
    context.state:increment("user:gold", 5)
    context.state:increment("app:till", -5)
    return { work = args.work, gold = context.state["user:gold"] }
  end,
}

local feel = moonpad.tool {
  name = "feel",
  description = "Changes your mood.",
  parameters = object({ mood = { type = "string", enum = { "cheerful", "calm", "annoyed" } } }, { "mood" }),
  run = function(args, context)
    context.state.mood = args.mood
    return { mood = args.mood }
  end,
}

---- The stand-in for a model: a few rules, at the pace of a model that streams

local FRAMES_TO_THINK, FRAMES_PER_WORD = 20, 4

local function waitFrames(count)
  for _ = 1, count do coroutine.yield() end
end

-- An iterator over the words, each some frames after the one before.
local function speak(sentence)
  local words = sentence:gmatch "%S+%s*"
  return function()
    local word = words()
    if word then waitFrames(FRAMES_PER_WORD) end
    return word
  end
end

local function has(text, ...)
  for _, word in ipairs { ... } do
    if text:find(word, 1, true) then return true end
  end
  return false
end

-- The call of a tool that the guest's words ask for, or nothing.
local function understand(said)
  local words = said:lower()
  local name = said:match "[Mm]y name is ([%w'-]+)" or said:match "I am (%u[%w'-]*)" or said:match "I'm (%u[%w'-]*)"
  if name then return "remember_name", { name = name } end
  if has(words, "remember", "recall", "told you", "last time") then return "load_memory", { query = said } end
  for _, what in ipairs(DISHES) do
    if words:find("%f[%w]" .. what .. "%f[%W]") then return "serve", { what = what } end
  end
  if has(words, "work", "chop", "wash", "sweep", "help") then return "pay_for_work", { work = said } end
  if has(words, "thank", "lovely", "delicious", "best") then return "feel", { mood = "cheerful" } end
  if has(words, "stupid", "awful", "rat", "swill") then return "feel", { mood = "annoyed" } end
end

local MOODS = {
  cheerful = "That is kind of you to say! The fire is yours for the evening.",
  calm = "Let us say no more of it.",
  annoyed = "Mind your tongue, or you sleep in the stable.",
}

-- What the guest told her, rather than asked, on some evening.
local function recollection(memories)
  for _, entry in ipairs(memories) do
    local text = entry.content.parts[1].text
    if entry.author == "user" and not text:find "%?%s*$" then
      return ("You told me once: \u{201C}%s.\u{201D} I forget little."):format((text:gsub("[.!]$", "")))
    end
  end
  return "I have turned my memory over, and there is nothing of that in it."
end

-- tool -> what she says of its result
local COMMENTS = {
  remember_name = function(result) return ("Well met, %s. I never forget a name."):format(result.known) end,
  serve = function(result) return ("One %s, here you are. That leaves %d gold."):format(result.what, result.gold) end,
  pay_for_work = function(result) return ("Well done. Five gold, so you have %d."):format(result.gold) end,
  feel = function(result) return MOODS[result.mood] end,
  load_memory = function(result) return recollection(result.memories) end,
}

local SMALL_TALK = {
  "There is ale, stew, bread and pie. What will it be%s?",
  "The road is muddy tonight. You do well to stay in%s.",
  "If your purse is light, there is always wood to chop%s.",
  "I have kept this inn for thirty winters. Tell me something new%s.",
}

local function scripted(request, context)
  waitFrames(FRAMES_TO_THINK)
  local part = request.contents[#request.contents].parts[1]
  local answer = part.functionResponse
  if answer then
    local problem = answer.response.error
    return speak(problem and "I fear not: " .. problem .. "." or COMMENTS[answer.name](answer.response))
  end
  local tool, arguments = understand(part.text)
  if tool then return moonpad.functionCall(tool, arguments) end
  local name = context.state["user:name"]
  local sentence = SMALL_TALK[#request.contents // 2 % #SMALL_TALK + 1]:format(name and ", " .. name or "")
  return speak((context.state.mood == "annoyed" and "Hm. " or "") .. sentence)
end

---- Mira

local function newRunner(model)
  local agent = moonpad.agent {
    name = "Mira",
    model = model,
    instruction = [[
You are Mira, who keeps the inn The Crooked Lantern. You speak plainly, in one to three short sentences.
Your mood: {mood}. The guest's name: {user:name?}. Gold in the guest's purse: {user:gold}.
On the menu are ale, stew, bread and pie. Whatever happens, happens by your tools.]],
    tools = { rememberName, serve, payForWork, feel, moonpad.loadMemory },
  }
  return moonpad.runner {
    appName = APP, agent = agent, sessionService = service, memoryService = memory,
    plugins = { { name = "memory", afterRun = function(context) memory:addSession(context.session) end } },
  }
end

---- For the page

local page = { userId = GUEST, runner = newRunner(scripted) }

local function session()
  return service:getSession { appName = APP, userId = GUEST, sessionId = page.sessionId }
end

local function beginEvening(number)
  page.evening, page.sessionId = number, "evening-" .. number
  if session() then return end
  local state = { mood = "calm", ["user:gold"] = number == 1 and 10 or nil }
  service:createSession { appName = APP, userId = GUEST, sessionId = page.sessionId, state = state }
end

---@return string json the state, and which evening it is
function page.view()
  return moonpad.json.encode { evening = page.evening, state = session().state }
end

---@return string json what has happened this evening: a list of events
function page.history()
  local list = moonpad.array {}
  for _, event in ipairs(session().events) do list[#list + 1] = event end
  return moonpad.json.encode(list)
end

---@param query string
---@return string json a list of memories
function page.recall(query)
  local found = memory:searchMemory { appName = APP, userId = GUEST, query = query, limit = 4 }
  return moonpad.json.encode(moonpad.array(found.memories))
end

---Mira forgets nothing, but what was said goes from the conversation into her memory.
function page.nextEvening()
  beginEvening(service:incrementState { appName = APP, userId = GUEST, key = "evening" })
end

---@param path string gets a copy of the store's file
function page.backup(path)
  service:backup(path)
end

---@param text string json: { baseUrl, model, apiKey }, of a server that speaks as OpenAI's; "": the rules above
function page.useModel(text)
  local options = text ~= "" and moonpad.json.decode(text)
  page.runner = newRunner(options and moonpad.models.openai {
    baseUrl = options.baseUrl, model = options.model, apiKey = options.apiKey ~= "" and options.apiKey or nil,
    api = "chat", timeoutMs = 120000, maxRetries = 1,
  } or scripted)
end

local evening = service:getUserState({ appName = APP, userId = GUEST }).evening
if evening then beginEvening(evening) else page.nextEvening() end
return page
