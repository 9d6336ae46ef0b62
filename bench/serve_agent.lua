-- The agent of bench/serve.sh: each token says when it was to come, by the clock that never goes
-- back.
local moonpad = require "moonpad"
local core = require "moonpad.core"

local TOKENS_PER_SECOND <const> = 20

return moonpad.agent {
  name = "talker",
  model = function(request)
    local count = math.tointeger(tonumber(request.contents[#request.contents].parts[1].text))
    if not count then return "ok" end
    -- Streams do not beat in time.
    local begin, said = core.monotonic() + math.random() / TOKENS_PER_SECOND, 0
    return function()
      if said == count then return nil end
      said = said + 1
      moonpad.sleep(math.max(begin + said / TOKENS_PER_SECOND - core.monotonic(), 0))
      return ("@%.6f@ "):format(begin + said / TOKENS_PER_SECOND)
    end
  end,
}
