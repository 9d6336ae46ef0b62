--- HTTP requests in a page, for fetch.mjs: it starts them and looks what has come, each time by a
--- call of examples/web/main.c, with a text in and a text out.
local moonpad = require "moonpad"
local http = require "moonpad.http"

-- Of a long answer.
local LONGEST_KEPT = 1000

local jobs, heard = {}, {}
local page = {}

local function jobOf(number)
  return jobs[tonumber(number)]
end

---@param text string json: options of http.request
---@return string number
function page.request(text)
  local number = #heard + 1
  heard[number] = { text = "", length = 0, longest = 0 }
  jobs[number] = http.request(moonpad.json.decode(text))
  return tostring(number)
end

-- What has come in all. `isRead`: takes it; else only the beginning of the answer is looked for.
local function look(number, isRead)
  local job, all = jobOf(number), heard[tonumber(number)]
  job:step()
  for chunk in function() return isRead and job:read() or nil end do
    if all.length < LONGEST_KEPT then all.text = all.text .. chunk end
    all.length, all.longest = all.length + #chunk, math.max(all.longest, #chunk)
  end
  local failure = job.failure or {}
  return moonpad.json.encode {
    status = job.status, headers = job.headers, length = all.length, text = all.text:sub(1, LONGEST_KEPT),
    longest = all.longest, isOver = job.isOver or false, message = failure.message, kind = failure.kind,
    attempts = job.attempts, active = http.active(),
  }
end

function page.read(number)
  return look(number, true)
end

function page.glance(number)
  return look(number, false)
end

function page.close(number)
  jobOf(number):close()
end

-- Nobody holds it any more.
function page.drop(number)
  jobs[tonumber(number)] = false
  collectgarbage()
  collectgarbage()
end

---- What waits in a call: nothing could come meanwhile

local function codeOf(act, ...)
  local ok, err = pcall(act, ...)
  return not ok and type(err) == "table" and err.code .. ": " .. err.message or tostring(err)
end

function page.wait(number)
  return codeOf(jobOf(number).wait, jobOf(number))
end

function page.poll()
  return codeOf(http.poll, 1)
end

---@param url string of a model
function page.run(url)
  local runner = moonpad.runner {
    appName = "a", url = "memory:",
    agent = moonpad.agent { name = "a", model = moonpad.models.openai { baseUrl = url, model = "m" } },
  }
  return codeOf(function()
    for _ in runner:run { userId = "u", newMessage = "Hi." } do end
  end)
end

---A client that is gone before its request.
function page.orphan(url)
  local client = require("moonpad.http_core").client()
  local request = assert(client:start { url = url, method = "GET" })
  client:close()
  return table.concat({ request:failure() }, ": ")
end

return page
