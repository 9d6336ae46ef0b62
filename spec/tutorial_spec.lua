-- docs/tutorial.md, as somebody who types it in: each file is written, each command is run, and
-- what it prints is compared. Three dots stand for anything; alone in a line, for any number of
-- lines. What is in a ```sh block (installing, keys) is not run, but for what compiles.
local files = require "spec.support.files"
local moonpad = require "moonpad"
local server = require "spec.support.http"
local support = require "spec.support"

local read, write = files.read, files.write

local PAGE <const> = "docs/tutorial.md"

---- The page

-- "Save this as `mira/agent.lua`:" names the file of the next block.
local function pathNamed(line)
  return line:match "[Ss]ave .*`([^`]+)`:$"
end

-- The commands of a ```console block with what each prints.
local function commandsIn(lines)
  local commands = {}
  for _, line in ipairs(lines) do
    local command = line:match "^%$ (.*)$"
    if command then
      commands[#commands + 1] = { kind = "command", command = command, output = "" }
    else
      local last = assert(commands[#commands], "a console block begins with a command: " .. line)
      last.output = last.output .. line .. "\n"
    end
  end
  return commands
end

-- The headings of the page, each with its steps.
local function parse(text)
  local sections, block, path = {}, nil, nil
  for line in text:gmatch "([^\n]*)\n" do
    if block and line ~= "```" then
      block[#block + 1] = line
    elseif block then
      local steps = sections[#sections].steps
      if block.kind == "console" then
        for _, command in ipairs(commandsIn(block)) do steps[#steps + 1] = command end
      elseif block.kind == "sh" then
        for _, command in ipairs(block) do
          if command:find "^cc " then steps[#steps + 1] = { kind = "command", command = command, output = "" } end
        end
      else
        assert(path, "no name of a file before the block that begins with: " .. tostring(block[1]))
        steps[#steps + 1] = { kind = "file", path = path, text = table.concat(block, "\n") .. "\n" }
      end
      block, path = nil, nil
    elseif line:find "^```" then
      block = { kind = line:sub(4) }
    elseif line:find "^## " then
      sections[#sections + 1] = { heading = line:sub(4), steps = {} }
    else
      path = pathNamed(line) or path
    end
  end
  return sections
end

local function patternOf(output)
  local pattern = ("\n" .. output):gsub("[%^%$%(%)%%%.%[%]%*%+%-%?]", "%%%0")
  pattern = pattern:gsub("\n%%%.%%%.%%%.\n", "\n.-"):gsub("%%%.%%%.%%%.", "[^\n]-")
  return "^" .. pattern:sub(2) .. "$"
end

---- A model over HTTP, as a real one would answer the tutorial's messages

local function completion(message)
  return server.json { choices = { { index = 0, message = message, finish_reason = "stop" } } }
end

local REPLIES = {
  completion {
    role = "assistant",
    tool_calls = { {
      id = "call_1", type = "function", ["function"] = { name = "order", arguments = '{"drink":"ale","count":2}' },
    } },
  },
  completion { role = "assistant", content = "Two ales, there you go. That makes 6." },
  completion { role = "assistant", content = "Biscuit, of course." },
}

---- Running it

-- What `make install` puts into place, without installing: the command, and what pkg-config knows.
local function install(folder)
  local function shell(line) assert(os.execute(line)) end
  local root = assert(io.popen "pwd"):read "l"
  local build = assert(package.searchpath("moonpad.core", package.cpath)):gsub("/moonpad/core%.so$", "")
  if build:sub(1, 1) ~= "/" then build = root .. "/" .. build end
  shell(("mkdir %s/bin %s/inn && ln -s %s/bin/moonpad %s/bin/moonpad"):format(folder, folder, support.quote(root),
    folder))
  local places = "-e 's|@LIBDIR@|%s/whole|' -e 's|@INCLUDEDIR@|%s/include|' -e 's|@LIBS@|-lpthread -lm|'"
  shell(("sed " .. places .. " moonpad-lua.pc.in > %s/moonpad-lua.pc"):format(build, root, folder))
  -- Libraries that the sanitizers watch want a program that they watch, too.
  local flags = (os.getenv "LD_PRELOAD" or ""):find "asan" and "-fsanitize=address,undefined" or ""
  write(folder .. "/bin/cc", ('#!/bin/sh\nunset LD_PRELOAD\nexec gcc %s "$@"\n'):format(flags))
  shell(("chmod +x %s/bin/cc && cp examples/tavern.c %s/inn"):format(folder, folder))
end

describe(PAGE, function()
  local folder, environment, models

  setup(function()
    folder, models = support.tmpdir(), server.start()
    models:script { ["/v1/chat/completions"] = REPLIES }
    install(folder)
    environment = ("cd %s/inn && HOME=%s PATH=%s/bin:$PATH PKG_CONFIG_PATH=%s USER=ann OPENAI_API_KEY=key "
      .. "OPENAI_BASE_URL=%s/v1"):format(folder, folder, folder, folder, models.url)
  end)

  teardown(function()
    models:stop()
    support.cleanup()
  end)

  local function run(step)
    local pipe <close> = assert(io.popen(("%s bash -c %s 2>&1"):format(environment, support.quote(step.command))))
    local printed = pipe:read "a"
    assert.message(("$ %s\nprints:\n%s\ninstead of:\n%s"):format(step.command, printed, step.output))
      .is_truthy(printed:find(patternOf(step.output)))
  end

  for _, section in ipairs(parse(read(PAGE))) do
    it(section.heading, function()
      for _, step in ipairs(section.steps) do
        if step.kind == "file" then write(folder .. "/inn/" .. step.path, step.text) else run(step) end
      end
    end)
  end

  -- tavern.c goes on to be used with real models, which stream.
  it("shows each word of a streamed answer once in the game", function()
    write(folder .. "/inn/streaming.lua", [[
      return require "moonpad".agent { name = "Poet", model = function()
        local words = { "Once ", "upon ", "a time" }
        local place = 0
        return function()
          place = place + 1
          return words[place]
        end
      end }]])
    run { command = "printf 'Speak\\nAgain\\n' | ./tavern streaming.lua poet.db",
      output = "Once upon a time\nOnce upon a time\n... frames, ...\n" }
  end)

  it("has told the model what was said in another session", function()
    local requests = models:requests()
    assert.equal(#REPLIES, #requests)
    assert.matches("My dog is called Biscuit", requests[#requests].body, 1, true)
    assert.is_table(moonpad.json.decode(requests[1].body).tools)
  end)
end)
