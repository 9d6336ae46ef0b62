-- TLS: who the other side is, is always checked. The server is that of the openssl command.
local http = require "moonpad.http"
local moonpad = require "moonpad"
local paths = require "moonpad.util.paths"
local newCertificate = require "spec.support.certificate"
local server = require "spec.support.http"
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(2)

local quote = support.quote

-- Where Windows checks a certificate, curl finds no address in it.
local HOST = paths.isWindows and "localhost" or "127.0.0.1"
local SUBJECT = paths.isWindows and "DNS:localhost" or "IP:127.0.0.1"
-- What the message says of a certificate that nobody vouches for.
local WORD = paths.isWindows and "CertGetCertificateChain" or "certificate"

describe("https", function()
  local folder, pipe, pid, url

  local function certificate(name, subject) return newCertificate(folder, name, subject) end

  -- Answers every request with a page about the connection.
  local function serve(key, cert)
    pipe = assert(io.popen(("echo $$; exec timeout 900 openssl s_server -accept 127.0.0.1:0 -www -key %s -cert %s 2>&1")
      :format(key, cert)))
    pid = pipe:read "n"
    local port
    for line in pipe:lines() do
      port = line:match "^ACCEPT .*:(%d+)$"
      if port then break end
    end
    url = ("https://%s:"):format(HOST) .. assert(port, "the server has not started") .. "/"
  end

  before_each(function() folder = support.tmpdir() end)
  after_each(function()
    os.execute(("kill %d"):format(pid))
    pipe:close()
    support.cleanup()
  end)

  local function fetch(options)
    options = options or {}
    options.url, options.attempts = url, 1
    local job <close> = http.request(options)
    local status, message, kind = job:wait()
    return status, status and job:collect() or message, kind
  end

  -- In a process of its own, with an environment.
  local function fetchWith(environment)
    local code = ("package.path, package.cpath = %q, %q; print(require 'moonpad.http'.request{ url = %q, attempts = 1 }"
      .. ":wait())"):format(package.path, package.cpath, url)
    local answer <close> = io.popen(("env -u CURL_CA_BUNDLE -u SSL_CERT_FILE %s lua5.4 -e %s 2>&1"):format(
      environment, quote(code)))
    return answer:read "a"
  end

  it("refuses a certificate that nobody vouches for, and says so", function()
    serve(certificate("own", SUBJECT))
    local status, message, kind = fetch()
    assert.same({ nil, "tls" }, { status, kind })
    assert.matches(WORD, message)
    local model = moonpad.models.openai { model = "m", apiKey = "sk-secret", baseUrl = url, maxRetries = 0 }
    local runner = moonpad.runner {
      appName = "app", agent = moonpad.agent { name = "A", model = model }, sessionService = moonpad.open "memory:",
    }
    local ok, err = pcall(support.run, runner, "Hi")
    assert.same({ false, "model", "tls" }, { ok, err.code, err.kind })
    assert.matches(WORD, err.message)
    assert.is_nil(tostring(err):find("sk-secret", 1, true))
  end)

  it("takes one that the caFile vouches for, of the caller's or of the environment #native", function()
    serve(certificate("own", SUBJECT))
    local file = folder .. "/own.pem"
    local status, body = fetch { caFile = file }
    assert.equal(200, status)
    assert.matches("TLSv1", body)
    assert.matches("^200", fetchWith("CURL_CA_BUNDLE=" .. quote(file)))
    assert.matches("^200", fetchWith("SSL_CERT_FILE=" .. quote(file)))
    assert.matches("^nil.*" .. WORD, fetchWith "")
    assert.matches("^nil", fetchWith("CURL_CA_BUNDLE=" .. quote(folder .. "/none.pem")))
  end)

  it("is where a server on the same host may redirect to #native", function()
    serve(certificate("own", SUBJECT))
    local web = server.start()
    finally(function() web:stop() end)
    web:script { ["/a"] = { status = 301, headers = { Location = url } } }
    local start = web.url:gsub("127%.0%.0%.1", HOST) .. "/a"
    local job <close> = http.request { url = start, attempts = 1, caFile = folder .. "/own.pem" }
    assert.equal(200, (job:wait()))
    assert.matches("TLSv1", (job:collect()))
    -- The certificate is looked at there as anywhere.
    local other <close> = http.request { url = start, attempts = 1 }
    assert.equal("tls", (select(3, other:wait())))
  end)

  it("refuses one that is made out to somebody else, whoever vouches for it", function()
    serve(certificate("other", "DNS:other.example"))
    local status, message, kind = fetch { caFile = folder .. "/other.pem" }
    assert.same({ nil, "tls" }, { status, kind })
    assert.matches(HOST, message, 1, true)
  end)
end)
