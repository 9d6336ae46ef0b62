-- An MCP server for specs, on standard input and output:
--   lua5.4 spec/helpers/mcp_server.lua [WORD...]
--
--   modern        speaks 2026-07-28 and nothing else; else 2025-11-25 and nothing else
--   log=FILE      writes "start", and each method that it is asked for, into a file, a line each
--   silent        does not answer what it does not know before it is greeted
--   strict        ends when it is asked anything before it is greeted
--   deaf          answers nothing at all
--   broken        says something on standard error and ends at once
--   pages=N       lists so many tools on a page
--   ttl=N         how many milliseconds its lists may be believed (modern)
--   unannounced   does not say that it tells of changed lists
--   version=V     the version that it answers the handshake with
--   tool=JSON     one tool more, as it is
local cjson = require "cjson"

local words, moreTools = {}, {}
for _, word in ipairs(arg) do
  local name, value = word:match "^(%w+)=?(.*)$"
  words[name] = value ~= "" and value or true
  if name == "tool" then moreTools[#moreTools + 1] = cjson.decode(value) end
end

local MODERN = "2026-07-28"

local function note(line)
  if not words.log then return end
  local file <close> = assert(io.open(words.log, "a"))
  file:write(line, "\n")
end

local function write(message)
  message.jsonrpc = "2.0"
  io.stdout:write(cjson.encode(message), "\n"):flush()
end

local function answer(id, result)
  if words.modern then result.resultType = result.resultType or "complete" end
  write { id = id, result = result }
end

local function text(value)
  return { content = { { type = "text", text = value } } }
end

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

local function output(command)
  local pipe <close> = assert(io.popen(command))
  return pipe:read "a"
end

---- Tools. Each gets the arguments and the number of the call. One that returns nothing has
---- answered, or never will.

local PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

local tools, held, cancelled = {}, {}, {}

function tools.echo(args) return text(args.text or "") end

-- Answers all calls that are held, the last one first.
function tools.hold(args, id) held[#held + 1] = { id, args.text or "" } end
function tools.release()
  for index = #held, 1, -1 do answer(held[index][1], text(held[index][2])) end
  held = {}
  return text "released"
end

function tools.mute() end

function tools.die()
  io.stderr:write "the disk is on fire\n"
  os.exit(3)
end

function tools.twice(_, id)
  answer(id, text "first")
  answer(id, text "second")
  answer(id + 1000, text "to nobody")
end

function tools.garbage(_, id)
  io.stdout:write("\n{ not json\n[1,2]\n42\nnull\n\"text\"\n[]\n", ("\0\255"):rep(10), "\n{\"id\":", id, "}\r\n")
  return text "after the garbage"
end

function tools.batch(_, id)
  io.stdout:write(("[%s,%s]\r\n"):format(
    cjson.encode { jsonrpc = "2.0", method = "notifications/message", params = { level = "info", data = "x" } },
    cjson.encode { jsonrpc = "2.0", id = tostring(id), result = text "in a batch" })):flush()
end

function tools.huge(args) return text(("x"):rep(args.bytes)) end

function tools.endless()
  for _ = 1, 80 do io.stdout:write((("x"):rep(1024 * 1024))) end
  io.stdout:flush()
end

function tools.flood(args)
  for _ = 1, args.lines do io.stderr:write(("y"):rep(100), "\n") end
  return text "flooded"
end

-- Answers, says much (less than a pipe holds) that is of no interest, and then that it has changed.
function tools.chatter(args, id)
  answer(id, text "")
  for _ = 1, args.lines do write { method = "notifications/progress" } end
  write { method = "notifications/tools/list_changed" }
  note "said"
end

-- Asks its client for things, and tells what that has answered.
function tools.ask()
  local answers = {}
  for index, method in ipairs { "ping", "sampling/createMessage", "roots/list", "elicitation/create" } do
    write { id = "s" .. index, method = method, params = {} }
    local reply = cjson.decode(io.stdin:read "l")
    answers[index] = ("%s %s"):format(reply.id, reply.error and reply.error.code or cjson.encode(reply.result))
  end
  return text(table.concat(answers, "\n"))
end

-- Asks and asks before it reads anything, and tells how many lines came then.
function tools.pester(args)
  for index = 1, args.lines do write { id = ("s"):rep(1000) .. index, method = "ping" } end
  return text(output "timeout 1 cat | wc -l")
end

-- The descriptors of this process. A quick `ls` still sees this process's end of the pipe that it
-- writes to, which is closed in a moment: of some lists, the shortest is the right one.
local function descriptors()
  local shortest = output "ls /proc/$PPID/fd"
  for _ = 1, 4 do
    local list = output "ls /proc/$PPID/fd"
    if #list < #shortest then shortest = list end
  end
  return shortest
end

function tools.inside()
  return { content = {}, structuredContent = {
    environment = read "/proc/self/environ", descriptors = descriptors(), folder = output "pwd",
    id = read("/proc/self/stat"):match "^%d+",
  } }
end

function tools.cancelled() return text(table.concat(cancelled, " ")) end

function tools.picture()
  return { content = {
    { type = "text", text = "look" }, { type = "image", data = PIXEL, mimeType = "image/png" },
    { type = "audio", data = "AAAA", mimeType = "audio/wav" },
    { type = "resource", resource = { uri = "file:///a.bin", blob = "AAEC" } },
    { type = "resource", resource = { uri = "file:///a.txt", text = "of a file" } },
    { type = "resource_link", uri = "file:///b.txt", name = "b", mimeType = "text/plain", description = "the b" },
    { type = "hologram" }, { type = "image", data = "no base64!", mimeType = "image/png" },
  } }
end

function tools.structured()
  return { content = { { type = "text", text = "{\"a\":1}" } }, structuredContent = { a = 1, list = { "x" } } }
end

function tools.fail(args)
  if args.structured then return { isError = true, content = {}, structuredContent = { why = "no reason" } } end
  return { isError = true, content = { { type = "text", text = args.text } } }
end

function tools.refuse() return nil, { code = -32602, message = "not like this" } end

function tools.needy() return { resultType = "input_required", inputRequests = {} } end

function tools.nothing() return cjson.null end

function tools.change(args)
  tools[args.name] = tools.echo
  write { method = "notifications/tools/list_changed" }
  return text "changed"
end

function tools.remove(args)
  tools[args.name] = nil
  return text "removed"
end

---- Methods

local function toolList()
  local names, list = {}, {}
  for name in pairs(tools) do names[#names + 1] = name end
  table.sort(names)
  for index, name in ipairs(names) do
    list[index] = { name = name, description = "Does " .. name, inputSchema = { type = "object" } }
  end
  return table.move(moreTools, 1, #moreTools, #list + 1, list)
end

local methods = {}

local function page(items, params)
  local first, size = math.tointeger(tonumber(params.cursor or 1)), tonumber(words.pages) or #items
  local list = table.move(items, first, math.min(first + size - 1, #items), 1, {})
  return list, first + size <= #items and tostring(math.tointeger(first + size)) or nil
end

methods["tools/list"] = function(params)
  local list, cursor = page(toolList(), params)
  return { tools = list, nextCursor = cursor, ttlMs = tonumber(words.ttl) }
end

methods["tools/call"] = function(params, id)
  local run = tools[params.name]
  if not run then return nil, { code = -32602, message = "Unknown tool: " .. params.name } end
  return run(params.arguments or {}, id)
end

methods["prompts/list"] = function()
  return { prompts = { { name = "greet", arguments = { { name = "name", required = true } } } } }
end

methods["prompts/get"] = function(params)
  return { messages = {
    { role = "user", content = { type = "text", text = "Greet " .. (params.arguments.name or "nobody") } },
    { role = "assistant", content = { type = "image", data = PIXEL, mimeType = "image/png" } },
  } }
end

methods["resources/list"] = function() return { resources = { { uri = "memo://1", name = "one" } } } end

methods["resources/read"] = function(params)
  if params.uri ~= "memo://1" then return nil, { code = -32002, message = "Resource not found" } end
  return { contents = {
    { uri = params.uri, text = "a memo" }, { uri = params.uri, blob = "AAEC", mimeType = "image/gif" },
  } }
end

local CAPABILITIES = { tools = { listChanged = not words.unannounced }, prompts = {}, resources = {} }

local isGreeted = words.modern

if words.modern then
  methods["server/discover"] = function()
    return { supportedVersions = { MODERN }, capabilities = CAPABILITIES, serverInfo = { name = "m", version = "1" } }
  end
else
  function methods.initialize()
    isGreeted = true
    local version = type(words.version) == "string" and words.version or "2025-11-25"
    return { protocolVersion = version, capabilities = CAPABILITIES, serverInfo = { name = "l", version = "1" } }
  end
end

local function checkMeta(params)
  local meta = params._meta or {}
  if meta["io.modelcontextprotocol/protocolVersion"] == MODERN and meta["io.modelcontextprotocol/clientInfo"]
    and meta["io.modelcontextprotocol/clientCapabilities"] then return nil end
  return { code = -32022, message = "Unsupported protocol version", data = { supported = { MODERN } } }
end

local function respond(message)
  local params = message.params or {}
  if words.modern then
    local problem = checkMeta(params)
    if problem then return nil, problem end
  end
  local method = methods[message.method]
  if not method or not (isGreeted or message.method == "initialize") then
    if words.strict then os.exit(1) end
    if words.silent then return end
    return nil, { code = -32601, message = "Method not found" }
  end
  return method(params, message.id)
end

note "start"
if words.broken then
  io.stderr:write "no such database\n"
  os.exit(4)
end
for line in io.stdin:lines() do
  local message = cjson.decode(line)
  note(message.method or "?")
  if message.method == "notifications/cancelled" then
    cancelled[#cancelled + 1] = tostring(math.tointeger(message.params.requestId))
  elseif message.id and not words.deaf then
    local result, problem = respond(message)
    if problem then
      write { id = message.id, error = problem }
    elseif result == cjson.null then
      write { id = message.id, result = result }
    elseif result then
      answer(message.id, result)
    end
  end
end
