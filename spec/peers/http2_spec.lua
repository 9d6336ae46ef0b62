-- Servers that speak HTTP/2. That of the specs is node's: without it they are pending.
local http = require "moonpad.http"
local newCertificate = require "spec.support.certificate"
local support = require "spec.support"

local REQUESTS <const> = 20

describe("HTTP/2", function()
  local folder, pipe, url

  -- Its standard input ends with this process, and so does the server.
  local function serve(only)
    if not os.execute "command -v node >/dev/null" then pending "node is not installed" end
    folder = support.tmpdir()
    local key, certificate = newCertificate(folder, "own", "IP:127.0.0.1")
    local portFile = folder .. "/port"
    pipe = assert(io.popen(("exec node spec/peers/http2_server.cjs %s %s %s >%s"):format(key, certificate, only or "",
      support.quote(portFile)), "w"))
    local port
    support.waitUntil("the port of the server", function()
      local file <close> = io.open(portFile)
      port = file and file:read "n"
      return port
    end)
    url = ("https://127.0.0.1:%d/"):format(port)
  end

  after_each(function()
    if pipe then pipe:close() end
    pipe = nil
    support.cleanup()
  end)

  -- Many requests at once, which are answered when all have come: how many connections they come
  -- over, and the version of HTTP.
  local function burst()
    local jobs, connections, count, version = {}, {}, 0, nil
    for number = 1, REQUESTS do
      jobs[number] = http.request { url = url, caFile = folder .. "/own.pem", timeoutMs = support.TIMEOUT_MS,
        headers = { ["X-Together"] = tostring(REQUESTS) } }
    end
    for _, job in ipairs(jobs) do
      assert.equal(200, job:wait())
      assert.equal("ok", (job:collect()))
      version = job.headers["x-http"]
      local connection = job.headers["x-connection"]
      if not connections[connection] then connections[connection], count = true, count + 1 end
    end
    return count, version
  end

  it("serves requests that begin together over one connection", function()
    serve()
    for _ = 1, 2 do assert.same({ 1, "2.0" }, { burst() }) end
  end)

  it("is not needed: without it they have a connection each, and none waits for another's answer", function()
    serve "h1"
    assert.same({ REQUESTS, "1.1" }, { burst() })
  end)
end)
