--- One of several who save versions of one file:  lua5.4 save_artifacts.lua URL WRITER COUNT
-- Prints the version that each save got.
local moonpad = require "moonpad"

local url, writer, count = arg[1], arg[2], tonumber(arg[3])
local artifacts = moonpad.artifactService(url, { busyTimeoutMs = 60000, durability = "normal" })

for index = 1, count do
  print(artifacts:save {
    appName = "app", userId = "u", sessionId = "s", filename = "shared", part = ("%s %d"):format(writer, index),
  })
end
artifacts:close()
