--- What runs have done, for the trace view of ADK's web UI.
local traces = {}

---Starts a run.
---@param call moonpad.server.Call
---@param options moonpad.RunOptions
---@return moonpad.Invocation
function traces.start(call, options)
  return call.runner:start(options)
end

return traces
