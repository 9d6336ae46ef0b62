-- The makers of parts, and the places that take a part or a list of parts without a Content
-- around it.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"

local raises = checks.raises

local function cyclic()
  local value = {}
  value.value = value
  return value
end

describe("moonpad.text", function()
  it("makes a part of a text", function()
    assert.same({ text = "100 %" }, moonpad.text "100 %")
    assert.same({ text = "" }, moonpad.text "")
    assert.same({ text = "a\0b" }, moonpad.text "a\0b")
  end)

  it("formats the text where there are more arguments", function()
    assert.same({ text = "2 teas for Ann" }, moonpad.text("%d teas for %s", 2, "Ann"))
    assert.same({ text = 'cart: {"a":1}' }, moonpad.text("cart: %s", moonpad.state({ cart = { a = 1 } }).cart))
    assert.same({ text = "nil" }, moonpad.text("%s", nil))
    raises("invalid_argument", { "moonpad.text: ", "number expected" }, moonpad.text, "%d", "x")
    raises("invalid_argument", "moonpad.text: ", moonpad.text, "%y", 1)
    local hostile = setmetatable({}, { __tostring = function() error("oops", 0) end })
    raises("invalid_argument", "oops", moonpad.text, "%s", hostile)
    raises("invalid_argument", "not valid UTF-8 (byte 1)", moonpad.text, "%s", "\xFF")
  end)

  it("takes valid UTF-8 alone", function()
    raises("invalid_argument", "moonpad.text: the string is not valid UTF-8 (byte 3)", moonpad.text, "ab\xFF")
    for _, value in ipairs { 5, true, {}, print, moonpad.null } do
      raises("invalid_argument", "moonpad.text: expected a string, got", moonpad.text, value)
    end
    raises("invalid_argument", "got nil", moonpad.text)
    raises("invalid_argument", "call its functions with a dot", moonpad.text, moonpad, "x")
  end)
end)

describe("moonpad.functionCall", function()
  it("makes a part that calls a function", function()
    assert.same({ functionCall = { name = "order", args = { drink = "tea" } } },
      moonpad.functionCall("order", { drink = "tea" }))
    assert.same({ functionCall = { name = "order", args = {}, id = "c1" } }, moonpad.functionCall("order", nil, "c1"))
  end)

  it("copies the arguments, what a state holds included", function()
    local args = { list = { 1 }, none = moonpad.null, empty = moonpad.array {} }
    local part = moonpad.functionCall("f", args)
    args.list[1] = 2
    assert.equal('{"empty":[],"list":[1],"none":null}', moonpad.json.encode(part.functionCall.args))
    local state = moonpad.state { cart = { tea = 2 } }
    assert.same({ tea = 2 }, moonpad.functionCall("f", state.cart).functionCall.args)
    assert.same({ cart = { tea = 2 } }, moonpad.functionCall("f", { cart = state.cart }).functionCall.args)
  end)

  it("names what is wrong", function()
    local call = moonpad.functionCall
    for _, name in ipairs { 5, "", {}, moonpad.null } do
      raises("invalid_argument", "moonpad.functionCall: name: expected a non-empty string, got ", call, name, {})
    end
    raises("invalid_argument", "name: the string is not valid UTF-8", call, "\xFF")
    raises("invalid_argument", "args: expected a table of named values, got string", call, "f", "tea")
    raises("invalid_argument", "args: expected a table of named values, got null", call, "f", moonpad.null)
    raises("invalid_argument", "args: expected a table of named values, got a list", call, "f", { "tea" })
    raises("invalid_argument", "args: expected a table of named values, got a list", call, "f", moonpad.array {})
    raises("invalid_argument", "args.drink: a function", call, "f", { drink = print })
    raises("invalid_argument", "moonpad.functionCall: args", call, "f", cyclic())
    raises("invalid_argument", "moonpad.functionCall: args", call, "f", { "x", y = 1 })
    raises("invalid_argument", "moonpad.functionCall: args", call, "f", { text = "\xFF" })
    raises("invalid_argument", "id: expected a non-empty string, got number", call, "f", {}, 5)
    raises("invalid_argument", "call its functions with a dot", call, moonpad, "f", {})
  end)
end)

describe("moonpad.functionResponse", function()
  it("answers a call, or the part that holds it", function()
    local call = { name = "order", id = "c1", args = {} }
    local part = { functionResponse = { name = "order", id = "c1", response = { price = 3 } } }
    assert.same(part, moonpad.functionResponse(call, { price = 3 }))
    assert.same(part, moonpad.functionResponse({ functionCall = call }, { price = 3 }))
    assert.same({ functionResponse = { name = "f", response = { a = 1 } } },
      moonpad.functionResponse(moonpad.functionCall "f", { a = 1 }))
  end)

  it("wraps what is no table of named values, as the answers of tools are", function()
    local function answer(value)
      return moonpad.json.encode(moonpad.functionResponse({ name = "f" }, value).functionResponse.response)
    end
    assert.equal('{"result":"ok"}', answer "ok")
    assert.equal('{"result":false}', answer(false))
    assert.equal('{"result":null}', answer(nil))
    assert.equal('{"result":null}', answer(moonpad.null))
    assert.equal('{"result":[1,2]}', answer { 1, 2 })
    assert.equal('{"result":[]}', answer(moonpad.array {}))
    assert.equal("{}", answer {})
    assert.equal('{"result":[1]}', answer(moonpad.state({ list = { 1 } }).list))
  end)

  it("names what is wrong", function()
    local answer = moonpad.functionResponse
    for _, call in ipairs { 5, "order", moonpad.null, print } do
      raises("invalid_argument", "moonpad.functionResponse: expected a function call ({ name, id }), got", answer,
        call)
    end
    raises("invalid_argument", "call.name: expected a non-empty string, got nil", answer, {}, "x")
    raises("invalid_argument", "call.id: expected a non-empty string, got number", answer, { name = "f", id = 1 }, "x")
    raises("invalid_argument", "response.f: a function", answer, { name = "f" }, { f = print })
    raises("invalid_argument", "moonpad.functionResponse: response", answer, { name = "f" }, cyclic())
    raises("invalid_argument", "call its functions with a dot", answer, moonpad, { name = "f" })
  end)
end)

describe("moonpad.inlineData", function()
  it("makes a part of bytes, which become base64", function()
    assert.same({ inlineData = { mimeType = "image/png", data = "AP8=" } }, moonpad.inlineData("image/png", "\0\xFF"))
    assert.same({ inlineData = { mimeType = "text/csv; charset=utf-8", data = "", displayName = "ä.csv" } },
      moonpad.inlineData("text/csv; charset=utf-8", "", "ä.csv"))
  end)

  it("names what is wrong", function()
    local data = moonpad.inlineData
    for _, mimeType in ipairs { 5, "", {} } do
      raises("invalid_argument", "moonpad.inlineData: mimeType: expected a non-empty string", data, mimeType, "")
    end
    raises("invalid_argument", 'mimeType: expected one like "image/png", got "png"', data, "png", "")
    raises("invalid_argument", "bytes: expected a string of bytes, got table", data, "image/png", {})
    raises("invalid_argument", "bytes: expected a string of bytes, got nil", data, "image/png")
    raises("invalid_argument", "displayName: the string is not valid UTF-8", data, "image/png", "", "\xFF")
    raises("invalid_argument", "call its functions with a dot", data, moonpad, "image/png", "")
  end)
end)

describe("a part, or a list of parts,", function()
  local service
  before_each(function() service = moonpad.open "memory:" end)
  after_each(function() service:close() end)

  local order = { name = "order", run = function(args) return { ordered = args.drink } end }

  local function run(fields, options, plugins)
    local definition = { name = "A", tools = { order }, model = "gpt-none" }
    for name, value in pairs(fields) do definition[name] = value end
    local runner = moonpad.runner {
      appName = "app", agent = moonpad.agent(definition), sessionService = service, plugins = plugins,
    }
    return support.run(runner, options or "go")
  end

  -- A model whose first answer is given.
  local function first(answer)
    return moonpad.models.scripted { answer, "done" }
  end

  -- What a list of chunks gives one after the other.
  local function stream(chunks)
    local index = 0
    return function()
      index = index + 1
      return chunks[index]
    end
  end

  it("is an answer of a model, a scripted one included", function()
    local tea = { name = "order", args = { drink = "tea" } }
    for _, answer in ipairs {
      moonpad.functionCall("order", { drink = "tea" }),
      { moonpad.functionCall("order", { drink = "tea" }) },
      { content = moonpad.functionCall("order", { drink = "tea" }) },
      { content = { moonpad.functionCall("order", { drink = "tea" }) } },
    } do
      for _, model in ipairs { first(answer), false } do
        local isAsked = false
        local events = run { model = model or function()
          isAsked = not isAsked
          return isAsked and answer or "done"
        end }
        local call = events[1]:functionCalls()[1]
        assert.is_string(call.id)
        call.id = nil
        assert.same(tea, call)
        assert.same({ "model", "A" }, { events[1].content.role, events[1].author })
        assert.same({ ordered = "tea" }, events[2]:functionResponses()[1].response)
        assert.equal("done", events[3]:text())
      end
    end
  end)

  it("may be texts and calls together, and texts without a table", function()
    local events = run { model = first { "One moment. ", moonpad.text("%d tea", 1), moonpad.functionCall "order" } }
    assert.equal("One moment. 1 tea", events[1]:text())
    assert.equal(1, #events[1]:functionCalls())
  end)

  it("is a piece of a stream, which is put together at its end", function()
    local events = run { model = first(function()
      return stream { moonpad.text "Let ", "me ", { moonpad.text "see", "." }, moonpad.functionCall "order" }
    end) }
    local partial = {}
    for _, event in ipairs(events) do
      if event.partial then partial[#partial + 1] = event:text() end
    end
    assert.same({ "Let ", "me ", "see.", "" }, partial)
    assert.equal("Let me see.", events[5]:text())
    assert.equal(1, #events[5]:functionCalls())
    assert.equal("order", events[6]:functionResponses()[1].name)
    assert.equal("done", events[7]:text())
  end)

  it("is an answer of each callback that may answer a model", function()
    local hooks = { "beforeModelCallback", "afterModelCallback", "beforeAgentCallback", "onModelErrorCallback" }
    for _, hook in ipairs(hooks) do
      for _, answer in ipairs { moonpad.text "instead", { moonpad.text "in", "stead" } } do
        local events = run { [hook] = function() return answer end, model = function()
          if hook == "onModelErrorCallback" then error "oops" end
          return "model"
        end }
        assert.equal("instead", events[1]:text())
        assert.equal(1, #events)
      end
    end
    local events = run { model = first "model", afterAgentCallback = function() return moonpad.text "after" end }
    assert.same({ "model", "after" }, { events[1]:text(), events[2]:text() })
  end)

  it("is an answer of each hook of a plugin that may answer one", function()
    for hook, expected in pairs {
      beforeRun = { "answer" }, afterRun = { "model", "answer" }, onEvent = { "answer" }, onUserMessage = { "model" },
    } do
      local events = run({ model = first "model" }, nil, { { [hook] = function() return moonpad.text "answer" end } })
      local texts = {}
      for index, event in ipairs(events) do texts[index] = event:text() end
      assert.same(expected, texts)
      local stored = support.stored(service).events
      local message = stored[#stored - 1]
      if hook == "onUserMessage" then assert.same({ "user", "answer" }, { message.author, message:text() }) end
      service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
    end
  end)

  it("is a new message", function()
    local picture = moonpad.inlineData("image/png", "\0")
    for _, message in ipairs { picture, { "What is that?", picture } } do
      run({ model = first "a dot" }, { userId = "u", sessionId = "s", newMessage = message })
      local stored = support.stored(service).events
      local content = stored[#stored - 1].content
      assert.equal("user", content.role)
      assert.same(picture, content.parts[#content.parts])
    end
    raises("invalid_argument", { "newMessage.parts[1]", "a user cannot call functions" }, run, {}, {
      userId = "u", newMessage = { moonpad.functionCall "order" },
    })
  end)

  it("is what a custom agent emits, and the content of an event that it emits", function()
    local runner = moonpad.runner { appName = "app", sessionService = service, agent = moonpad.customAgent {
      name = "C", run = function(context)
        context:emit(moonpad.text "one")
        context:emit { "t", moonpad.text "wo" }
        context:emit { content = moonpad.text "three", customMetadata = { n = 3 } }
      end,
    } }
    local events = support.run(runner, "go")
    assert.same({ "one", "two", "three" }, { events[1]:text(), events[2]:text(), events[3]:text() })
    assert.same({ n = 3 }, events[3].customMetadata)
  end)

  it("is copied: what its owner does to it later changes nothing", function()
    local part = moonpad.text "before"
    local events = run { model = first(part) }
    part.text = "after"
    assert.equal("before", support.stored(service).events[2]:text())
    assert.equal("before", events[1]:text())
  end)

  it("may hold JSON nulls, which are absent", function()
    local null = moonpad.null
    local events = run { model = first { text = "hi", thought = null, functionCall = null, finishReason = null } }
    assert.same({ { text = "hi" } }, events[1].content.parts)
    events = run { model = first { { text = null }, { text = "ho", inlineData = null } } }
    assert.same({ { text = "ho" } }, events[1].content.parts)
  end)

  it("that is misspelt is refused, with the nearest name", function()
    for answer, message in pairs {
      [{ functionCal = { name = "order" } }] = "functionCal: unknown field, did you mean functionCall?",
      [{ function_call = { name = "order" } }] = "function_call: unknown field, did you mean functionCall?",
      [{ txt = "hi" }] = "txt: unknown field, did you mean text?",
      [{ text = "hi", finishReason = "STOP" }] = "text: unknown field (known: content",
      [{ text = "hi", thougt = true }] = "thougt: unknown field, did you mean thought?",
      [{ { functionCal = {} } }] = "[1]: functionCal: unknown field, did you mean functionCall?",
      [{ "hi", { thought = true } }] = "[2]: expected a part with one of text, functionCall",
      [{ { parts = { { text = "hi" } } } }] = "[1]: parts: unknown field",
      [{ "hi", 5 }] = "[2]: a part is a table, not a number",
      [{ moonpad.text "hi", role = "model" }] = 'expected a list of parts, got a table with the key "role"',
      [{ text = 5 }] = "text: expected a string, got number",
      [{ functionCall = "order" }] = "functionCall: expected a table, got string",
      [{ functionCall = { name = 5 } }] = "functionCall.name: expected a string, got number",
      [{ content = { functionCal = {} } }] = "content: functionCal: unknown field, did you mean functionCall?",
      [{ content = { txt = "hi" } }] = "content: txt: unknown field, did you mean text?",
    } do
      raises("model", { 'agent "A": the model\'s answer', message }, run, { model = first(answer) })
      raises("model", { 'agent "A": a chunk of the model\'s answer', message }, run,
        { model = first(function() return stream { answer } end) })
      raises("invalid_argument", { 'agent "A": beforeModelCallback', message }, run,
        { beforeModelCallback = function() return answer end })
    end
  end)

  it("that is misspelt is no message either", function()
    for message, problem in pairs {
      [{ functionRespons = {} }] = "newMessage: functionRespons: unknown field, did you mean functionResponse?",
      [{ part = {} }] = "newMessage: part: unknown field, did you mean parts?",
      [{ { txt = "hi" } }] = "newMessage[1]: txt: unknown field, did you mean text?",
      [{}] = "newMessage: expected a string, a part, a list of parts or a Content ({ role, parts }), got a table",
      [{ role = "user" }] = "newMessage: expected a string, a part, a list of parts or a Content",
      [5] = "newMessage: expected a string, a part, a list of parts or a Content ({ role, parts }), got a number",
      [cyclic()] = "newMessage",
      [{ text = "\xFF" }] = "newMessage.parts[1].text: the string is not valid UTF-8",
    } do
      raises("invalid_argument", problem, run, {}, { userId = "u", newMessage = message })
    end
  end)
end)
