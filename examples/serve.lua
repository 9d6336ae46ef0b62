--- Agents over HTTP for more than one user: each sends `Authorization: Bearer TOKEN`, sees his own
--- sessions only, and may ask so often.
---   SERVE_TOKENS="s3cret-of-ann=ann s3cret-of-bob=bob" lua5.4 examples/serve.lua [PORT]
--- docs/serve.md says what stands before it in public: TLS, and a name.
local moonpad = require "moonpad"

---- Who it is

-- A file, a database or another server may say so as well: the function may wait.
local users = {}
for token, user in (os.getenv "SERVE_TOKENS" or ""):gmatch "(%S+)=(%S+)" do users[token] = user end

local function authorize(request)
  local token = (request.headers.authorization or ""):match "^Bearer (%S+)$"
  local user = token and users[token]
  return user and { userId = user } or nil
end

---- The agent

local agent = moonpad.agent {
  name = "clerk",
  instruction = "Serve {user:name?}.",
  model = function(request)
    local parts = request.contents[#request.contents].parts
    return "You said: " .. (parts[1].text or "something")
  end,
}

---- The server

local runner = moonpad.runner { appName = "clerk", agent = agent, url = "memory:" }
local server <close> = moonpad.server {
  apps = { clerk = runner },
  port = math.tointeger(tonumber(arg and arg[1])) or 8000,
  authorize = authorize,
  limits = { requestsPerMinute = 60, sessions = 100, runs = 2 },
  onError = function(message) io.stderr:write(message, "\n") end,
}
print("Serving at " .. server.url)
io.stdout:flush()
server:run()
