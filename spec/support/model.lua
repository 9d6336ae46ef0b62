--- What the specs of models over HTTP share.
local assert = require "luassert"
local bodyText = require "moonpad.models.body_text"
local busted = require "busted"
local http = require "moonpad.http"
local moonpad = require "moonpad"
local providers = require "moonpad.models.providers"
local requestCheck = require "moonpad.models.request_check"
local server = require "spec.support.http"
local support = require "spec.support"
local rarely = require("spec.support.turns").rarely

local describe, it = busted.describe, busted.it

local model = {}

---All responses of a model to a request: a list of the partial ones, and the last.
---@param instance moonpad.HttpModel
---@param request table|string|nil a request, or what the user says
function model.ask(instance, request)
  if type(request) ~= "table" then request = model.say(request or "Hi") end
  local answer, _, _, closing = instance:generate(request)
  if type(answer) ~= "function" then return {}, answer end
  local _ <close> = closing
  local list = {}
  for response in answer do list[#list + 1] = response end
  return list, table.remove(list)
end

---A request in which the user says something.
function model.say(text, more)
  local request = { contents = { { role = "user", parts = { { text = text } } } }, tools = {}, config = {} }
  for key, value in pairs(more or {}) do request[key] = value end
  return request
end

---The texts of partial responses, thoughts in brackets.
function model.texts(partials)
  local texts = {}
  for _, response in ipairs(partials) do
    assert(response.partial == true and response.content.role == "model")
    for _, part in ipairs(response.content.parts) do
      texts[#texts + 1] = part.thought and "(" .. part.text .. ")" or part.text
    end
  end
  return texts
end

---The error that asking raises.
function model.failure(instance, request)
  local ok, err = pcall(model.ask, instance, request)
  assert(not ok, "there was no error")
  return err
end

---The parts of an answer without the note of which server they are from, which must be there where
---one is bound to it.
function model.parts(response)
  local list = {}
  for index, part in ipairs(response.content.parts) do
    local copied = {}
    for name, value in pairs(part) do copied[name] = value end
    local isBound = part.thoughtSignature or part.openai or part.anthropic or part.toolCall or part.toolResponse
    assert.are.equal(isBound ~= nil, part.partMetadata ~= nil)
    if isBound then assert.matches("^http://127%.0%.0%.1:%d+$", part.partMetadata.server) end
    copied.partMetadata = nil
    list[index] = copied
  end
  return list
end

---The body of a request, as an adapter would send it.
---@param adapter string "openai"
---@param request table
---@param settings table? of a model: `quirks`, `server`, ...
---@return table body
---@return string[] leftOut
function model.bodyOf(adapter, request, settings)
  local call = { settings = { quirks = {}, server = "http://127.0.0.1:1" }, stream = false, leftOut = {} }
  for name, value in pairs(settings or {}) do call.settings[name] = value end
  local checked = requestCheck.check(request, adapter)
  checked.model = checked.model or "m"
  call.model = checked.model
  local body = require("moonpad.models." .. adapter .. "_request").body(checked, call)
  return moonpad.json.decode(table.concat(bodyText.encode(body, "messages"))), call.leftOut
end

---Runs Lua in a process of its own, with an environment.
function model.lua(environment, code)
  local assignments = {}
  local function assign(name)
    assignments[#assignments + 1] = ("%s=%s"):format(name, support.quote(environment[name] or ""))
  end
  for _, row in ipairs(providers.ROWS) do
    for _, name in ipairs(row.keyVariables) do assign(name) end
    if row.addressVariable then assign(row.addressVariable) end
  end
  for name in pairs(environment) do assign(name) end
  local paths = ("package.path, package.cpath = %q, %q; "):format(package.path, package.cpath)
  local command = ("env %s lua5.4 -e %s 2>&1"):format(table.concat(assignments, " "), support.quote(paths .. code))
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end

---What holds for the model of every provider, whatever its format.
---@param provider { name: string, new: fun(options: table): moonpad.HttpModel, path: string, wholePath: string,
---  stream: string, whole: table|string, text: string, failure: string }
function model.behavesWell(provider)
  local KEY = "sk-test-0123456789abcdefghij"
  local web

  busted.setup(function() web = server.start() end)
  busted.teardown(function() web:stop() end)

  local function make(options)
    local all = { model = "m", apiKey = KEY, baseUrl = web.url }
    for key, value in pairs(options or {}) do all[key] = value end
    return provider.new(all)
  end

  local function script(replies)
    web:script { [provider.path] = replies, [provider.wholePath] = replies }
  end

  local function stream(more)
    return server.stream(provider.stream, more)
  end

  -- Where the first text ends: that many bytes are enough to show it.
  local function endOfFirstText()
    local _, text = provider.stream:find('"Hel"', 1, true)
    local _, last = provider.stream:find("\n\n", text, true)
    return last
  end

  describe("over HTTP", function()
    it("gives the same answer whatever pieces it comes in", function()
      script(stream())
      local expected, last = model.ask(make())
      assert.are.equal(provider.text, last.content.parts[1].text)
      for _, size in ipairs { 1, 2, 3, 17 } do
        script(stream { split = size })
        local partials, again = model.ask(make())
        assert.are.same(model.texts(expected), model.texts(partials))
        assert.are.same(last, again)
      end
    end)

    it("shows text as it comes", function()
      script(stream { split = 20, hold = endOfFirstText() })
      local answer, _, _, closing = make():generate(model.say "Hi")
      local _ <close> = closing
      assert.is_true(answer().partial)
      assert.are.equal(endOfFirstText(), web:requests()[1].sent)
    end)

    it("answers in one piece without streaming, and when a server does not stream", function()
      script(server.json(provider.whole))
      local partials, last = model.ask(make { stream = false })
      assert.are.same({}, partials)
      assert.are.equal(provider.text, last.content.parts[1].text)
      assert.is_nil(last.partial)
      partials, last = model.ask(make())
      assert.are.same({}, partials)
      assert.are.equal(provider.text, last.content.parts[1].text)
    end)

    it("refuses a request that says something else than a request can", function()
      local function refusal(request)
        local instance = make()
        local ok, err = pcall(instance.generate, instance, request)
        assert.are.same({ false, "invalid_argument" }, { ok, err.code })
        return err.message
      end
      assert.are.equal("model:generate: expected a table, got string", refusal "Hi")
      assert.are.equal("model:generate: system_instruction: unknown field, did you mean systemInstruction?",
        refusal { contents = {}, system_instruction = "Be kind." })
      assert.matches("model:generate: contents: expected a list of contents, got string", refusal { contents = "Hi" })
      assert.matches("model:generate: contents: expected a list of contents, got a table with the key \"parts\"",
        refusal { contents = { parts = {} } })
    end)

    it("refuses a request with a value of a wrong type, and names it", function()
      local function refusal(change)
        local request = {
          systemInstruction = "Be kind.", config = {},
          contents = {
            { role = "user", parts = { { text = "Hi" } } }, { role = "model", parts = { { text = "Yes" } } },
          },
          tools = { { name = "t", description = "", parameters = { type = "object" } } },
        }
        change(request)
        script(stream())
        local err = model.failure(make(), request)
        assert.are.equal("invalid_argument", err.code, err.message)
        assert.are.equal(0, #web:requests())
        return err.message
      end
      local function part(value)
        return function(request) request.contents[2].parts[2] = value end
      end
      for change, message in pairs {
        [function(request) request.model = 5 end] = "model: expected a string, got number",
        [function(request) request.systemInstruction = { parts = {} } end] =
          "systemInstruction: expected a string, got table",
        [function(request) request.contents = 5 end] = "contents: expected a list of contents",
        [function(request) request.contents[2] = "Yes" end] = "contents[2]: expected a table, got string",
        [function(request) request.contents[2].role = 5 end] = "contents[2].role: expected a string, got number",
        [function(request) request.contents[2].parts = nil end] = "contents[2].parts: is missing",
        [function(request) request.contents[2].parts = "Yes" end] = "contents[2].parts: expected a table, got string",
        [function(request) request.contents[2].parts = { text = "Yes" } end] = "contents[2].parts: expected a list of",
        [function(request) request.tools = "t" end] = "tools: expected a list of tools",
        [function(request) request.tools[1] = "t" end] = "tools[1]: expected a table, got string",
        [function(request) request.tools[1].name = nil end] = "tools[1].name: is missing",
        [function(request) request.tools[1].name = 5 end] = "tools[1].name: expected a string, got number",
        [function(request) request.tools[1].description = 5 end] = "tools[1].description: expected a string",
        [function(request) request.tools[1].parameters = "x" end] = "tools[1].parameters: expected a table",
        [function(request) request.config = "hot" end] = "config: expected a table, got string",
        [function(request) request.config.stopSequences = { 5 } end] = "config.stopSequences[1]: expected a string",
        [function(request) request.config.toolChoice = "nobody" end] =
          'config.toolChoice: "nobody" is neither "auto", "none", "any" nor the name of a tool',
        [function(request) request.config.stopSequences = { a = "b" } end] = "config.stopSequences: expected a list",
        [part "Yes"] = "contents[2].parts[2]: expected a table, got string",
        [part { text = 5 }] = "contents[2].parts[2].text: expected a string, got number",
        [part { text = "x", thought = "yes" }] = "contents[2].parts[2].thought: expected true or false",
        [part { text = "x", thoughtSignature = 5 }] = "contents[2].parts[2].thoughtSignature: expected a string",
        [part { functionCall = "f" }] = "contents[2].parts[2].functionCall: expected a table, got string",
        [part { functionCall = { args = {} } }] = "contents[2].parts[2].functionCall.name: is missing",
        [part { functionCall = { name = {} } }] = "contents[2].parts[2].functionCall.name: expected a string",
        [part { functionResponse = 5 }] = "contents[2].parts[2].functionResponse: expected a table",
        [part { functionResponse = { name = 5 } }] = "contents[2].parts[2].functionResponse.name: expected a string",
        [part { inlineData = 5 }] = "contents[2].parts[2].inlineData: expected a table",
        [part { inlineData = { mimeType = 5, data = "" } }] = "contents[2].parts[2].inlineData.mimeType: expected",
        [part { inlineData = { mimeType = "image/png" } }] = "contents[2].parts[2].inlineData.data: is missing",
        [part { fileData = {} }] = "contents[2].parts[2].fileData.fileUri: is missing",
        [part { executableCode = { code = 5 } }] = "contents[2].parts[2].executableCode.code: expected a string",
        [part { codeExecutionResult = { output = {} } }] = "contents[2].parts[2].codeExecutionResult.output: expected",
      } do
        local told = refusal(change)
        assert.is_truthy(told:find(message, 1, true), ("%q does not say %q"):format(told, message))
      end
    end)

    it("takes a null in a request for nothing", function()
      local NULL = moonpad.null
      script(stream())
      local _, last = model.ask(make(), {
        model = NULL, systemInstruction = NULL, config = NULL, tools = NULL,
        contents = {
          { role = "user", parts = { { text = "Hi", thought = NULL, functionCall = NULL, inlineData = NULL } } },
          { role = "model", parts = { { functionCall = { name = "f", id = NULL, args = NULL } } } },
          { role = "user", parts = { { functionResponse = { name = "f", id = NULL, response = NULL } } } },
        },
      })
      assert.are.equal(provider.text, last.content.parts[1].text)
      -- A chat completion has a null of its own.
      assert.is_nil(web:requests()[1].body:gsub('"content":null', ""):find("null", 1, true))
    end)

    it("takes a reply of 100 KB, streamed and whole", function()
      local long = ("0123456789"):rep(10240)
      local streamed, count = provider.stream:gsub('"Hel"', '"' .. long .. '"')
      assert.are.equal(1, count)
      script(server.stream(streamed, { split = 1000 }))
      local _, last = model.ask(make())
      assert.are.equal(long .. provider.text:sub(#"Hel" + 1), last.content.parts[1].text)
      local whole = type(provider.whole) == "table" and moonpad.json.encode(provider.whole) or provider.whole
      whole, count = whole:gsub('"' .. provider.text .. '"', '"' .. long .. '"')
      assert.are.equal(1, count)
      script(server.json(whole))
      _, last = model.ask(make { stream = false })
      assert.are.equal(long, last.content.parts[1].text)
    end)

    -- The stream with its first text so many times.
    local function repeated(count, text)
      local first, last = provider.stream:find('"Hel"', 1, true)
      local before = provider.stream:sub(1, first):match "^(.*\n\n)" or ""
      local event = provider.stream:sub(#before + 1, endOfFirstText())
      assert(first > #before and last < #before + #event)
      local piece = event:gsub('"Hel"', function() return '"' .. text .. '"' end)
      return before .. piece:rep(count) .. provider.stream:sub(endOfFirstText() + 1)
    end

    rarely("ends an answer that is too long, streamed and whole", function()
      for _, reply in ipairs {
        server.stream(repeated(1000, ("x"):rep(100))), server.stream((": still there\n"):rep(1000)),
        server.stream("data: " .. ("x"):rep(10000)), server.json(("x"):rep(10000)),
      } do
        -- More than the buffers between here and there hold.
        reply.times, reply.split = 60000000 // #reply.body, 65536
        script(reply)
        local err = model.failure(make { maxResponseBytes = 100000 })
        assert.are.same({ "model", "limit" }, { err.code, err.kind })
        assert.are.equal(("%s \"m\": the answer is longer than 100000 bytes (maxResponseBytes)"):format(provider.name),
          err.message)
        support.waitUntil("the end of the connection", function() return web:requests()[1].closed end)
        assert.are.equal(1, #web:requests())
      end
      script(server.json(("x"):rep(3000000), { split = 16384 }))
      assert.are.equal("limit", model.failure(make { maxResponseBytes = 100000, stream = false }).kind)
      assert.are.equal(0, http.active())
      -- The same is none too long where so much is allowed, or as much as there is.
      local text = repeated(1000, ("x"):rep(100))
      for _, limit in ipairs { #text, 0 } do
        script(server.stream(text))
        local _, last = model.ask(make { maxResponseBytes = limit })
        assert.are.equal(1000 * 100 + #provider.text - #"Hel", #last.content.parts[1].text)
      end
      script(server.stream(text))
      assert.are.equal("limit", model.failure(make { maxResponseBytes = #text - 1 }).kind)
    end)

    rarely("lets go of what it has read of an answer that is too long", function()
      script(server.stream(repeated(20000, ("x"):rep(100))))
      local instance = make { maxResponseBytes = 2000000 }
      collectgarbage()
      local before = collectgarbage "count"
      assert.are.equal("limit", model.failure(instance).kind)
      collectgarbage()
      collectgarbage()
      local left = collectgarbage "count" - before
      assert.is_true(left < 500, ("%.0f KiB"):format(left))
    end)

    it("takes memory in proportion to a streamed answer", function()
      local used = {}
      for index, count in ipairs { 500, 2000 } do
        script(server.stream((repeated(count, ("x"):rep(200)))))
        local instance = make()
        collectgarbage()
        collectgarbage "stop"
        local before = collectgarbage "count"
        model.ask(instance)
        used[index] = collectgarbage "count" - before
        collectgarbage "restart"
      end
      assert.is_true(used[2] < 6 * used[1], ("%.0f KiB, %.0f KiB"):format(used[1], used[2]))
    end)

    it("uses a connection again", function()
      script(stream { split = 1000 })
      local instance = make()
      model.ask(instance)
      -- The last bytes of an answer may come when the model has spoken already, and the next
      -- request with them.
      support.waitUntil("a connection that is used again", function()
        local count = #web:requests()
        support.waitUntil("the last bytes", function()
          http.poll(0.01)
          return web:requests()[count].answered
        end)
        model.ask(instance)
        local sent = web:requests()
        return sent[count].connection == sent[count + 1].connection
      end)
    end)

    it("tries again after 429", function()
      script { { status = 429, headers = { ["Retry-After"] = "0" } }, stream() }
      local _, last = model.ask(make())
      assert.are.equal(provider.text, last.content.parts[1].text)
      assert.are.equal(2, #web:requests())
    end)

    it("gives up in the end, with what the provider said", function()
      script(server.json(provider.failure, { status = 500 }))
      local err = model.failure(make { maxRetries = 1 })
      assert.are.equal("model", err.code)
      assert.are.equal(500, err.status)
      assert.are.equal(provider.failure, err.body)
      assert.are.equal(("%s \"m\": HTTP 500: it is broken (after 2 attempts)"):format(provider.name), err.message)
      assert.are.equal(2, #web:requests())
    end)

    it("tells an error in the middle of a stream", function()
      script(server.stream(provider.stream:gsub("\n\n.*", "\n\n") .. "data: " .. provider.failure .. "\n\n"))
      local err = model.failure(make())
      assert.are.equal("model", err.code)
      assert.is_truthy(err.message:find("it is broken", 1, true))
      assert.are.equal(1, #web:requests())
    end)

    it("tells a broken connection", function()
      -- As long as nothing has been seen of the answer, it would be asked for again.
      script(stream { split = 50, hold = endOfFirstText(), drop = endOfFirstText() + 10 })
      local answer, _, _, closing = make():generate(model.say "Hi")
      local _ <close> = closing
      assert.is_true(answer().partial)
      web:release()
      local err
      repeat
        local ok, response = pcall(answer)
        err = not ok and response
        assert(err or response, "there was no error")
      until err
      assert.are.equal("model", err.code)
      assert.are.equal("transfer", err.kind)
      assert.are.equal(1, #web:requests())
    end)

    it("tells a stream that ends too early", function()
      script(server.stream((provider.stream:gsub("\n\n.*", "\n\n"))))
      assert.is_truthy(model.failure(make()).message:find("ended before", 1, true))
    end)

    it("tells broken JSON", function()
      script(server.stream { '{"a":' })
      local err = model.failure(make())
      assert.are.equal("model", err.code)
      assert.are.equal('{"a":', err.body)
      script(server.json '{"a":')
      err = model.failure(make { stream = false })
      assert.are.equal("model", err.code)
      assert.is_truthy(err.message:find("not a JSON object", 1, true))
    end)

    it("tells JSON of another form", function()
      for _, text in ipairs {
        "{}", "[]", "1", "null", '{"choices":1,"candidates":1,"type":1}', '{"choices":"x","candidates":"x"}',
        '{"choices":[1],"candidates":[1]}', '{"choices":[{"message":1,"delta":1}],"candidates":[{"content":1}]}',
        '{"type":"message","content":1}', '{"type":"message_start"}', '{"type":"content_block_delta","delta":{}}',
        '{"type":"content_block_start","index":0}', '{"type":"message_delta"}', '{"error":{}}', '{"error":"no"}',
      } do
        script(server.stream { text })
        assert.are.equal("model", model.failure(make()).code)
        script(server.json(text))
        assert.are.equal("model", model.failure(make { stream = false }).code)
      end
    end)

    it("tells an answer that is no answer of a model", function()
      script { headers = { ["Content-Type"] = "text/html" }, body = "<html>Welcome</html>" }
      local err = model.failure(make())
      assert.is_truthy(err.message:find("text/html", 1, true))
      assert.are.equal("<html>Welcome</html>", err.body)
      assert.is_truthy(model.failure(make { stream = false }).message:find("text/html", 1, true))
    end)

    it("tells that there was no answer in time", function()
      script { hang = true }
      local err = model.failure(make { timeoutMs = 100 })
      assert.are.same({ "model", "timeout" }, { err.code, err.kind })
    end)

    it("tells that nobody is there", function()
      local err = model.failure(make { baseUrl = "http://127.0.0.1:1", maxRetries = 0 })
      assert.are.same({ "model", "connect" }, { err.code, err.kind })
      assert.is_truthy(err.message:find(provider.name .. ' "m"', 1, true))
    end)

    it("never tells its key", function()
      local echo = '{"error":{"message":"bad key ' .. KEY .. ' in Bearer ' .. KEY .. '"}}'
      local texts = { moonpad.json.encode { make().name, make().baseUrl }, tostring(make()) }
      local function keep(err)
        texts[#texts + 1] = tostring(err)
        for name, value in pairs(err) do texts[#texts + 1] = name .. "=" .. tostring(value) end
      end
      for _, reply in ipairs {
        server.json(echo, { status = 401 }), server.json(echo), server.stream { echo }, server.stream { KEY },
        { status = 400, body = KEY:rep(4000) }, { body = KEY, headers = { ["Content-Type"] = KEY } },
        { raw = "HTTP/1.1 " .. KEY .. "\r\n\r\n" }, { status = 302, headers = { Location = "ftp://" .. KEY .. "/" } },
      } do
        script(reply)
        keep(model.failure(make { maxRetries = 0 }))
        keep(model.failure(make { maxRetries = 0, stream = false }))
      end
      script(server.json('{"error":{"message":"your secret-header-value"}}', { status = 403 }))
      keep(model.failure(make { headers = { ["X-Other"] = "secret-header-value" } }))
      for _, text in ipairs(texts) do
        assert.is_nil(text:find("0123456789", 1, true), text)
        assert.is_nil(text:find("secret-header-value", 1, true), text)
      end
      local seen = {}
      local function walk(value)
        if type(value) == "string" then assert.is_nil(value:find(KEY, 1, true)) end
        if type(value) ~= "table" or seen[value] then return end
        seen[value] = true
        for name, item in pairs(value) do
          walk(name)
          walk(item)
        end
        walk(getmetatable(value))
      end
      walk(make())
    end)

    rarely("never tells its key, in whatever way of writing a server quotes it", function()
      local key, header = "sk/ab+0123456789=cd", "se/cret+header&value"
      local function base64(text)
        local pipe <close> = assert(io.popen(("printf %%s %s | base64 -w0"):format(support.quote(text))))
        return pipe:read "a"
      end
      local function everyByte(text, form)
        return (text:gsub(".", function(byte) return form:format(byte:byte()) end))
      end
      local function writings(secret)
        local slashed = secret:gsub("/", "\\/")
        return {
          secret, slashed, (slashed:gsub("\\", "\\\\")), (secret:gsub("/", "\\u002f"):gsub("+", "\\u002B")),
          everyByte(secret, "\\u%04x"), everyByte(secret, "%%%02X"), everyByte(secret, "%%25%02x"),
          everyByte(secret, "&#%d;"), everyByte(secret, "&#x%X;"), everyByte(secret, "&amp;#%d;"),
          (secret:gsub("&", "&amp;"):gsub("/", "&sol;")), base64(secret), base64("a:" .. secret),
          base64("ab:" .. secret), (base64(secret):gsub("=", "%%3D")), "Bearer " .. secret,
        }
      end
      local known = { [key] = writings(key), [header] = writings(header) }
      local function check(reply, secret, options)
        script(reply)
        local all = { apiKey = key, headers = { ["X-Other"] = header }, maxRetries = 0 }
        for name, value in pairs(options or {}) do all[name] = value end
        local err = model.failure(make(all))
        for _, text in ipairs { tostring(err), err.message, err.body or "" } do
          -- Seen in any of its writings, and no piece of it.
          for _, writing in ipairs(known[secret]) do
            assert.is_nil(text:find(writing, 1, true), text)
            assert.is_nil(text:find(writing:sub(5, -5), 1, true), text)
          end
          assert.is_nil(text:find("0123456789", 1, true), text)
        end
        return err
      end
      for _, secret in ipairs { key, header } do
        for _, writing in ipairs(known[secret]) do
          local quoted = '{"error":{"message":"bad key ' .. writing .. '."}}'
          local err = check(server.json(quoted, { status = 401 }), secret)
          assert.is_truthy(err.body:find("[redacted]", 1, true), err.body)
          assert.is_truthy(err.message:find("bad key", 1, true), err.message)
          check(server.json(quoted), secret, { stream = false })
          check(server.stream { quoted }, secret)
          check({ status = 400, body = "bad key " .. writing .. "!" }, secret)
          check({ body = "bad key " .. writing, headers = { ["Content-Type"] = "text/html" } }, secret)
        end
      end
    end)

    it("tells no half of a key where a text is cut", function()
      for _, length in ipairs { 290, 4090, 65530 } do
        for shift = 0, 12, 3 do
          script { status = 400, body = ("x"):rep(length - shift) .. " " .. KEY .. ("y"):rep(100000) }
          local err = model.failure(make { maxRetries = 0 })
          assert.is_nil(err.body:find("sk-test", 1, true))
          assert.is_nil(err.message:find("sk-test", 1, true))
        end
      end
    end)

    it("takes its key out of what the model says", function()
      local function check(written)
        local text, count = provider.stream:gsub('"Hel"', '"is ' .. written .. ', Hel"')
        assert.are.equal(1, count)
        for _, size in ipairs { 1, 7, 100000 } do
          script(server.stream(text, { split = size }))
          local partials, last = model.ask(make())
          assert.are.equal("is [redacted], " .. provider.text, last.content.parts[1].text)
          local shown = table.concat(model.texts(partials))
          assert.is_nil(shown:find("0123456789", 1, true))
          assert.is_truthy(shown:find("[redacted], " .. provider.text, 1, true))
        end
      end
      check(KEY)
      check((KEY:gsub("%-", "\\u002d")))
      local whole = type(provider.whole) == "table" and moonpad.json.encode(provider.whole) or provider.whole
      script(server.json((whole:gsub('"' .. provider.text .. '"', '"is ' .. KEY .. '"'))))
      local _, last = model.ask(make { stream = false })
      assert.are.equal("is [redacted]", last.content.parts[1].text)
    end)

    it("shows what only begins like its key", function()
      for _, ending in ipairs { "s", "sk-", "sk-test-0123456789abcdefghi", "sk-test-0123456789abcdefghix" } do
        script(server.stream((provider.stream:gsub('"Hel"', '"' .. ending .. ' Hel"'):gsub('"lo ', '"' .. ending))))
        local partials, last = model.ask(make())
        assert.are.equal(ending .. " Hel" .. ending .. provider.text:sub(#"Hello " + 1), last.content.parts[1].text)
        assert.are.equal(last.content.parts[1].text, table.concat(model.texts(partials)))
      end
      -- The answer ends in the middle of what could have become the key.
      local second = provider.text:sub(#"Hel" + 1)
      local text = provider.stream:gsub('"Hel"', '""'):gsub('"' .. second .. '"', '"is sk-test-"')
      script(server.stream(text))
      local partials, last = model.ask(make())
      assert.are.equal("is sk-test-", last.content.parts[1].text)
      assert.are.equal("is sk-test-", table.concat(model.texts(partials)))
    end)

    it("leaves words alone that only stand where a key could", function()
      local instance = make { apiKey = "Hello", headers = { ["X-Title"] = provider.text } }
      script(stream())
      local _, last = model.ask(instance)
      assert.are.equal(provider.text, last.content.parts[1].text)
    end)

    it("shows only so much of a body, and no half characters", function()
      script { status = 400, body = "a" .. ("ä"):rep(40000) }
      local err = model.failure(make())
      assert.is_true(#err.body <= 4096)
      assert.is_truthy(utf8.len(err.body))
      assert.is_truthy(utf8.len(err.message))
      assert.is_true(#err.message < 1000)
    end)

    it("sends further headers", function()
      script(stream())
      model.ask(make { headers = { ["X-Trace"] = "abc" } })
      assert.are.equal("abc", web:requests()[1].headers["x-trace"])
    end)
  end)

  describe("in a run", function()
    local function runner(instance, more)
      local agent = { name = "a", model = instance }
      for key, value in pairs(more or {}) do agent[key] = value end
      local service = moonpad.open "memory:"
      return moonpad.runner { appName = "app", agent = moonpad.agent(agent), sessionService = service }, service
    end

    it("streams partial events and stores one", function()
      script(stream { split = 5 })
      local run, service = runner(make())
      local events = support.run(run, "Hi")
      local last = events[#events]
      assert.is_nil(last.partial)
      assert.are.equal(provider.text, last:text())
      for index = 1, #events - 1 do assert.is_true(events[index].partial) end
      assert.are.equal(2, #support.stored(service).events)
    end)

    rarely("takes memory in proportion to a streamed answer", function()
      local used = {}
      for index, count in ipairs { 500, 2000 } do
        local _, last = provider.stream:find('"Hel"', 1, true)
        local stop = endOfFirstText()
        local before = provider.stream:sub(1, last):match "^(.*\n\n)" or ""
        local event = provider.stream:sub(#before + 1, stop):gsub('"Hel"', '"' .. ("x"):rep(200) .. '"')
        script(server.stream(before .. event:rep(count) .. provider.stream:sub(stop + 1)))
        local run = runner(make())
        collectgarbage()
        collectgarbage "stop"
        local start = collectgarbage "count"
        for _ in run:run { userId = "u", sessionId = "s", newMessage = "Hi" } do end
        used[index] = collectgarbage "count" - start
        collectgarbage "restart"
      end
      assert.is_true(used[2] < 6 * used[1], ("%.0f KiB, %.0f KiB"):format(used[1], used[2]))
    end)

    it("stores no key that the model quotes", function()
      script(server.stream((provider.stream:gsub('"Hel"', '"is ' .. KEY .. '"'))))
      local run, service = runner(make())
      local events = support.run(run, "Hi")
      for _, event in ipairs(events) do assert.is_nil(moonpad.json.encode(event):find("0123456789", 1, true)) end
      local stored = moonpad.json.encode(support.stored(service).events[2])
      assert.is_nil(stored:find("0123456789", 1, true))
      assert.is_truthy(stored:find("is [redacted]", 1, true))
    end)

    it("waits without blocking", function()
      script(stream { held = true, split = 3, pause = 0.001 })
      -- A step that waited for the server would wait until it is given up: it answers when the
      -- steps are done.
      local run = runner(make { timeoutMs = support.TIMEOUT_MS, maxRetries = 0 })
      local invocation = run:start { userId = "u", sessionId = "s", newMessage = "Hi" }
      support.waitUntil("the request", function()
        assert.are.equal("waiting", invocation:step())
        return #web:requests() == 1
      end)
      for _ = 1, 5 do assert.are.equal("waiting", invocation:step()) end
      web:release()
      local text, event
      repeat
        event = invocation:step()
        if event == "waiting" then
          http.poll(0.05)
        elseif event and not event.partial then
          text = event:text()
        end
      until event == nil
      assert.are.equal(provider.text, text)
    end)

    it("can be cancelled, which closes the connection", function()
      script { hang = true }
      local run, service = runner(make())
      local invocation = run:start { userId = "u", sessionId = "s", newMessage = "Hi" }
      while #web:requests() == 0 do assert.are.equal("waiting", invocation:step()) end
      invocation:cancel()
      assert.is_nil(invocation:step())
      support.waitUntil("the end of the connection", function() return web:requests()[1].closed end)
      assert.are.equal(1, #support.stored(service).events)
    end)

    it("hands its error to the caller, or to a callback", function()
      script(server.json(provider.failure, { status = 400 }))
      local ok, err = pcall(support.run, (runner(make())), "Hi")
      assert.are.same({ false, "model", 400 }, { ok, err.code, err.status })
      local function rescue(_, _, problem) return "caught " .. problem.status end
      local run = runner(make(), { onModelErrorCallback = rescue })
      local events = support.run(run, "Hi")
      assert.are.equal("caught 400", events[#events]:text())
    end)
  end)

  describe("options", function()
    local function refused(options)
      local ok, err = pcall(provider.new, options)
      assert.is_false(ok)
      assert.are.equal("invalid_argument", err.code)
      assert.is_nil(err.message:find("secret", 1, true))
      return err.message
    end

    it("are checked", function()
      assert.is_truthy(refused({ model = "m", apikey = "x" }):find("apiKey", 1, true))
      refused {}
      refused { model = "", apiKey = "k" }
      refused { model = "m", apiKey = "secret\r\nX: y" }
      refused { model = "m", apiKey = "" }
      refused { model = "m", apiKey = "k", baseUrl = "localhost:1234" }
      refused { model = "m", apiKey = "k", baseUrl = "http://user:secret@localhost" }
      refused { model = "m", apiKey = "k", maxRetries = -1 }
      refused { model = "m", apiKey = "k", stream = "yes" }
      refused(nil)
    end)

    it("include settings of the agent, which are checked too", function()
      for config, message in pairs {
        [{ temprature = 1 }] = "did you mean temperature", [{ temperature = "hot" }] = "expected a number",
        [{ extra = 1 }] = "expected a table",
      } do
        local err = model.failure(make(), model.say("Hi", { config = config }))
        assert.are.equal("invalid_argument", err.code)
        assert.is_truthy(err.message:find(message, 1, true))
      end
    end)
  end)
end

return model
