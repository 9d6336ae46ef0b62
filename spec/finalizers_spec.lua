-- Calls of moonpad in the middle of which a finalizer calls moonpad (it may run wherever Lua allocates): both do what
-- they would have done alone.
local during = require("spec.support.finalizers").during
local moonpad = require "moonpad"

local json = moonpad.json

describe("a finalizer that decodes", function()
  it("changes nothing in what is being decoded", function()
    -- Backwards, so that no string with the value's own bytes is there until decoding makes one.
    local values = { "a", "4v", "eulav-rehto", "ko-setyb-neetxis", "" }
    local texts = {}
    for index, value in ipairs(values) do texts[index] = ('{"k":"%s"}'):format(value:reverse()) end
    local function decoded(index)
      local found = json.decode(texts[index]).k:reverse()
      assert(found == values[index], ("%s instead of %s"):format(found, values[index]))
    end
    for main = 1, #values do
      local other = main % #values + 1
      during(60, function() decoded(other) end, function()
        decoded(main)
        decoded(other)
        decoded(main)
      end, function() -- what comes twice is kept: the other one, so that this one has to be made again
        decoded(other)
        decoded(other)
        decoded(main)
      end)
    end
  end)

  it("with other names changes nothing either", function()
    local names = {}
    for index = 1, 400 do names[index] = ("name%d"):format(index) end
    local function decoded(first)
      local text = {}
      for index = 1, 6 do
        local name = names[(first + index * 7) % #names + 1]
        text[index] = ('"%s":"%s"'):format(name, name:upper())
      end
      local value = json.decode("{" .. table.concat(text, ",") .. "}")
      local count = 0
      for key, item in pairs(value) do
        assert(key:upper() == item, key .. " is " .. item)
        count = count + 1
      end
      assert(count == 6)
    end
    during(20, function(ran) decoded(ran * 31) end, function(round)
      for index = 1, 20 do decoded(round * 17 + index) end
    end)
  end)
end)
