-- URLs of Redis: what is wrong with one is said before a server is asked, without a password.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local wrongUrls = require "spec.support.wrong_urls"

local raises = checks.raises

-- Nobody listens there.
local NOBODY <const> = "redis://:s3cr3t@127.0.0.1:1/0"
local EXPECTED <const> = "redis://:PASSWORD@HOST:PORT/0"
local CLUSTER <const> = "redis+cluster://:PASSWORD@HOST:PORT,HOST:PORT"

local WRONG <const> = {
  { "redis://", EXPECTED },
  { "redis:", EXPECTED },
  { "redis:localhost", EXPECTED },
  { "redis://:s3cr3t@", EXPECTED },
  { "redis://:s3cr3t@host:x/0", EXPECTED },
  { "redis://:s3@cr3t@host/0", EXPECTED },
  { "redis://:s3cr3t@host:70000/0", EXPECTED },
  { "redis://:s3cr3t@[::1/0", EXPECTED },
  { "redis://:s3%zzcr3t@host/0", EXPECTED },
  { "redis://:s3cr3t?@host/0", EXPECTED },
  { "redis://:s3cr3t%00@host/0", EXPECTED },
  { "redis+unix:", EXPECTED },
  { "redis+unix:s3cr3t@/run/redis.sock", EXPECTED },
  { "redis://:s3cr3t@127.0.0.1:1/db", "whole number" },
  { "redis://:s3cr3t@127.0.0.1:1/-1", "whole number" },
  { NOBODY .. "?pol=4", { '"pol"', "did you mean pool" } },
  { NOBODY .. "?prefx=4", { '"prefx"', "did you mean prefix" } },
  { NOBODY .. "?replicsa=4", { '"replicsa"', "did you mean replicas" } },
  { NOBODY .. "?completelydifferent=1", '"completelydifferent"' },
  { NOBODY .. "?password=s3cr3t", '"password"' },
  { NOBODY .. "?pool=0", "from 1 to 64" },
  { NOBODY .. "?pool=x", "from 1 to 64" },
  { NOBODY .. "?pool=1&pool=2", "pool twice" },
  { NOBODY .. "?strict=perhaps", "on or off" },
  { NOBODY .. "?migrate=2", "on or off" },
  { NOBODY .. "?replicas=-1", "from 0 to 100" },
  { NOBODY .. "?prefix=a{b}", "option prefix: expects" },
  { NOBODY .. "?prefix=a*", "option prefix: expects" },
  { NOBODY .. "?db=1", "names a database behind its host" },
  { NOBODY .. "\0?pool=4", "has a NUL" },
  { NOBODY .. "?shard=app", "shard: is one of redis+cluster:" },
  { "redis+cluster:", CLUSTER },
  { "redis+cluster:/run/redis.sock", CLUSTER },
  { "redis+cluster://:s3cr3t@", CLUSTER },
  { "redis+cluster://:s3cr3t@127.0.0.1:1,", CLUSTER },
  { "redis+cluster://:s3cr3t@127.0.0.1:1/0", "one database" },
  { "redis+cluster://:s3cr3t@127.0.0.1:1?db=1", "one database" },
  { "redis+cluster://:s3cr3t@127.0.0.1:1?shard=all", "shard: expects app" },
}

describe("a URL of Redis", function()
  after_each(support.cleanup)

  wrongUrls(WRONG)

  it("without anybody there is storage, at once", function()
    local told = {
      [NOBODY] = { "redis://127.0.0.1:1: no connection", "refused" },
      ["redis://joe:s3cr3t@127.0.0.1:1,[::1]:1"] = "redis://127.0.0.1:1,::1:1: no connection",
      ["redis+unix://:s3cr3t@/not/there?db=2"] = { "redis+unix:/not/there: no connection", "No such file" },
      ["redis+unix:/not/there"] = "redis+unix:/not/there: no connection",
      ["redis+cluster://:s3cr3t@127.0.0.1:1,[::1]:1"] = "redis+cluster://127.0.0.1:1,::1:1: no connection",
    }
    for url, text in pairs(told) do
      local err = raises("storage", text, moonpad.open, url)
      assert.is_nil(tostring(err):find("s3cr3t", 1, true))
    end
  end)

  it("may not ask for what this version does not have", function()
    raises("unsupported", "shard=app", moonpad.open, "redis+cluster://:s3cr3t@127.0.0.1:1?shard=user")
  end)

  it("with TLS asks for files, or says that hiredis has none", function()
    local told = {
      ["rediss://:s3cr3t@127.0.0.1:1/0"] = { "storage", { "rediss://127.0.0.1:1: no connection", "refused" } },
      ["rediss:/run/redis.sock"] = { "invalid_argument", "rediss://:PASSWORD@HOST:PORT/0" },
      ["rediss://:s3cr3t@127.0.0.1:1/0?ca=/not/there"] = { "invalid_argument", "option ca: /not/there" },
      ["rediss://:s3cr3t@127.0.0.1:1/0?cart=x"] = { "invalid_argument", "did you mean cert" },
    }
    for url, says in pairs(told) do
      if not support.hasRedisTls() then says = { "unsupported", { "hiredis that has no TLS", "stunnel" } } end
      for _, open in ipairs { moonpad.open, moonpad.artifactService, moonpad.memoryService } do
        local err = raises(says[1], says[2], open, url)
        assert.is_nil(tostring(err):find("s3cr3t", 1, true))
      end
    end
    raises("invalid_argument", "ca: is one of rediss:", moonpad.open, NOBODY .. "?ca=/ca.pem")
  end)

  it("has a password of any bytes, which no message shows", function()
    local url = os.getenv "MOONPAD_TEST_REDIS"
    if not url then return pending "MOONPAD_TEST_REDIS is not set" end
    local err = raises("storage", "refuses the user or the password", moonpad.open,
      (url:gsub("secret", "s3cr3t%%40%%3A%%2F%%3F")))
    assert.is_nil(tostring(err):find("s3cr3t", 1, true))
  end)
end)
