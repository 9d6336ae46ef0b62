-- The demonstration, on the stores that it knows.
local support = require "spec.support"
local turns = require "spec.support.turns"

turns.quickRunsOneIn(4)

local STORES = { { name = "sqlite" } }
for _, store in ipairs(support.withServers {}) do STORES[#STORES + 1] = { name = store.name:gsub(":$", "") } end

local function demo(arguments)
  local build = os.getenv "MOONPAD_BUILD" or "build"
  -- Bash leaves memory behind, which is none of ours.
  local pipe <close> = assert(io.popen(('ASAN_OPTIONS="${ASAN_OPTIONS:-}:detect_leaks=0" scripts/demo.sh -b %s %s 2>&1')
    :format(support.quote(build), arguments)))
  local said = pipe:read "a"
  return select(3, pipe:close()), said
end

describe("the demonstration", function()
  for _, store in ipairs(STORES) do
    it("shows a guest who is remembered, on " .. store.name, function()
      local code, said = demo("-s " .. store.name)
      assert.equal(0, code, said)
      for _, text in ipairs { "Welcome to Hotel Moonpad. This is visit 1.", "Welcome back, Ann. This is visit 2.",
        'user:name = "Ann"', "The demonstration is over" } do
        assert.is_truthy(said:find(text, 1, true), text)
      end
      assert.is_nil(said:find("secret", 1, true))
    end)
  end

  it("says which stores there are", function()
    local code, said = demo "-s oracle"
    assert.equal(2, code)
    assert.matches("there is sqlite", said)
  end)

  it("says before all else that there is no such store", function()
    local code, said = demo "-n -s oracle"
    assert.equal(2, code)
    assert.matches("STORE=oracle: there is sqlite, postgresql, mysql and redis", said, 1, true)
    assert.same({ 0, "" }, { demo "-n -s redis" })
  end)
end)

---- What it installs: nothing here, where stand-ins for dpkg-query and apt-get are found first

local SYSTEM <const> = {
  id = "echo 0",
  node = "exit 1", npm = "exit 1",
  ["dpkg-query"] = [[
    for package; do :; done
    case " $INSTALLED " in *" $package "*) echo installed ;; *) exit 1 ;; esac]],
  ["apt-get"] = [[echo "apt-get $*"]],
}

-- Without a sanitizer: shells leave memory behind, which is none of ours.
local function shell(script)
  return assert(io.popen("exec env -u LD_PRELOAD sh -c " .. support.quote(script)))
end

-- Runs scripts/deps.sh where `system` has these programs, name -> script, beside the usual ones.
local function deps(arguments, system, installed)
  local folder = support.tmpdir()
  for name, script in pairs(system) do
    local file <close> = assert(io.open(folder .. "/" .. name, "w"))
    file:write("#!/bin/sh\n", script, "\n")
  end
  local pipe <close> = shell(([[
    cd %s && chmod +x * 2>/dev/null
    for name in sh dirname cat cut uniq tr sed env; do ln -s "$(command -v $name)" .; done
    cd "$OLDPWD" && INSTALLED=%s PATH=%s sh scripts/deps.sh %s 2>&1]])
    :format(support.quote(folder), support.quote(installed or ""), support.quote(folder), arguments))
  local said = pipe:read "a"
  return select(3, pipe:close()), said
end

local function packages(arguments)
  local pipe <close> = shell("scripts/deps.sh -n " .. arguments)
  local list = {}
  for package in pipe:read("a"):gmatch "%S+" do list[#list + 1] = package end
  assert.is_true(pipe:close())
  return list
end

describe("scripts/deps.sh", function()
  after_each(support.cleanup)

  local GROUPS <const> = { "build", "modules", "postgresql", "mysql", "redis", "tests" }
  local BUILD <const> = "make gcc libc6-dev pkg-config lua5.4 liblua5.4-dev libsqlite3-dev lua-argparse"

  it("has each package in one group", function()
    for _, all in ipairs { "checks", "platforms" } do
      local seen = {}
      for _, package in ipairs(packages(all)) do
        assert.is_nil(seen[package], package)
        seen[package] = true
      end
    end
  end)

  it("takes without a group what the tests need", function()
    assert.same(packages(table.concat(GROUPS, " ")), packages "")
    assert.same(packages "postgresql mysql redis", packages "servers")
  end)

  it("installs what is missing of the groups, and nothing of others", function()
    local code, said = deps("build redis", SYSTEM, BUILD:gsub(" lua5.4 ", " "))
    assert.equal(0, code)
    assert.matches("Installing missing packages: lua5.4 libhiredis-dev redis-tools\n", said, 1, true)
    assert.matches("apt%-get [^\n]*install [^\n]*%-recommends lua5.4 libhiredis%-dev redis%-tools\n$", said)
  end)

  it("asks for nothing where all is there", function()
    assert.same({ 0, "All needed packages are installed.\n" }, { deps("build", SYSTEM, BUILD) })
  end)

  it("names the packages of the groups where there is no apt", function()
    local code, said = deps("build", {})
    assert.equal(1, code)
    assert.matches("no apt", said)
    assert.matches("\n  " .. BUILD .. "\n", said, 1, true)
  end)

  it("names the missing packages to those who may not install", function()
    local system = { id = "echo 1000" }
    for name, script in pairs(SYSTEM) do system[name] = system[name] or script end
    local code, said = deps("build", system, BUILD:gsub("make gcc", ""))
    assert.equal(1, code)
    assert.matches("Only root .*\n  apt%-get install %-%-no%-install%-recommends make gcc\n$", said)
  end)

  it("refuses an unknown group", function()
    local code, said = deps("build check", SYSTEM)
    assert.equal(2, code)
    assert.equal("scripts/deps.sh: there is no group 'check'. There are: "
      .. table.concat(GROUPS, " ") .. " checks platforms peers servers\n", said)
  end)
end)
