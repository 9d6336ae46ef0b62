-- Files in messages, where their data is base64, and as artifacts, where it is bytes.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local testing = require "moonpad.testing"

local raises = checks.raises

local BYTES <const> = "\x89PNG\0\xFF"
local BASE64 <const> = "iVBORwD/"

local FILE = { appName = "app", userId = "u", sessionId = "s", filename = "f" }

support.any_store(function(open)
  local service, artifacts
  before_each(function() service, artifacts = open(), moonpad.artifactService "memory:" end)
  after_each(function() artifacts:close() end)

  local function run(fields, message)
    fields.name = "A"
    local runner = moonpad.runner {
      appName = "app", sessionService = service, artifactService = artifacts, agent = moonpad.agent(fields),
    }
    return support.run(runner, { userId = "u", sessionId = "s", newMessage = message or "go" })
  end

  local function save(part)
    return artifacts:save { appName = "app", userId = "u", sessionId = "s", filename = "f", part = part }
  end

  local function kept()
    local inline = artifacts:load(FILE).inlineData
    return { inline.mimeType, inline.data }
  end

  local PICTURE = { inlineData = { mimeType = "image/png", data = BASE64 } }

  describe("a file of a message", function()
    it("becomes bytes where a callback saves it, wherever it has found it", function()
      local finds = {
        function(context) return context.userContent.parts[2] end,
        function(context) return context.session.events[1].content.parts[2] end,
        function(_, request) return request.contents[1].parts[2] end,
        function(context) return moonpad.toTable(context.session.events[1]).content.parts[2] end,
      }
      for version, find in ipairs(finds) do
        local found
        run({ model = function(request, context)
          found = find(context, request)
          assert.equal(BASE64, found.inlineData.data)
          assert.equal(version - 1, context:saveArtifact("f", found))
          return "kept"
        end }, { "Keep this.", PICTURE })
        assert.same({ "image/png", BYTES }, kept())
        assert.equal(BASE64, found.inlineData.data)
        service:deleteSession { appName = "app", userId = "u", sessionId = "s" }
      end
    end)

    it("becomes bytes where a program saves it out of an event, of a model's or a tool's", function()
      local tool = { name = "look", run = function() return "x", PICTURE end }
      local events = run { tools = { tool }, model = moonpad.models.scripted { moonpad.functionCall "look", PICTURE } }
      local stored = support.stored(service).events
      for _, part in ipairs {
        events[2]:functionResponses()[1].parts[1], stored[3]:functionResponses()[1].parts[1],
        events[3].content.parts[1], stored[4].content.parts[1],
        moonpad.event({ author = "user", content = { parts = { PICTURE } } }).content.parts[1],
      } do
        assert.equal(BASE64, part.inlineData.data)
        save(part)
        assert.same({ "image/png", BYTES }, kept())
        artifacts:delete(FILE)
      end
    end)

    it("made by moonpad.inlineData becomes bytes as well", function()
      save(moonpad.inlineData("image/png", BYTES))
      assert.same({ "image/png", BYTES }, kept())
      local context = testing.toolContext {
        artifactService = artifacts, appName = "app", userId = "u", sessionId = "s",
      }
      context:saveArtifact("f", moonpad.inlineData("image/png", BYTES))
      assert.same({ "image/png", BYTES }, kept())
    end)

    it("reaches an artifact service of the user's own as bytes", function()
      local saved
      local own = {
        save = function(_, options)
          saved = options.part
          return 0
        end,
        load = function() end, list = function() return {} end,
      }
      local context = testing.toolContext { artifactService = own }
      local part = moonpad.inlineData("image/png", BYTES)
      context:saveArtifact("f", part)
      assert.same({ inlineData = { mimeType = "image/png", data = BYTES } }, saved)
      assert.equal(BASE64, part.inlineData.data)
      context:saveArtifact("f", "text")
      assert.equal("text", saved)
    end)

    it("that is no base64 cannot be saved, and is no message", function()
      local events = run { model = function()
        return { inlineData = { mimeType = "image/png", data = "no base64!" } }
      end }
      raises("invalid_argument", "inlineData.data: is not base64: byte 10 ", save, events[1].content.parts[1])
      for data, problem in pairs { [BYTES] = "byte 1 is no", ["AAAAA"] = "it is cut off", ["AA=A"] = "padding" } do
        raises("invalid_argument", { "newMessage.parts[1].inlineData.data: is not base64: ", problem,
          "moonpad.inlineData(mimeType, bytes)" }, run, { model = "gpt-none" },
          { inlineData = { mimeType = "image/png", data = data } })
      end
      assert.is_nil(artifacts:load(FILE))
    end)
  end)

  describe("a file of an artifact", function()
    before_each(function() save { inlineData = { mimeType = "image/png", data = BYTES } } end)

    it("becomes base64 in a message, an answer and beside the result of a tool", function()
      local loaded = artifacts:load(FILE)
      local seen
      run({ model = function(request)
        seen = request.contents[1].parts[1]
        return loaded
      end }, loaded)
      assert.same(PICTURE, seen)
      local stored = support.stored(service).events
      assert.same({ PICTURE, PICTURE }, { stored[1].content.parts[1], stored[2].content.parts[1] })
      assert.equal(BYTES, loaded.inlineData.data)
      local tool = { name = "look", run = function(_, context) return "here", context:loadArtifact "f" end }
      local events = run { tools = { tool }, model = moonpad.models.scripted { moonpad.functionCall "look", "done" } }
      assert.same({ PICTURE }, events[2]:functionResponses()[1].parts)
    end)

    it("stays bytes when it is saved again", function()
      save(artifacts:load(FILE))
      assert.same({ "image/png", BYTES }, kept())
    end)
  end)

  it("a part that a program has made by hand is taken as what belongs there", function()
    save(PICTURE)
    assert.same({ "image/png", BASE64 }, kept())
    local inline = moonpad.inlineData("image/png", BYTES).inlineData
    save { inlineData = { mimeType = inline.mimeType, data = inline.data } }
    assert.same({ "image/png", BASE64 }, kept())
  end)
end)
