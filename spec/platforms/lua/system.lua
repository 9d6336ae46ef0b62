--- In the place of luasystem the little that busted asks of it, where Debian's is not built for the
--- platform.
local core = require "moonpad.core"

return { gettime = os.time, monotime = core.monotonic, sleep = core.sleep }
