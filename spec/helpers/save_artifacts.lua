--- One of several who save versions of one file:
---   lua5.4 save_artifacts.lua URL WRITER COUNT [stepped]
-- Prints the version that each save got.
local drive = require "spec.support.by_hand"
local moonpad = require "moonpad"

local url, writer, count, how = arg[1], arg[2], tonumber(arg[3]), arg[4]
local artifacts = moonpad.artifactService(url, { busyTimeoutMs = 600000, durability = "normal" })

local function saveAll()
  for index = 1, count do
    print(artifacts:save {
      appName = "app", userId = "u", sessionId = "s", filename = "shared", part = ("%s %d"):format(writer, index),
    })
  end
end

if how == "stepped" then drive(moonpad.open "memory:", saveAll):finish() else saveAll() end
artifacts:close()
