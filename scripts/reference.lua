-- Prints docs/reference.md: every table and function that users can reach, made of the annotations
-- for editors.
--   lua5.4 scripts/reference.lua > docs/reference.md      (make reference)
local annotations = dofile "scripts/annotations.lua"

local WIDTH <const> = 118

-- Each heading with the classes and aliases below it. What users can reach and is in none of them
-- is an error.
local GROUPS = {
  { "The module", "moonpad", "StatePrefix" },
  { "Services and sessions", "Config", "Service", "SessionName", "CreateOptions", "GetOptions", "ListOptions",
    "ImportOptions", "Session", "Events", "PendingAppend", "Swept" },
  { "State", "State", "Node", "Value" },
  { "Events", "Event", "Actions", "Content", "ContentLike", "Part", "FunctionCall", "FunctionResponse", "Blob",
    "UsageMetadata" },
  { "Agents", "AgentDefinition", "Instruction", "WorkflowDefinition", "LoopDefinition", "CustomDefinition", "Agent",
    "Context", "SessionView" },
  { "Callbacks and plugins", "BeforeAgentCallback", "AfterAgentCallback", "BeforeModelCallback", "AfterModelCallback",
    "OnModelErrorCallback", "BeforeToolCallback", "AfterToolCallback", "OnToolErrorCallback", "OnUserMessage", "OnRun",
    "OnEvent", "Plugin", "Plugins", "LoggingOptions", "ReflectAndRetryToolOptions" },
  { "Tools", "ToolDefinition", "ToolFunction", "AgentToolDefinition", "Tool", "Toolset", "ToolConfirmation" },
  { "Runs", "RunnerDefinition", "Runner", "RunOptions", "Invocation", "SummarizerDefinition", "Summarizer" },
  { "Models", "ModelLike", "ModelFunction", "Model", "ModelConfig", "Request", "Response", "ResponseLike", "Models",
    "ModelOptions", "HttpModel", "ScriptedModel", "ScriptedReply", "ScriptStep" },
  { "MCP", "McpOptions", "McpToolset", "McpPrompt", "McpResource" },
  { "Serving", "ServerOptions", "ServerLimits", "ServerRequest", "Server" },
  { "Tracing", "Tracing", "Tracer", "Span", "SpanContents", "KeptSpan", "MemoryTracerOptions", "MemoryTracer",
    "FileTracerOptions", "FileTracer", "OtlpOptions", "OtlpTracer" },
  { "HTTP", "Http", "HttpOptions", "HttpJob", "HttpRetry" },
  { "Artifacts and memory", "ServiceConfig", "ArtifactServiceConfig", "MemoryServiceConfig", "ArtifactService",
    "ArtifactScope", "ArtifactName", "ArtifactVersion", "ArtifactToSave", "ArtifactPart", "MemoryService",
    "MemoryQuery", "Memory" },
  { "Testing", "Testing", "TestStep", "TestExpectation", "CallTool", "ToolContextLike", "ToolContextOptions",
    "TestRunOptions", "TestRun", "ToolError", "EvaluationOptions", "EvaluationCase", "EvaluationTurn", "Expectation",
    "ExpectedAnswer", "ExpectedToolCall", "EvaluatedTurn", "Evaluation", "CaseResult", "Clock" },
  { "JSON, base64, errors", "Json", "Base64", "Error", "ErrorCode" },
}

---- Lines

local function emit(text)
  io.write(text, "\n")
end

-- Words that go on in a new line, with what stands in front of the first and of all others.
local function emitWrapped(text, first, rest)
  local line, isEmpty = first, true
  for word in text:gmatch "%S+" do
    if not isEmpty and utf8.len(line) + 1 + utf8.len(word) > WIDTH then
      emit(line)
      line, isEmpty = rest, true
    end
    line = line .. (isEmpty and "" or " ") .. word
    isEmpty = false
  end
  emit(line)
end

local function anchor(heading)
  return (heading:lower():gsub("[^%w%s_-]", ""):gsub("%s", "-"))
end

local function sentence(text)
  if text == "" or text:find "[.:]$" then return text end
  return text .. "."
end

-- A line of an alias, and types with "[]", stay what they are; `moonpad.` is everywhere.
local function short(kind)
  return (kind:gsub("moonpad%.(%u)", "%1"))
end

local function entry(name, kind, text, isOptional, indent)
  local head = ("**%s**%s"):format(name, kind ~= "" and (" `%s%s`"):format(short(kind), isOptional and "?" or "") or "")
  emitWrapped(text ~= "" and ("%s: %s"):format(head, sentence(text)) or head, indent .. "* ", indent .. "  ")
end

---- Classes

local function emitMethod(class, method)
  local names = {}
  for index, param in ipairs(method.params) do names[index] = param.name .. (param.isOptional and "?" or "") end
  local owner = class.name:gsub("^moonpad%.", "")
  owner = owner:sub(1, 1):lower() .. owner:sub(2)
  local call = ("**%s%s%s(%s)**"):format(owner, method.isMethod and ":" or ".", method.name, table.concat(names, ", "))
  emitWrapped(method.text ~= "" and call .. ": " .. sentence(method.text) or call, "* ", "  ")
  for _, param in ipairs(method.params) do
    if param.name ~= "self" then entry(param.name, param.type, param.text, param.isOptional, "  ") end
  end
  for _, result in ipairs(method.returns) do
    local text = result.text ~= "" and ": " .. sentence(result.text) or ""
    emitWrapped(("returns `%s`%s"):format(short(result.type), text), "  * ", "    ")
  end
end

-- What is reached through an index, such as events[1], is told by the text.
local function emitClass(class)
  for _, field in ipairs(class.fields) do
    if not field.isHidden then entry(field.name, field.type, field.text, field.isOptional, "") end
  end
  for _, method in ipairs(class.methods) do emitMethod(class, method) end
  if #class.fields + #class.methods > 0 then emit "" end
end

local function heading(name)
  return name == "moonpad" and "moonpad" or "moonpad." .. name
end

local function emitType(all, name)
  local full = heading(name)
  local class, alias = all.classes[full], all.aliases[full]
  assert(class or alias, full .. " is in a group and nowhere else")
  emit("### " .. full)
  emit ""
  local text = (class or alias).text
  if text ~= "" then
    emitWrapped(sentence(text), "", "")
    emit ""
  end
  if alias then
    emitWrapped(("`%s`"):format((short(alias.type):gsub("|", " | "))), "", "")
    emit ""
    return
  end
  if class.parent and all.classes[class.parent] then
    emitWrapped(("All that [%s](#%s) has, and:"):format(class.parent, anchor(class.parent)), "", "")
    emit ""
  end
  emitClass(class)
end

---- The page

local function checkComplete(all)
  local grouped = {}
  for _, group in ipairs(GROUPS) do
    for index = 2, #group do grouped[heading(group[index])] = true end
  end
  for name in pairs(annotations.public(all)) do
    local isType = all.classes[name] or all.aliases[name]
    assert(grouped[name] or not isType, name .. " is in no group of scripts/reference.lua")
  end
end

local all = annotations.read(annotations.files())
checkComplete(all)
emit "# Reference"
emit ""
emitWrapped([[Every table that users write or get, and every function. `?` marks what may be left out or may be
nil. `Event` is [moonpad.Event](#moonpadevent), and so on. This page is made of the annotations in the Lua files
(`make reference`); an editor with LuaLS shows the same ([install.md](install.md#in-an-editor)).]], "", "")
emit ""
for _, group in ipairs(GROUPS) do emit(("* [%s](#%s)"):format(group[1], anchor(group[1]))) end
emit ""
for _, group in ipairs(GROUPS) do
  emit("## " .. group[1])
  emit ""
  for index = 2, #group do emitType(all, group[index]) end
end
