-- URLs of MariaDB and MySQL: what is wrong with one is said before a server is asked, without a
-- password.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local wrongUrls = require "spec.support.wrong_urls"

local raises = checks.raises

-- Nobody listens there.
local NOBODY <const> = "mysql://ann:s3cr3t@127.0.0.1:1/shop"

local WRONG <const> = {
  { "mysql:", "the URL is not valid" },
  { "mysql:shop", "the URL is not valid" },
  { "mysql://ann:s3cr3t@127.0.0.1:1", "the URL is not valid" },
  { "mysql://ann:s3cr3t@127.0.0.1:1/", "the URL is not valid" },
  { "mysql://ann:s3cr3t@127.0.0.1:1/shop/more", "the URL is not valid" },
  { "mysql://ann:s3@cr3t@127.0.0.1:1/shop", "an @ is %40" },
  { "mysql://ann:s3%zcr3t@127.0.0.1:1/shop", "the URL is not valid" },
  { "mysql://ann:s3%00cr3t@127.0.0.1:1/shop", "the URL is not valid" },
  { "mysql://ann:s3?cr3t@127.0.0.1:1/shop", "a ? is %3F" },
  { "mysql://ann:s3cr3t@127.0.0.1:0/shop", "the URL is not valid" },
  { "mysql://ann:s3cr3t@127.0.0.1:65536/shop", "the URL is not valid" },
  { "mysql://ann:s3cr3t@127.0.0.1:x/shop", "the URL is not valid" },
  { "mysql://ann:s3cr3t@127.0.0.1:/shop", "the URL is not valid" },
  { "mysql://ann:s3cr3t@one,/shop", "the URL is not valid" },
  { "mysql://ann:s3cr3t@,two/shop", "the URL is not valid" },
  { "mysql://ann:s3cr3t@[::1/shop", "the URL is not valid" },
  { "mysql://ann:s3cr3t@[::1]x/shop", "the URL is not valid" },
  { NOBODY .. "?pol=4", { '"pol"', "did you mean pool" } },
  { NOBODY .. "?password=s3cr3t", '"password"' },
  { NOBODY .. "?completelydifferent=1", '"completelydifferent"' },
  { NOBODY .. "?pool=0", "pool: expects a whole number from 1 to 64" },
  { NOBODY .. "?pool=", "pool has no value" },
  { NOBODY .. "?pool=2&pool=2", "pool twice" },
  { NOBODY .. "?prefix=" .. ("x"):rep(21), "at most 20 letters" },
  { NOBODY .. "?prefix=a-b", "at most 20 letters, digits and underscores" },
  { NOBODY .. "?prefix=%27", "at most 20 letters, digits and underscores" },
  { NOBODY .. "\0?pool=4", "has a NUL" },
  { NOBODY .. "?migrate=perhaps", "migrate: expects on or off" },
  { NOBODY .. "?strict=very", "strict: expects on or off" },
  { NOBODY .. "?ssl=maybe", "ssl: expects off, on or verify-full" },
  { NOBODY .. "?ca=/ca.pem", "ca needs ssl=on" },
  { NOBODY .. "?socket=/tmp/s", "the URL has a host as well" },
}

describe("a URL of MariaDB", function()
  wrongUrls(WRONG)

  it("without anybody there is storage, at once", function()
    for _, url in ipairs { NOBODY, "mysql://ann:s3cr3t@[::1]:1/shop", "mysql://ann:s3cr3t@127.0.0.1:1,[::1]:1/shop",
      "mysql://ann:s3cr3t@/shop?socket=/nowhere/at/all" } do
      -- Whoever tried again until the time is over would do so for minutes.
      local before = moonpad.clock()
      local err = raises("storage", "no connection", moonpad.open, url, { busyTimeoutMs = 600000 })
      assert.is_nil(tostring(err):find("s3cr3t", 1, true))
      assert.is_true(moonpad.clock() - before < 300)
    end
  end)

  it("takes a configuration as all others", function()
    raises("invalid_argument", "durabilty", moonpad.open, NOBODY, { durabilty = "full" })
  end)
end)

support.each_store(function(open, store)
  if store ~= "mysql:" then return end

  describe("a prefix", function()
    it("keeps others apart in one database, and is not made where that is forbidden", function()
      local one <close> = open()
      checks.create(one)
      local url = support.freshUrl(store)
      raises("unsupported", { "no tables", "migrate=off" }, moonpad.open, url .. "?migrate=off")
      local two <close> = moonpad.open(url .. "?prefix=a_")
      local three <close> = moonpad.open(url .. "?prefix=b_")
      checks.create(two, nil, { n = 1 })
      checks.create(three, nil, { n = 2 })
      local again <close> = moonpad.open(url .. "?prefix=a_&migrate=off")
      assert.equal(1, again:listSessions({ appName = "app" })[1].state.n)
      raises("unsupported", "no tables", moonpad.open, url .. "?migrate=off")
    end)
  end)
end)
