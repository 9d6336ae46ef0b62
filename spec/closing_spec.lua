-- A Lua state that is closed while calls of steps are under way: finalizers run in the reverse
-- order of creation, so something older may go on with what has been finalized already.
local support = require "spec.support"

local quote = support.quote

describe("a Lua state that is closed", function()
  after_each(support.cleanup)

  -- What the last finalizer printed: how the call went, and what it gave.
  local ENDS = {
    ["at once"] = "^true table\n$", call = "^false closed\n$", cancelled = "^false cancelled\n$",
    append = "^false closed\n$", drain = "^false closed\n$", step = "^%a+ %a+\n$",
  }

  for how, expected in pairs(ENDS) do
    it("tells a late finalizer how its call went: " .. how, function()
      local command = ("env LUA_PATH=%s LUA_CPATH=%s lua5.4 spec/helpers/close_in_the_middle.lua %s %s 2>&1; echo $?")
        :format(quote(package.path), quote(package.cpath), quote(how), quote(support.tmpdir()))
      local pipe <close> = assert(io.popen(command))
      local output, code = pipe:read("a"):match "^(.-)(%d+)\n$"
      assert.equal("0", code, output)
      assert.matches(expected, output)
    end)
  end
end)
