-- The annotations for editors against what the code declares: one says what the other does.
local annotations = require "scripts.annotations"
local content = require "moonpad.events.content"
local fields = require "moonpad.schema.fields"
local llmResponses = require "moonpad.flow.llm_response"
local moonpad = require "moonpad"
local testing = require "moonpad.testing"

local all = annotations.read(annotations.files())

-- Loads whatever declares fields of tables that users write.
for _, path in ipairs(annotations.files()) do
  local module = path:gsub("^lua/", ""):gsub("/init%.lua$", ""):gsub("%.lua$", ""):gsub("/", ".")
  local isLoadable = not module:find "^moonpad%.meta" and not module:find "^moonpad%.cli"
  if isLoadable then require(module) end
end

local function names(list)
  table.sort(list)
  return list
end

local function keys(set, keep)
  local list = {}
  for name, value in pairs(set) do
    if not keep or keep(value) then list[#list + 1] = name end
  end
  return names(list)
end

local function annotated(class, keep)
  assert(all.classes[class], "there is no class " .. class)
  return keys(annotations.fieldsOf(all, class), keep)
end

describe("the annotation", function()
  -- What is loaded when it is first used has no type otherwise: editors would know of nothing.
  it("types what the facades return", function()
    local facades = { init = "moonpad", ["models/init"] = "moonpad.Models", ["plugins/init"] = "moonpad.Plugins" }
    for path, class in pairs(facades) do
      local file <close> = assert(io.open("lua/moonpad/" .. path .. ".lua"))
      assert.matches("}) --[[@as " .. class .. "]]\n", file:read "a", 1, true)
    end
  end)

  for class, declared in pairs(fields.ofClass) do
    describe(class, function()
      it("has the fields that are declared", function()
        assert.same(names(table.move(declared.known, 1, #declared.known, 1, {})), annotated(class))
      end)

      it("marks as needed what is needed", function()
        local needed = {}
        for _, field in ipairs(declared.list) do
          -- What has a second name may be there under that.
          if field.required and not field.alias then needed[#needed + 1] = field[1] end
        end
        local marked = annotated(class, function(field) return not field.isOptional end)
        for _, name in ipairs(needed) do assert.is_truthy(table.concat(marked, " "):find(name, 1, true), name) end
        if class ~= "moonpad.RunnerDefinition" then assert.same(names(needed), marked) end
      end)

      it("tells the defaults that are declared", function()
        for _, field in ipairs(declared.list) do
          local default = field.default
          if type(default) == "number" or type(default) == "string" and default ~= "" then
            local isSize = type(default) == "number" and default > 0 and default % (1 << 20) == 0
            local shown = isSize and ("%d MiB"):format(default >> 20) or tostring(default)
            assert.matches(shown, annotations.fieldsOf(all, class)[field[1]].text, 1, true)
          end
        end
      end)
    end)
  end

  it("of the module has all of its names", function()
    local there = {}
    for name in pairs(moonpad) do there[#there + 1] = name end
    assert.same(names(there), annotated "moonpad")
  end)

  it("of each ready module has all of its names", function()
    for class, module in pairs {
      ["moonpad.Http"] = moonpad.http, ["moonpad.Json"] = moonpad.json,
      ["moonpad.Testing"] = testing, ["moonpad.StatePrefix"] = moonpad.StatePrefix,
    } do
      local told = annotations.fieldsOf(all, class)
      for _, method in ipairs(all.classes[class].methods) do told[method.name] = method end
      for name in pairs(module) do assert(told[name], ("%s: %s is not annotated"):format(class, name)) end
      for name in pairs(told) do assert(module[name] ~= nil, ("%s: there is no %s"):format(class, name)) end
    end
    for name in pairs(annotations.fieldsOf(all, "moonpad.Models")) do assert.is_function(moonpad.models[name]) end
    for name in pairs(annotations.fieldsOf(all, "moonpad.Plugins")) do assert.is_function(moonpad.plugins[name]) end
  end)

  -- The C module tells what it knows by refusing what it does not.
  local function known(run)
    local ok, err = pcall(run)
    assert.is_false(ok)
    local list = {}
    for name in assert(tostring(err):match "known: ([^)]*)%)", tostring(err)):gmatch "%w+" do list[#list + 1] = name end
    return names(list)
  end

  it("of each table of options has what the code knows", function()
    local service = moonpad.open "memory:"
    local odd = { zzzzzzzz = 1 }
    assert.same(known(function() moonpad.open("memory:", odd) end), annotated "moonpad.Config")
    for class, method in pairs {
      ["moonpad.CreateOptions"] = "createSession", ["moonpad.GetOptions"] = "getSession",
      ["moonpad.ListOptions"] = "listSessions", ["moonpad.SessionName"] = "deleteSession",
      ["moonpad.ImportOptions"] = "import",
    } do
      assert.same(known(function() service[method](service, odd) end), annotated(class))
    end
    assert.same(known(function() moonpad.artifactService("memory:", odd) end),
      annotated "moonpad.ArtifactServiceConfig")
    assert.same(known(function() moonpad.memoryService("memory:", odd) end), annotated "moonpad.MemoryServiceConfig")
    assert.same(known(function() moonpad.http.request(odd) end), annotated "moonpad.HttpOptions")
    assert.same(known(function() moonpad.models.openai(odd) end), annotated "moonpad.ModelOptions")
  end)

  local function nearMiss(event, name)
    local ok, err = pcall(moonpad.event, event)
    return not ok and tostring(err):find("did you mean " .. name, 1, true) ~= nil
  end

  -- A name of the core's in other letters is refused: so it tells which names it knows.
  it("of events and their actions has the fields that the core knows", function()
    for name in pairs(annotations.fieldsOf(all, "moonpad.Event")) do
      assert.is_true(nearMiss({ [name:upper()] = 1 }, name), name)
    end
    for name in pairs(annotations.fieldsOf(all, "moonpad.Actions")) do
      assert.is_true(nearMiss({ actions = { [name:upper()] = 1 } }, name), name)
    end
    local source = io.open("src/core/event_fields.c"):read "a"
    local function inTable(name)
      local list = {}
      for field in source:match(name .. "%[%] = (.-)};"):gmatch 'FIELD%("(%w+)"' do list[#list + 1] = field end
      return names(list)
    end
    assert.same(inTable "mp_event_fields", annotated "moonpad.Event")
    assert.same(inTable "mp_action_fields", annotated "moonpad.Actions")
  end)

  -- Beside its own fields, a response may be a part.
  it("of a response has what a response may hold", function()
    local list = annotated "moonpad.Response"
    table.move(content.PART_FIELDS, 1, #content.PART_FIELDS, #list + 1, list)
    assert.same(known(function() llmResponses.normalize({ zzzzzzzz = 1 }, "x") end), names(list))
  end)

  it("of a service, a session, a state and a context has their real methods and fields", function()
    local service = moonpad.open "memory:"
    local session = service:createSession { appName = "a", userId = "u" }
    for class, object in pairs {
      ["moonpad.Service"] = service, ["moonpad.Session"] = session, ["moonpad.State"] = session.state,
      ["moonpad.Context"] = testing.toolContext(), ["moonpad.SessionView"] = testing.toolContext().session,
      ["moonpad.ArtifactService"] = moonpad.artifactService "memory:",
      ["moonpad.MemoryService"] = moonpad.memoryService "memory:", ["moonpad.Event"] = moonpad.event {},
    } do
      for _, method in ipairs(all.classes[class].methods) do
        assert.is_function(object[method.name], class .. ":" .. method.name)
      end
      if class:find "Session" then
        for name in pairs(annotations.fieldsOf(all, class)) do assert.is_not_nil(object[name], class .. "." .. name) end
      end
    end
  end)

  it("of all that users can reach is there", function()
    local missing = {}
    for name in pairs(annotations.public(all)) do
      local isThere = all.classes[name] or all.aliases[name] or name == "moonpad.null"
      if not isThere then missing[#missing + 1] = name end
    end
    assert.same({}, names(missing))
  end)
end)
