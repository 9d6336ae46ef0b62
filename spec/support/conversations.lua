--- Requests of many kinds, to look at what adapters make of them.
local moonpad = require "moonpad"

---@class spec.Conversation
---@field name string
---@field request moonpad.Request
---@field apis string[]? the only ones it is for

local PNG <const> = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
local PDF <const> = "JVBERi0xLjQKJSVFT0YK"

local list = {}

local function add(name, request, apis)
  request.contents = request.contents or { { role = "user", parts = { { text = "Hello" } } } }
  list[#list + 1] = { name = name, request = request, apis = apis }
end

local function user(...)
  return { role = "user", parts = { ... } }
end

local function model(...)
  return { role = "model", parts = { ... } }
end

local function call(id, name, args)
  return { functionCall = { id = id, name = name, args = args } }
end

local function answer(id, name, response, parts)
  return { functionResponse = { id = id, name = name, response = response, parts = parts } }
end

local QUESTION = user { text = "The weather in Rome and Oslo?" }
local WEATHER = {
  name = "weather", description = "The weather of a city",
  parameters = { type = "object", properties = { city = { type = "string" } }, required = { "city" } },
}
local NOTHING = { name = "now", description = "" }

---- What was said

add("a text", {})
add("a system instruction", { systemInstruction = "You are a guide.\nBe brief." })
add("an empty system instruction", { systemInstruction = "" })
add("no contents", { contents = {} })
add("several turns", { contents = { user { text = "One" }, model { text = "Two" }, user { text = "Three" } } })
add("two of the same role", {
  contents = {
    user { text = "a" }, user { text = "b" }, model { text = "c" }, model { text = "d" }, user { text = "e" },
  },
})
add("the model speaks last", { contents = { QUESTION, model { text = "Let me see." } } })
add("the model speaks first", { contents = { model { text = "Welcome" }, user { text = "Thanks" } } })
add("several texts in one content", { contents = { user({ text = "a" }, { text = "b\n" }, { text = " c" }) } })
add("an empty text", { contents = { user { text = "" } } })
add("an empty text among others", {
  contents = { user({ text = "" }, { text = "x" }), model { text = "" }, user { text = "y" } },
})
add("blank texts", { contents = { user { text = "  \n" }, model { text = "\n" }, user { text = "\t" } } })
add("odd texts", {
  contents = { user { text = "a\0b\1\27 \u{2028}\u{FEFF}\u{1F600} \"\\/ </script> \r\n \u{FFFD}" } },
})
add("a long text", { contents = { user { text = ("word "):rep(2000) } } })
add("contents without parts", { contents = { user(), model(), user { text = "x" } } })
add("text as code and its output", {
  contents = {
    QUESTION,
    model({ executableCode = { language = "PYTHON", code = "print(1)" } },
      { codeExecutionResult = { outcome = "OUTCOME_OK", output = "1\n" } }, { text = "It is 1." }),
    user { text = "Sure?" },
  },
})

---- Calls

local PARALLEL = {
  QUESTION,
  model({ text = "Let me see." }, call("call_1", "weather", { city = "Rome" }),
    call("call_2", "weather", { city = "Oslo" })),
  user(answer("call_1", "weather", { sky = "clear", degrees = 21 }), answer("call_2", "weather", { sky = "grey" })),
}
add("parallel calls", { contents = PARALLEL, tools = { WEATHER } })
add("parallel calls, answered the other way round", {
  tools = { WEATHER },
  contents = {
    QUESTION, PARALLEL[2],
    user(answer("call_2", "weather", { sky = "grey" }), answer("call_1", "weather", { sky = "clear" })),
  },
})
add("parallel calls, answered in two contents", {
  tools = { WEATHER },
  contents = {
    QUESTION, PARALLEL[2], user(answer("call_1", "weather", { sky = "grey" })),
    user(answer("call_2", "weather", { sky = "clear" })),
  },
})
add("calls without ids", {
  tools = { WEATHER },
  contents = {
    QUESTION, model(call(nil, "weather", { city = "Rome" }), call(nil, "weather", { city = "Oslo" })),
    user(answer(nil, "weather", { sky = "clear" }), answer(nil, "weather", { sky = "grey" })),
  },
})
add("the same id twice", {
  tools = { WEATHER },
  contents = {
    QUESTION, model(call("x", "weather", { city = "Rome" })), user(answer("x", "weather", { sky = "clear" })),
    model(call("x", "weather", { city = "Oslo" })), user(answer("x", "weather", { sky = "grey" })),
  },
})
add("ids that some providers refuse", {
  tools = { WEATHER },
  contents = {
    QUESTION, model(call(("long"):rep(30), "weather", { city = "Rome" }), call("ä/ö", "weather", { city = "Oslo" })),
    user(answer(("long"):rep(30), "weather", { sky = "clear" }), answer("ä/ö", "weather", { sky = "grey" })),
  },
})
add("a call that failed", {
  tools = { WEATHER },
  contents = {
    QUESTION, model(call("call_1", "weather", { city = "Rome" })),
    user(answer("call_1", "weather", { error = "no network" })),
  },
})
add("arguments that are no JSON", {
  tools = { WEATHER },
  contents = {
    QUESTION, model(call("call_1", "weather", '{"city":')), user(answer("call_1", "weather", { error = "no JSON" })),
  },
})
add("responses of odd types", {
  tools = { NOTHING },
  contents = {
    QUESTION,
    model(call("a", "now"), call("b", "now", {}), call("c", "now", {}), call("d", "now", {}), call("e", "now", {})),
    user(answer("a", "now"), answer("b", "now", {}), answer("c", "now", moonpad.array { 1, 2 }),
      answer("d", "now", "text"), answer("e", "now", moonpad.array {})),
  },
})
add("big and odd values in arguments", {
  tools = { WEATHER },
  contents = {
    QUESTION,
    model(call("a", "weather", {
      city = "Rome", n = 9007199254740993, x = 1e300, list = moonpad.array {}, none = moonpad.null,
    })),
    user(answer("a", "weather", { deep = { deeper = { deepest = moonpad.array { {}, moonpad.null, true } } } })),
  },
})
add("an answer and a text of the user", {
  tools = { WEATHER },
  contents = { QUESTION, PARALLEL[2], user(PARALLEL[3].parts[1], PARALLEL[3].parts[2], { text = "Be quick." }) },
})
add("calls of a tool that is gone", { contents = PARALLEL })

---- Files

local IMAGE = { inlineData = { mimeType = "image/png", data = PNG } }
local DOCUMENT = { inlineData = { mimeType = "application/pdf", data = PDF, displayName = "a b.pdf" } }
local IMAGE_URL = { fileData = { mimeType = "image/jpeg", fileUri = "https://files.example/a.jpg" } }
local DOCUMENT_URL = { fileData = { mimeType = "application/pdf", fileUri = "https://files.example/a.pdf" } }

add("an image", { contents = { user({ text = "What is this?" }, IMAGE) } })
add("an image alone", { contents = { user(IMAGE) } })
add("an image by its address", { contents = { user(IMAGE_URL, { text = "What is this?" }) } })
add("a PDF", { contents = { user({ text = "What is this?" }, DOCUMENT) } })
add("a PDF by its address", { contents = { user({ text = "What is this?" }, DOCUMENT_URL) } })
for name, file in pairs {
  ["a plain text as a file"] = { inlineData = { mimeType = "text/plain", data = "SGVsbG8=" } },
  ["a sound"] = { inlineData = { mimeType = "audio/wav", data = "UklGRg==" } },
  ["a film"] = { fileData = { mimeType = "video/mp4", fileUri = "https://files.example/a.mp4" } },
  ["a file of the provider"] = { fileData = { mimeType = "image/png", fileUri = "gs://bucket/a.png" } },
} do
  add(name, { contents = { user(file, { text = "What is this?" }) } })
end
add("an image that the model has made", {
  contents = { QUESTION, model({ text = "Here:" }, IMAGE), user { text = "Bigger." } },
})

local ARCHIVE = { inlineData = { mimeType = "application/zip", data = "UEs=" } }
for name, file in pairs {
  image = IMAGE, PDF = DOCUMENT, address = IMAGE_URL, ["other type"] = ARCHIVE, text = { text = "more" },
} do
  add("a tool that returns a file: " .. name, {
    tools = { WEATHER },
    contents = {
      QUESTION, PARALLEL[2],
      user(answer("call_1", "weather", { sky = "clear" }, { file, file }),
        answer("call_2", "weather", { sky = "grey" })),
    },
  })
end

---- Thoughts. Those with what only their server understands are in recorded answers.

add("thoughts of nobody", {
  contents = { QUESTION, model({ text = "Hm.", thought = true }, { text = "Sunny." }), user { text = "Sure?" } },
})
add("thoughts and nothing else", {
  contents = { QUESTION, model { text = "Hm.", thought = true }, user { text = "And?" } },
})

---- Tools

local function withParameters(name, parameters)
  add("parameters: " .. name, { tools = { { name = "tool", description = "A tool", parameters = parameters } } })
end

add("a tool without parameters", { tools = { NOTHING } })
add("a long name of a tool", { tools = { { name = ("n"):rep(64), description = "x" } } })
withParameters("none", { type = "object", properties = {} })
withParameters("optional ones", {
  type = "object", required = { "a" },
  properties = {
    a = { type = "string" }, b = { type = "integer", minimum = 1, maximum = 9 }, c = { type = { "string", "null" } },
  },
})
withParameters("definitions and choices", {
  type = "object", required = moonpad.array {},
  ["$defs"] = { point = { type = "object", properties = { x = { type = "number" } }, required = { "x" } } },
  properties = {
    at = { ["$ref"] = "#/$defs/point" },
    size = { anyOf = { { type = "integer" }, { type = "string", enum = { "small", "large" } }, { type = "null" } } },
    kind = { const = "k" }, flags = { type = "array", items = { type = "boolean" }, minItems = 1, uniqueItems = true },
  },
})
withParameters("what few providers know", {
  type = "object", additionalProperties = { type = "string" }, minProperties = 1,
  properties = {
    when = { type = "string", format = "date-time", pattern = "^\\d+" }, anything = {}, list = { type = "array" },
    all = { allOf = { { type = "object", properties = { a = { type = "string" } } } } },
  },
})

local SERVER_TOOLS = {
  anthropic = { { type = "web_search_20250305", name = "web_search", max_uses = 2 } },
  gemini = { { googleSearch = {} } },
  responses = { { type = "web_search" }, { type = "code_interpreter", container = { type = "auto" } } },
}
for api, tools in pairs(SERVER_TOOLS) do
  add("tools of the provider: " .. api, { providerTools = tools }, { api })
  local both = { providerTools = tools, tools = { WEATHER, NOTHING } }
  add("tools of the provider beside own ones: " .. api, both, { api })
end

---- Settings

local function withConfig(name, config)
  add("config: " .. name, { config = config, tools = { WEATHER } })
end

for name, value in pairs {
  temperature = 0.5, topP = 0.9, topK = 40, maxOutputTokens = 1000, seed = 7, presencePenalty = 0.5,
  frequencyPenalty = -0.5, responseMimeType = "application/json",
} do
  withConfig(name, { [name] = value })
end
withConfig("one word to stop at", { stopSequences = { "END" } })
withConfig("words to stop at", { stopSequences = { "END", "\n\n" } })
withConfig("no word to stop at", { stopSequences = moonpad.array {} })
for _, choice in ipairs { "auto", "none", "any", "weather" } do
  withConfig("toolChoice " .. choice, { toolChoice = choice })
end
for _, effort in ipairs { "none", "low", "medium", "high" } do
  withConfig("reasoning " .. effort, { reasoning = effort })
end

local SCHEMAS = {
  simple = { type = "object", properties = { a = { type = "string" } }, required = { "a" } },
  optional = {
    type = "object", required = { "a" },
    properties = {
      a = { type = "string" }, b = { type = "integer", minimum = 1 },
      c = { type = "array", items = { type = "string" } },
    },
  },
  definitions = {
    type = "object", required = { "tree" }, properties = { tree = { ["$ref"] = "#/$defs/tree" } },
    ["$defs"] = {
      tree = { type = "object", properties = { under = { type = "array", items = { ["$ref"] = "#/$defs/tree" } } } },
    },
  },
  choices = {
    type = "object", required = { "x" },
    properties = { x = { anyOf = { { type = "string", enum = { "a", "b" } }, { type = "null" } } } },
  },
  list = { type = "array", items = { type = "integer" } },
  open = { type = "object", additionalProperties = { type = "number" } },
}
for name, schema in pairs(SCHEMAS) do
  add("a schema for the answer: " .. name, { config = { responseSchema = schema } })
  withConfig("a schema beside tools: " .. name, { responseSchema = schema })
end

local EXTRA = {
  chat = { user = "u", metadata = { a = "b" }, parallel_tool_calls = false },
  responses = { user = "u", metadata = { a = "b" }, parallel_tool_calls = false, reasoning = { effort = "low" } },
  anthropic = { metadata = { user_id = "u" }, thinking = { type = "enabled", budget_tokens = 1024 } },
  gemini = {
    generationConfig = { candidateCount = 1, thinkingConfig = { thinkingBudget = 0 } },
    safetySettings = { { category = "HARM_CATEGORY_HARASSMENT", threshold = "BLOCK_NONE" } },
  },
}
for api, extra in pairs(EXTRA) do
  add("config: extra of " .. api, { config = { maxOutputTokens = 2000, extra = extra }, tools = { WEATHER } }, { api })
end
add("all at once", {
  systemInstruction = "You are a guide.", tools = { WEATHER, NOTHING },
  contents = { user({ text = "What is this?" }, IMAGE), table.unpack(PARALLEL, 2) },
  config = {
    temperature = 0, topP = 1, maxOutputTokens = 4000, toolChoice = "auto", reasoning = "low",
    responseSchema = SCHEMAS.simple,
  },
})

table.sort(list, function(a, b) return a.name < b.name end)

return list
