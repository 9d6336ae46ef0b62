-- Loaded by busted before the specs (.busted).

-- MOONPAD_GC=aggressive: the collector runs all the time, so that a value which nothing holds is gone at once.
local mode = os.getenv "MOONPAD_GC"
if mode == "aggressive" then
  collectgarbage("incremental", 10, 1000)
elseif mode and mode ~= "" then
  error(("MOONPAD_GC=%s: only \"aggressive\" is known"):format(mode), 0)
end
