-- A disk that is really full: a small file system in memory, mounted for a process of its own.
-- Where that is not allowed, C tests have the same with a limit on file sizes
-- (spec/c/test_sqlite_life.c) and with a file system that says so (spec/c/test_faults_disk.c).
local support = require "spec.support"
local turns = require "spec.support.turns"

local quote = support.quote

-- As root a mount of one's own is enough; anybody else becomes root of a name space of their own,
-- where the kernel allows it.
local function unshare()
  for _, how in ipairs { "unshare --mount", "unshare --user --map-root-user --mount" } do
    if os.execute(how .. " mount -t tmpfs none /mnt 2>/dev/null >&2") then return how end
  end
end

describe("a full disk", function()
  after_each(support.cleanup)

  -- Runs a helper on a small disk of its own.
  local function run(size, helper, ...)
    local how = unshare()
    if not how then return pending "no file system may be mounted here" end
    local folder = support.tmpdir()
    local mounted = [[mount -t tmpfs -o mode=755,size="$1" none "$2" && shift 2 && exec "$@"]]
    local words = { how, "sh -c", quote(mounted), "sh", size, quote(folder), "env",
      "LUA_PATH=" .. quote(package.path), "LUA_CPATH=" .. quote(package.cpath), "lua5.4",
      quote("spec/helpers/" .. helper .. ".lua"), quote(folder), table.concat({ ... }, " "), "2>&1" }
    local pipe = assert(io.popen(table.concat(words, " "), "r"))
    assert.are.equal("ok\n", pipe:read "a")
    assert.is_true(pipe:close())
  end

  it("is `storage`; nothing is lost, and all goes on when there is room", function() run("4m", "fill_disk") end)

  local SERVERS <const> = { { "postgresql", "200m" }, { "mariadb", "400m" }, { "redis", "64m" } }
  for index, server in ipairs(SERVERS) do
    local name, size = table.unpack(server)
    local isDue = not turns.areQuick and turns.isSampleDue(index, #SERVERS)
    turns.it("of a server is `storage` as well #databases: " .. name, isDue, function()
      run(size, "fill_server", name)
    end)
  end
end)
