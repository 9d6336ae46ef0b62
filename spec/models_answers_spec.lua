-- Answers of providers with one field changed, each in turn: what the API does not allow is an
-- error `model` that names the field, and nothing else changes what an answer says.
local checks = require "spec.support.checks"
local core = require "moonpad.core"
local model = require "spec.support.model"
local moonpad = require "moonpad"
local server = require "spec.support.http"
local support = require "spec.support"

local NULL = moonpad.null

local function object(text)
  return moonpad.json.decode(text)
end

-- As they were recorded. `adapter`: default: the name; `options`: of the model. `free`: below
-- these, anything is allowed. `lenient`: that is understood as well.
local PROVIDERS = {
  openai = {
    paths = { "/chat/completions", "/chat/completions" },
    free = { "logprobs" },
    lenient = { "arguments", 'content = "x"' },
    whole = object [[{
      "id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "m-1",
      "choices": [{ "index": 0, "finish_reason": "tool_calls", "logprobs": null, "message": {
        "role": "assistant", "reasoning_content": "Hm", "content": "See:", "refusal": null,
        "tool_calls": [
          { "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{\"a\":1}" } },
          { "id": "c2", "type": "function", "function": { "name": "f", "arguments": "{}" } }] } }],
      "usage": { "prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29,
        "prompt_tokens_details": { "cached_tokens": 5 }, "completion_tokens_details": { "reasoning_tokens": 3 } } }]],
    stream = {
      object [[{ "id": "c", "model": "m-1", "choices": [{ "index": 0, "finish_reason": null,
        "delta": { "role": "assistant", "content": "", "reasoning": "Hm" } }] }]],
      object [[{ "id": "c", "model": "m-1", "choices": [{ "index": 0, "delta": { "content": "See:" } }] }]],
      object [[{ "id": "c", "choices": [{ "index": 0, "delta": { "content": [{ "type": "text", "text": " it" },
        { "type": "thinking", "thinking": [{ "type": "text", "text": "so" }] }] } }] }]],
      object [[{ "id": "c", "choices": [{ "index": 0, "delta": { "tool_calls": [
        { "index": 0, "id": "c1", "type": "function", "function": { "name": "f", "arguments": "" } }] } }] }]],
      object [[{ "id": "c", "choices": [{ "index": 0, "delta": { "tool_calls": [
        { "index": 0, "function": { "arguments": "{\"a\":1}" } }] } }] }]],
      object [[{ "id": "c", "choices": [{ "index": 0, "finish_reason": "tool_calls",
        "delta": { "refusal": "No." } }] }]],
      object [[{ "id": "c", "choices": [], "usage": { "prompt_tokens": 19, "completion_tokens": 10, "total_tokens": 29,
        "prompt_cache_hit_tokens": 2 } }]],
    },
    ending = "data: [DONE]\n\n",
    last = '{"choices":[{"index":0,"delta":{"content":"Done"},"finish_reason":"stop"}]}',
  },
  ["openai's responses"] = {
    adapter = "openai", options = { api = "responses" },
    paths = { "/responses", "/responses" },
    -- What is sent back as it came, and citations.
    free = { "action", "annotations", "id", "summary" },
    lenient = { 'type = "x"', 'status = "x"' },
    whole = object [[{
      "id": "resp_1", "object": "response", "created_at": 1700000000, "status": "completed", "error": null,
      "incomplete_details": null, "model": "m-1", "output": [
        { "id": "rs_1", "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Hm" }],
          "encrypted_content": "gAAAA" },
        { "id": "ws_1", "type": "web_search_call",
          "action": { "type": "search", "query": "x" } },
        { "id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "phase": "commentary",
          "content": [{ "type": "output_text", "text": "See:", "logprobs": [], "annotations": [
            { "type": "url_citation", "url": "https://x", "title": "X", "start_index": 0, "end_index": 3 }] }] },
        { "id": "fc_1", "type": "function_call", "status": "completed", "call_id": "c1", "name": "f",
          "arguments": "{\"a\":1}" },
        { "id": "fc_2", "type": "function_call", "status": "completed", "call_id": "c2", "name": "f",
          "arguments": "{}" }],
      "usage": { "input_tokens": 19, "output_tokens": 10, "total_tokens": 29,
        "input_tokens_details": { "cached_tokens": 5 }, "output_tokens_details": { "reasoning_tokens": 3 } } }]],
    stream = {
      object [[{ "type": "response.created",
        "response": { "id": "resp_1", "model": "m-1", "status": "in_progress" } }]],
      object [[{ "type": "response.output_item.added", "output_index": 0,
        "item": { "id": "rs_1", "type": "reasoning", "summary": [] } }]],
      object [[{ "type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 0,
        "delta": "Hm" }]],
      object [[{ "type": "response.reasoning_summary_text.delta", "output_index": 0, "summary_index": 1,
        "delta": "So" }]],
      object [[{ "type": "response.output_item.done", "output_index": 0,
        "item": { "id": "rs_1", "type": "reasoning", "summary": [{ "type": "summary_text", "text": "Hm" },
          { "type": "summary_text", "text": "So" }], "encrypted_content": "gAAAA" } }]],
      object [[{ "type": "response.output_item.added", "output_index": 1,
        "item": { "id": "msg_1", "type": "message", "content": [], "role": "assistant" } }]],
      object [[{ "type": "response.output_text.delta", "output_index": 1, "content_index": 0, "delta": "See:" }]],
      object [[{ "type": "response.refusal.delta", "output_index": 1, "content_index": 1, "delta": "No." }]],
      object [[{ "type": "response.output_item.done", "output_index": 1,
        "item": { "id": "msg_1", "type": "message", "role": "assistant", "phase": "commentary", "content": [
          { "type": "output_text", "text": "See:", "annotations": [] }, { "type": "refusal", "refusal": "No." }] } }]],
      object [[{ "type": "response.output_item.added", "output_index": 2,
        "item": { "id": "fc_1", "type": "function_call", "call_id": "c1", "name": "f", "arguments": "" } }]],
      object [[{ "type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{\"a\":1}" }]],
      object [[{ "type": "response.output_item.done", "output_index": 2,
        "item": { "id": "fc_1", "type": "function_call", "call_id": "c1", "name": "f", "status": "completed",
          "arguments": "{\"a\":1}" } }]],
      object [[{ "type": "response.incomplete", "response": { "id": "resp_1", "model": "m-1", "status": "incomplete",
        "incomplete_details": { "reason": "max_output_tokens" }, "output": [], "usage": { "input_tokens": 19 } } }]],
    },
    ending = "",
    last = '{"status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"Done"}]}]}',
  },
  gemini = {
    paths = { "/models/m:streamGenerateContent?alt=sse", "/models/m:generateContent" },
    free = { "args", "groundingMetadata", "citationMetadata", "response" },
    lenient = {},
    whole = object [[{
      "candidates": [{ "index": 0, "finishReason": "STOP", "finishMessage": "fine",
        "groundingMetadata": { "webSearchQueries": ["x"] }, "citationMetadata": { "citationSources": [] },
        "content": { "role": "model", "parts": [
          { "text": "Hm", "thought": true, "thoughtSignature": "s1" }, { "text": "See:" },
          { "inlineData": { "mimeType": "image/png", "data": "AAAA", "displayName": "x" } },
          { "fileData": { "mimeType": "image/png", "fileUri": "https://x/y.png" } },
          { "executableCode": { "language": "PYTHON", "code": "1" } },
          { "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1" } },
          { "functionCall": { "id": "c1", "name": "f", "args": { "a": 1 } }, "thoughtSignature": "s2" }] } }],
      "usageMetadata": { "promptTokenCount": 4, "candidatesTokenCount": 5, "totalTokenCount": 12,
        "thoughtsTokenCount": 3, "cachedContentTokenCount": 1, "toolUsePromptTokenCount": 1,
        "promptTokensDetails": [{ "modality": "TEXT", "tokenCount": 4 }] },
      "modelVersion": "g-1", "responseId": "r" }]],
    stream = {
      object [[{ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "Hm", "thought": true }] } }],
        "modelVersion": "g-1" }]],
      object [[{ "candidates": [{ "content": { "role": "model", "parts": [{ "text": "See:" }] } }] }]],
      object [[{ "candidates": [{ "content": { "parts": [{ "functionCall": { "name": "f", "args": { "a": 1 } } }] },
        "finishReason": "STOP" }], "usageMetadata": { "promptTokenCount": 4 } }]],
    },
    blocked = object [[{ "promptFeedback": { "blockReason": "SAFETY", "blockReasonMessage": "no" } }]],
    ending = "",
    last = '{"candidates":[{"content":{"role":"model","parts":[{"text":"Done"}]},"finishReason":"STOP"}]}',
  },
  anthropic = {
    paths = { "/messages", "/messages" },
    free = { "input", "citation" },
    lenient = {},
    whole = object [[{
      "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-1", "stop_reason": "tool_use",
      "stop_sequence": null, "content": [
        { "type": "thinking", "thinking": "Hm", "signature": "s" }, { "type": "redacted_thinking", "data": "xyz" },
        { "type": "text", "text": "See:" }, { "type": "tool_use", "id": "c1", "name": "f", "input": { "a": 1 } }],
      "usage": { "input_tokens": 20, "output_tokens": 15, "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 2, "service_tier": "standard" } }]],
    stream = {
      object [[{ "type": "message_start", "message": { "id": "msg_1", "type": "message", "role": "assistant",
        "content": [], "model": "claude-1", "usage": { "input_tokens": 20, "output_tokens": 1 } } }]],
      object [[{ "type": "content_block_start", "index": 0,
        "content_block": { "type": "thinking", "thinking": "", "signature": "" } }]],
      object [[{ "type": "content_block_delta", "index": 0,
        "delta": { "type": "thinking_delta", "thinking": "Hm" } }]],
      object [[{ "type": "content_block_delta", "index": 0,
        "delta": { "type": "signature_delta", "signature": "s" } }]],
      object [[{ "type": "content_block_stop", "index": 0 }]],
      object [[{ "type": "content_block_start", "index": 1,
        "content_block": { "type": "redacted_thinking", "data": "xyz" } }]],
      object [[{ "type": "content_block_start", "index": 2, "content_block": { "type": "text", "text": "" } }]],
      object [[{ "type": "ping" }]],
      object [[{ "type": "content_block_delta", "index": 2, "delta": { "type": "text_delta", "text": "See:" } }]],
      object [[{ "type": "content_block_delta", "index": 2,
        "delta": { "type": "citations_delta", "citation": { "cited_text": "x" } } }]],
      object [[{ "type": "content_block_start", "index": 3,
        "content_block": { "type": "tool_use", "id": "c1", "name": "f", "input": {} } }]],
      object [[{ "type": "content_block_delta", "index": 3,
        "delta": { "type": "input_json_delta", "partial_json": "{\"a\":1}" } }]],
      object [[{ "type": "message_delta", "delta": { "stop_reason": "tool_use", "stop_sequence": null },
        "usage": { "output_tokens": 15 } }]],
      object [[{ "type": "message_stop" }]],
    },
    ending = "",
    last = '{"type":"message","content":[{"type":"text","text":"Done"}],"stop_reason":"end_turn"}',
  },
}

local function contains(list, item)
  for _, candidate in ipairs(list) do
    if candidate == item then return true end
  end
  return false
end

-- What may stand in the place of a value and is of another type. A list is told apart from an
-- object by what is in it.
local function wrongValues(value)
  if type(value) == "string" then return { 7, true, { a = 1 }, { "x" } } end
  if type(value) == "number" then return { "x", true, { a = 1 }, { 7 } } end
  if type(value) == "boolean" then return { "x", 7, { a = 1 } } end
  if value == NULL then return {} end
  return value[1] ~= nil and { "x", 7, true, { a = 1 }, { 7 } } or { "x", 7, true, { "x" } }
end

-- Calls visit(object, key, name of the key, whether anything goes) for each field, at every depth,
-- in a fixed order.
local function walk(value, provider, visit, isFree)
  local keys = {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local inside = isFree or contains(provider.free, key)
    visit(value, key, inside)
    if type(value[key]) == "table" then walk(value[key], provider, visit, inside) end
  end
end

for name, provider in pairs(PROVIDERS) do
  describe("an answer of " .. name, function()
    local web
    local adapter = provider.adapter or name
    setup(function() web = server.start() end)
    teardown(function() web:stop() end)

    local function make(isStream)
      local options = { model = "m", apiKey = "test-key", baseUrl = web.url, stream = isStream }
      for key, value in pairs(provider.options or {}) do options[key] = value end
      return moonpad.models[adapter](options)
    end

    local function replyOf(list, isStream)
      if not isStream then return server.json(list[1]) end
      local events = {}
      for index, event in ipairs(list) do events[index] = "data: " .. moonpad.json.encode(event) .. "\n\n" end
      return server.stream(table.concat(events) .. provider.ending)
    end

    local function isRight(err)
      return core.isError(err) and err.code == "model" and err.provider == adapter
        and err.message:find(('^%s "m": '):format(adapter)) ~= nil
    end

    -- What the answer says, and whether it failed. Both are as they should be, alone and in a run.
    local function ask(list, isStream)
      local path = provider.paths[isStream and 1 or 2]
      web:script { [path] = replyOf(list, isStream) }
      local ok, _, last = pcall(model.ask, make(isStream))
      local err = not ok and _ or nil
      assert(ok or isRight(err), ("not an error of the model: %s"):format(tostring(err)))
      web:script { [path] = { replyOf(list, isStream), server.json(provider.last) } }
      local service <close> = moonpad.open "memory:"
      local agent = moonpad.agent {
        name = "a", model = make(isStream), tools = { { name = "f", run = function() return 1 end } },
      }
      local runner = moonpad.runner { appName = "app", agent = agent, sessionService = service }
      local ran, problem = pcall(support.run, runner, "Hi")
      assert(ran or isRight(problem), ("not an error of the model in a run: %s"):format(tostring(problem)))
      assert.are.equal(ok, ran)
      return err, last
    end

    local isChosen = checks.chooser()

    -- Each field in turn has each of the values that `choices` gives for it.
    local function withChanges(list, isStream, choices, check)
      for _, item in ipairs(list) do
        walk(item, provider, function(parent, key, isFree)
          local before = parent[key]
          for _, value in ipairs(choices(before)) do
            if isChosen() then
              local label = ("%s = %s"):format(key, moonpad.json.encode(value))
              parent[key] = value
              local done, problem = pcall(function()
                local err, last = ask(list, isStream)
                check {
                  parent = parent, key = key, name = tostring(key), isFree = isFree, label = label,
                  err = err, last = last,
                }
              end)
              parent[key] = before
              assert(done, label .. ": " .. tostring(problem))
            end
          end
        end)
      end
    end

    local KINDS = { { "whole", { provider.whole }, false }, { "streamed", provider.stream, true } }
    if provider.blocked then KINDS[#KINDS + 1] = { "blocked", { provider.blocked }, false } end

    for _, kind in ipairs(KINDS) do
      local what, list, isStream = table.unpack(kind)

      it(what .. " is understood as it was recorded", function()
        local err, last = ask(list, isStream)
        assert.is_nil(err)
        assert.is_truthy(last.errorCode or #last.content.parts > 1)
      end)

      it(what .. ": a field of another type is an error that names it, or nothing that anybody reads", function()
        local _, expected = ask(list, isStream)
        withChanges(list, isStream, wrongValues, function(case)
          local isLenient = contains(provider.lenient, case.name) or contains(provider.lenient, case.label)
          if case.isFree or isLenient then return end
          if case.err then
            local field = case.name:find "^%d+$" and "[" .. case.name .. "]" or case.name
            assert(case.err.message:find(field, 1, true), case.label .. ": " .. case.err.message)
            assert(case.err.message:find("expected", 1, true), case.label .. ": " .. case.err.message)
          else
            assert.are.same(expected, case.last, case.label)
          end
        end)
      end)

      it(what .. ": a field that is missing, or null, is no other failure", function()
        withChanges(list, isStream, function() return { NULL } end, function(case)
          if case.isFree or type(case.key) == "number" then return end
          -- A null and no field at all are the same to the adapters.
          case.parent[case.key] = nil
          local err, last = ask(list, isStream)
          assert.are.equal(case.err and case.err.message, err and err.message)
          assert.are.same(case.last, last)
        end)
      end)
    end
  end)
end
