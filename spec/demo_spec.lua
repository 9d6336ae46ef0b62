-- The demonstration, on the stores that it knows.
local support = require "spec.support"

local STORES = { { name = "sqlite" } }
for _, store in ipairs(support.withServers {}) do STORES[#STORES + 1] = { name = store.name:gsub(":$", "") } end

local function demo(arguments)
  local build = os.getenv "MOONPAD_BUILD" or "build"
  -- Bash leaves memory behind, which is none of ours.
  local pipe <close> = assert(io.popen(('ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" scripts/demo.sh -b %s %s 2>&1')
    :format(support.quote(build), arguments)))
  local said = pipe:read "a"
  return select(3, pipe:close()), said
end

describe("the demonstration", function()
  for _, store in ipairs(STORES) do
    it("shows a guest who is remembered, on " .. store.name, function()
      local code, said = demo("-s " .. store.name)
      assert.equal(0, code, said)
      for _, text in ipairs { "Welcome to Hotel Moonpad. This is visit 1.", "Welcome back, Ann. This is visit 2.",
        'user:name = "Ann"', "The demonstration is over" } do
        assert.is_truthy(said:find(text, 1, true), text)
      end
      assert.is_nil(said:find("secret", 1, true))
    end)
  end

  it("says which stores there are", function()
    local code, said = demo "-s oracle"
    assert.equal(2, code)
    assert.matches("there is sqlite", said)
  end)
end)
