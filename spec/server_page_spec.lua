-- The server's own page, without a browser: what its headers allow, and what it is made of. What it
-- does is seen in spec/peers/adk_ui_spec.lua.
local moonpad = require "moonpad"
local serving = require "spec.support.serving"

local server

local function start(options)
  local runner = moonpad.runner {
    appName = "shop", sessionService = moonpad.open "memory:",
    agent = moonpad.agent { name = "clerk", model = function() return "ok" end },
  }
  options.apps = { shop = runner }
  server = serving.start(options)
end

before_each(function() start {} end)
after_each(function() server:close() end)

-- The policy as a table: directive -> what it allows.
local function policyOf(answer)
  local policy = {}
  for directive, allowed in answer.headers["content-security-policy"]:gmatch "([%w-]+) ([^;]+)" do
    policy[directive] = allowed
  end
  return policy
end

describe("the page of the server", function()
  it("is HTML that is neither stored nor framed nor guessed at", function()
    local answer = server:request("GET", "/")
    assert.are.equal(200, answer.status)
    assert.are.equal("text/html; charset=utf-8", answer.headers["content-type"])
    assert.are.equal("no-store", answer.headers["cache-control"])
    assert.are.equal("nosniff", answer.headers["x-content-type-options"])
    assert.are.equal("no-referrer", answer.headers["referrer-policy"])
  end)

  it("may run its own script, and ask its own server; nothing else", function()
    local answer = server:request("GET", "/")
    local nonce = answer.body:match '<script nonce="([%w-]+)">'
    assert.are.same({
      ["default-src"] = "'none'", ["script-src"] = "'nonce-" .. nonce .. "'", ["style-src"] = "'nonce-" .. nonce .. "'",
      ["connect-src"] = "'self'", ["img-src"] = "data:", ["base-uri"] = "'none'", ["form-action"] = "'none'",
      ["frame-ancestors"] = "'none'",
    }, policyOf(answer))
    assert.are.equal(nonce, answer.body:match '<style nonce="([%w-]+)">')
    assert.is_nil(answer.body:find("NONCE", 1, true))
  end)

  it("has another nonce each time", function()
    local first, second = server:request("GET", "/"), server:request("GET", "/")
    assert.are_not.equal(policyOf(first)["script-src"], policyOf(second)["script-src"])
  end)

  it("is served to those who are not authorized; what it asks for is not", function()
    server:close()
    start { authorize = function() return nil end }
    assert.are.equal(200, server:request("GET", "/").status)
    assert.are.equal(401, server:request("GET", "/list-apps").status)
    assert.are.equal(405, server:request("POST", "/", {}).status)
  end)

  it("names no other host, and stays small", function()
    local body = server:request("GET", "/").body
    for address in body:gmatch "https?:[^'\"%s)]*" do assert.are.equal("http://www.w3.org/2000/svg", address) end
    assert.is_nil(body:find "[\"'(]//")
    assert.is_true(#body < 60 * 1024, #body)
  end)

  it("has no way to take a text for HTML or for a program", function()
    local body = server:request("GET", "/").body
    for _, name in ipairs {
      "innerHTML", "outerHTML", "insertAdjacentHTML", "setHTMLUnsafe", "document%.write", "createContextualFragment",
      "DOMParser", "srcdoc", "eval%(", "new Function", "%son%l+=", "javascript:",
    } do
      assert.is_nil(body:find(name), name)
    end
  end)
end)
