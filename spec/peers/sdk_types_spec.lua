-- The bodies of requests are what the makers' own SDKs would let a program send: each is a typed
-- constant, and the TypeScript compiler says where it is not of its type.
local bodies = require "spec.support.bodies"
local files = require "spec.support.files"
local moonpad = require "moonpad"

local HERE <const> = "spec/peers"

local function lines(command)
  local list = {}
  local pipe <close> = assert(io.popen(command))
  for line in pipe:lines() do list[#list + 1] = line end
  return list
end

---- The types

-- @google/genai has types for its own functions, not for what goes over the wire: settings are
-- spread otherwise, and values of an enumeration are no strings.
local GEMINI <const> = [[
import type * as genai from "@google/genai";
type Wire<T> = T extends string ? `${T}` : T extends number | boolean | null | undefined ? T
  : T extends (infer U)[] ? Wire<U>[] : unknown extends T ? T : T extends object ? { [K in keyof T]: Wire<T[K]> } : T;
type Beside = Pick<genai.GenerateContentConfig, "tools" | "toolConfig" | "safetySettings" | "cachedContent" | "labels">;
type Body = Wire<Beside & {
  contents: genai.Content[]; systemInstruction?: genai.Content; generationConfig?: genai.GenerationConfig;
}>;]]

local TYPES <const> = {
  chat = 'import type { ChatCompletionCreateParams as Body } from "openai/resources/chat/completions";',
  responses = 'import type { ResponseCreateParams as Body } from "openai/resources/responses/responses";',
  anthropic = 'import type { MessageCreateParams as Body } from "@anthropic-ai/sdk/resources/messages";',
  -- What was recorded with features that Anthropic calls beta goes back with their types.
  beta = 'import type { MessageCreateParams as Body } from "@anthropic-ai/sdk/resources/beta/messages";',
  gemini = GEMINI,
}

---- What the types do not have, and why it is sent all the same

local function take(object, field)
  local found = object[field] ~= nil
  object[field] = nil
  return found
end

local function takeFromEach(list, field)
  local found = false
  for _, object in ipairs(list or {}) do found = take(object, field) or found end
  return found
end

local function isOpenai(body)
  return body.server:find "^https://api%.openai%.com" or body.server:find "%.openai%.azure%.com"
end

-- A field of the body that other servers than OpenAI's have.
local function field(name)
  return function(body) return not isOpenai(body) and take(body.value, name) end
end

-- A field of a message that goes back to the server that gave it.
local function messageField(name)
  return function(body)
    if isOpenai(body) then return false end
    local found = false
    for _, message in ipairs(body.value.messages) do
      found = take(message, name) or found
      found = takeFromEach(message.tool_calls, name) or found
    end
    return found
  end
end

-- Each takes what it accepts out of a body, and says whether there was something.
local ACCEPTED <const> = {
  { api = "chat", what = "thinking (DeepSeek, Moonshot, Z.ai)", take = field "thinking" },
  { api = "chat", what = "reasoning (OpenRouter)", take = field "reasoning" },
  { api = "chat", what = "enable_thinking (Alibaba)", take = field "enable_thinking" },
  { api = "chat", what = "random_seed (Mistral)", take = field "random_seed" },
  { api = "chat", what = "reasoning_content (DeepSeek and others)", take = messageField "reasoning_content" },
  { api = "chat", what = "reasoning_details (OpenRouter)", take = messageField "reasoning_details" },
  { api = "chat", what = "extra_content (Google)", take = messageField "extra_content" },
  {
    -- Nothing has been stored under it: without it, nobody looks for it.
    api = "responses", what = "reasoning and searches without an id",
    take = function(body)
      local found, types = false, { reasoning = true, web_search_call = true }
      for _, item in ipairs(body.value.input) do
        if types[item.type] and not item.id then item.id, found = "id_1", true end
      end
      return found
    end,
  },
  {
    -- The types of what comes and of what goes do not agree: it comes.
    api = "responses", what = "sources of a web search that are no addresses",
    take = function(body)
      local found = false
      for _, item in ipairs(body.value.input) do
        local sources = item.type == "web_search_call" and item.action and item.action.sources or {}
        for _, source in ipairs(sources) do
          if source.type == "api" then source.type, source.name, source.url, found = "url", nil, "https://x", true end
        end
      end
      return found
    end,
  },
  {
    api = "responses", what = "fields of xAI in a web search",
    take = function(body)
      local found = false
      for _, item in ipairs(not isOpenai(body) and body.value.input or {}) do
        for _, name in ipairs(item.type == "web_search_call" and { "arguments", "call_id", "name" } or {}) do
          found = take(item, name) or found
        end
        if item.type == "web_search_call" then item.action = item.action or { type = "search", query = "x" } end
      end
      return found
    end,
  },
  {
    -- The SDK has left them out, because the newest models refuse them; older ones take them.
    api = "anthropic", what = "temperature, top_p, top_k",
    take = function(body)
      if body.model:find "^claude%-[%a]+%-5" or body.model:find "^claude%-opus%-4%-[78]" then return false end
      local found = take(body.value, "temperature")
      found = take(body.value, "top_p") or found
      return take(body.value, "top_k") or found
    end,
  },
}

---- Bodies as constants

local function typeOf(api, body)
  return api == "anthropic" and body.name:find "^after anthropic/" and "beta" or api
end

-- TypeScript ends a line at these characters, too.
local function constant(number, value)
  local text = moonpad.json.encode(value):gsub("\u{2028}", "\\u2028"):gsub("\u{2029}", "\\u2029")
  return ("export const body%d: Body = %s;\n"):format(number, text)
end

local function compile(folder)
  files.write(folder .. "/tsconfig.json", [[{
    "compilerOptions": {
      "strict": true, "noEmit": true, "module": "nodenext", "target": "es2022", "types": ["node"], "skipLibCheck": true
    },
    "include": ["*.ts"]
  }]])
  return lines(("'%s/node_modules/.bin/tsc' -p '%s' --pretty false 2>&1"):format(HERE, folder))
end

-- Writes all constants; for each file, which body is in which line.
local function writeAll(folder, sources)
  local inLine = {}
  for name, list in pairs(sources) do
    local _, count = TYPES[name]:gsub("\n", "\n")
    local texts = { TYPES[name] .. "\n" }
    inLine[name] = {}
    for number, body in ipairs(list) do
      texts[number + 1], inLine[name][count + 1 + number] = constant(number, body.value), body
    end
    files.write(("%s/%s.ts"):format(folder, name), table.concat(texts))
  end
  return inLine
end

-- The messages of the compiler by the bodies that they are about.
local function messagesOf(output, inLine)
  local found, current = {}, nil
  for _, line in ipairs(output) do
    local name, number = line:match "(%w+)%.ts%((%d+),%d+%): error"
    if name then
      current = assert(inLine[name] and inLine[name][tonumber(number)], line)
      found[current] = found[current] or line:gsub("^.-: error", "error")
    elseif current then
      found[current] = found[current] .. "\n" .. line
    else
      error("tsc: " .. line)
    end
  end
  return found
end

---- What must be refused, or the compiler has not looked

local WRONG <const> = {
  chat = {
    { model = "m", messages = { { role = "user", content = "x", contents = "y" } } },
    { model = "m", messages = { { role = "user", content = "x" } }, max_tokens = "10" },
  },
  responses = {
    { model = "m", input = { { type = "message", role = "user", content = { { type = "input_text" } } } } },
    { model = "m", input = "x", max_tokens = 10 },
  },
  anthropic = {
    { model = "m", max_tokens = 10, messages = { { role = "system!", content = "x" } } },
    { model = "m", messages = { { role = "user", content = "x" } } },
  },
  beta = {
    { model = "m", max_tokens = 10, messages = { { role = "user", content = { { type = "no such block" } } } } },
  },
  gemini = {
    { contents = { { role = "user", parts = { { txt = "x" } } } } },
    { contents = { { parts = { { text = "x" } } } }, toolConfig = { functionCallingConfig = { mode = "SOME" } } },
    { contents = { { parts = { { text = "x" } } } }, generationConfig = { top_k = 1 } },
  },
}

describe("the types of the makers' SDKs", function()
  local folder, found, refused, sources = nil, nil, {}, {}
  local wasTaken = {}

  local function addAll(api)
    local list, problems = bodies.of(api, function(all) return all end)
    for _, body in ipairs(list) do
      body.value = moonpad.json.decode(body.text)
      for _, accepted in ipairs(ACCEPTED) do
        if accepted.api == api and accepted.take(body) then wasTaken[accepted.what] = true end
      end
      local name = typeOf(api, body)
      sources[name] = sources[name] or {}
      table.insert(sources[name], body)
    end
    table.move(problems, 1, #problems, #refused + 1, refused)
  end

  setup(function()
    assert(files.read(HERE .. "/node_modules/.bin/tsc") ~= "", "no TypeScript: run scripts/deps.sh checks first")
    folder = lines("mktemp -d")[1]
    assert(os.execute(("ln -s '%s/%s/node_modules' '%s/node_modules'"):format(files.here(), HERE, folder)))
    for _, api in ipairs { "chat", "responses", "anthropic", "gemini" } do addAll(api) end
    for name, list in pairs(WRONG) do
      for _, value in ipairs(list) do table.insert(sources[name], { name = "wrong", isWrong = true, value = value }) end
    end
    local inLine = writeAll(folder, sources)
    found = messagesOf(compile(folder), inLine)
  end)

  teardown(function() os.execute(("rm -rf '%s'"):format(folder)) end)

  for name in pairs(TYPES) do
    it("take each body: " .. name, function()
      local messages = {}
      for _, body in ipairs(sources[name]) do
        if found[body] and not body.isWrong then
          messages[#messages + 1] = ("%s\n  %s\n  %s"):format(body.name, found[body], body.text)
        end
      end
      assert(#messages == 0, table.concat(messages, "\n"))
    end)

    it("refuse what is wrong: " .. name, function()
      for index, body in ipairs(sources[name]) do
        assert(found[body] or not body.isWrong, ("%d: %s"):format(index, moonpad.json.encode(body.value)))
      end
    end)
  end

  it("are asked about many bodies of each API", function()
    for name, least in pairs { chat = 200, responses = 200, anthropic = 150, beta = 15, gemini = 100 } do
      assert(#sources[name] > least, ("%s: %d"):format(name, #sources[name]))
    end
  end)

  it("do not have what is accepted all the same, which is all sent by somebody", function()
    for _, accepted in ipairs(ACCEPTED) do assert(wasTaken[accepted.what], accepted.what) end
  end)

  it("are not asked where a request cannot be sent, which is said clearly", function()
    for _, one in ipairs(refused) do
      assert(type(one.problem) == "table" and one.problem.code == "invalid_argument",
        ("%s: %s"):format(one.name, tostring(one.problem)))
    end
  end)
end)
