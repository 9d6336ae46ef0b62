-- The URLs of Redis: what is wrong with them is said without asking a server.
local moonpad = require "moonpad"
local support = require "spec.support"

local function refused(url, code, ...)
  local ok, err = pcall(moonpad.open, url, { busyTimeoutMs = 100 })
  assert.is_false(ok)
  assert.are.equal(code, err.code, err.message)
  for _, text in ipairs { ... } do assert.is_truthy(err.message:find(text, 1, true), err.message) end
  assert.is_nil(err.message:find("s3cr3t", 1, true))
end

describe("a URL of Redis", function()
  after_each(support.cleanup)

  it("names the nearest of its options", function()
    local near = { pol = "pool", prefx = "prefix", replicsa = "replicas", strikt = "strict", dbb = "db" }
    for option, name in pairs(near) do
      refused("redis://:s3cr3t@127.0.0.1:1/0?" .. option .. "=1", "invalid_argument", option, "did you mean " .. name)
    end
  end)

  it("has values that make sense", function()
    for query, text in pairs {
      ["pool=0"] = "from 1 to 64", ["pool=x"] = "from 1 to 64", ["strict=perhaps"] = "on or off",
      ["replicas=-1"] = "from 0 to 100", ["prefix=a{b}"] = "option prefix: expects",
      ["prefix=a*"] = "option prefix: expects",
      ["migrate=2"] = "on or off", ["pool=1&pool=2"] = "twice", ["db=1"] = "names a database behind its host",
    } do
      refused("redis://:s3cr3t@127.0.0.1:1/0?" .. query, "invalid_argument", text)
    end
    refused("redis://:s3cr3t@127.0.0.1:1/db", "invalid_argument", "whole number")
    refused("redis://:s3cr3t@127.0.0.1:1/-1", "invalid_argument", "whole number")
  end)

  it("is written as it should be", function()
    for _, url in ipairs {
      "redis://", "redis:", "redis:localhost", "redis://:s3cr3t@", "redis://:s3cr3t@host:x/0",
      "redis://:s3@cr3t@host/0",
      "redis://:s3cr3t@host:70000/0", "redis://:s3cr3t@[::1/0", "redis://:%zz@host/0", "redis://:s3cr3t?@host/0",
      "redis+unix:", "redis+unix:s3cr3t@/run/redis.sock",
    } do
      refused(url, "invalid_argument", "redis://:PASSWORD@HOST:PORT/0")
    end
  end)

  it("leads nowhere", function()
    refused("redis://:s3cr3t@127.0.0.1:1/0", "storage", "redis://127.0.0.1:1: no connection", "refused")
    refused("redis://joe:s3cr3t@127.0.0.1:1,[::1]:1", "storage", "redis://127.0.0.1:1,::1:1: no connection")
    refused("redis+unix://:s3cr3t@/not/there?db=2", "storage", "redis+unix:/not/there: no connection", "No such file")
    refused("redis+unix:/not/there", "storage", "redis+unix:/not/there: no connection")
  end)

  it("is not that of a cluster, nor one of TLS", function()
    refused("rediss://:s3cr3t@127.0.0.1:1/0", "unsupported", "stunnel")
    refused("redis+cluster://:s3cr3t@127.0.0.1:1", "unsupported", "redis+cluster:")
  end)

  it("keeps a password that has every byte in it out of messages", function()
    local url = os.getenv "MOONPAD_TEST_REDIS"
    if not url then return pending "MOONPAD_TEST_REDIS is not set" end
    refused((url:gsub("secret", "s3cr3t%%40%%3A%%2F%%00")), "invalid_argument")
    refused((url:gsub("secret", "s3cr3t%%40%%3A%%2F%%3F")), "storage", "refuses the user or the password")
  end)
end)
