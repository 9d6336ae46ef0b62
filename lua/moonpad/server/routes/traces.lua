--- What runs have done, in the words of ADK's web UI.
local core = require "moonpad.core"

local function ofSession()
  return 200, core.array {}
end

return {
  { "GET", "/dev/apps/{app}/debug/trace/session/{session}", ofSession },
}
