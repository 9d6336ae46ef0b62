--- URLs of servers that are wrong: what is wrong is said before a server is asked, without the
--- password, which ends with "cr3t".
local assert = require "luassert"
local busted = require "busted"
local checks = require "spec.support.checks"
local moonpad = require "moonpad"

---A test for each.
---@param cases { [1]: string, [2]: string|string[] }[] the URL, and what the message says
return function(cases)
  for _, case in ipairs(cases) do
    busted.it("that is wrong says so: " .. case[1]:gsub("s3.?.?.?cr3t", "..."), function()
      local err = checks.raises("invalid_argument", case[2], moonpad.open, case[1])
      assert.is_nil(tostring(err):find("cr3t", 1, true))
    end)
  end
end
