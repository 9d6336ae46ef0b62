-- URLs of PostgreSQL: what is wrong with one is said before a server is asked, without a password.
local checks = require "spec.support.checks"
local moonpad = require "moonpad"
local support = require "spec.support"
local wrongUrls = require "spec.support.wrong_urls"

local raises = checks.raises

-- Nobody listens there.
local NOBODY <const> = "postgresql://ann:s3cr3t@127.0.0.1:1/shop"

local WRONG <const> = {
  { "postgresql:", "the URL is not valid" },
  { "postgresql:shop", "the URL is not valid" },
  { "postgresql://ann:s3/cr3t@127.0.0.1:1/shop", "a / is %2F" },
  { "postgresql://ann:s3@cr3t@127.0.0.1:1/shop", "an @ is %40" },
  { "postgresql://ann:s3%zcr3t@127.0.0.1:1/shop", "the URL is not valid" },
  { "postgresql://ann:s3?cr3t@127.0.0.1:1/shop", "a ? is %3F" },
  { "postgresql://ann:s3?cr3t=1@127.0.0.1:1/shop", "a ? is %3F" },
  { NOBODY .. "?pol=4", { '"pol"', "did you mean pool" } },
  { NOBODY .. "?sslmod=require", { '"sslmod"', "did you mean sslmode" } },
  { NOBODY .. "?completelydifferent=1", '"completelydifferent"' },
  { NOBODY .. "?pool=0", "pool: expects a whole number from 1 to 64" },
  { NOBODY .. "?pool=65", "pool: expects a whole number from 1 to 64" },
  { NOBODY .. "?pool=4x", "pool: expects a whole number" },
  { NOBODY .. "?pool=", "pool has no value" },
  { NOBODY .. "?pool=2&pool=2", "pool twice" },
  { NOBODY .. "?schema=%2", "schema is not valid percent-encoding" },
  { NOBODY .. "?schema=%00", "schema is not valid percent-encoding" },
  { NOBODY .. "?schema=" .. ("x"):rep(64), "at most 63 bytes" },
  { NOBODY .. "?schema=pg_moonpad", "names that begin with pg_" },
  { NOBODY .. "?schema=%ff", "not valid UTF-8" },
  { NOBODY .. "\0?pool=4", "has a NUL" },
  { NOBODY .. "?migrate=perhaps", "migrate: expects on or off" },
  { NOBODY .. "?strict=very", "strict: expects on or off" },
  { NOBODY .. "?sslmode=s3cr3t", "sslmode" },
}

describe("a URL of PostgreSQL", function()
  wrongUrls(WRONG)

  it("without anybody there is storage, at once", function()
    for _, url in ipairs { NOBODY, (NOBODY:gsub("postgresql", "postgres")), NOBODY .. "?schema=a%20b&pool=1" } do
      -- Whoever tried again until the time is over would do so for minutes.
      local before = moonpad.clock()
      local err = raises("storage", { "postgresql://127.0.0.1:1/shop", "refused" }, moonpad.open, url,
        { busyTimeoutMs = 600000 })
      assert.is_nil(tostring(err):find("s3cr3t", 1, true))
      assert.is_true(moonpad.clock() - before < 300)
    end
  end)

  it("takes a configuration as all others", function()
    raises("invalid_argument", "durabilty", moonpad.open, NOBODY, { durabilty = "full" })
    raises("invalid_argument", "argument 3", moonpad.open, NOBODY, nil, 1)
  end)
end)

support.each_store(function(open, store)
  if store ~= "postgresql:" then return end

  describe("a schema", function()
    it("may have any name, and is not made where that is forbidden", function()
      open():close() -- somebody has to be there
      local url = support.freshUrl(store)
      local other = url:gsub("schema=", "schema=%%22a%%20")
      raises("unsupported", { "no schema", "migrate=off" }, moonpad.open, other .. "&migrate=off")
      moonpad.open(other):close()
      local service <close> = moonpad.open(other .. "&migrate=off")
      assert.equal(0, checks.create(service).revision)
      raises("unsupported", "no schema", moonpad.open, url .. "&migrate=off")
      require("spec.servers").forget((url:gsub("^%a+:", ""):gsub("schema=", 'schema="""a '):gsub("$", '"')))
    end)

    it("keeps others apart", function()
      local one, two = open(), open()
      checks.create(one)
      assert.equal(0, #two:listSessions { appName = "app" })
    end)
  end)
end)
