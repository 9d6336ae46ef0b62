--- A store that loses events, as after a failover or when a backup is restored: it is kept, and put
--- back under the session objects that know more.
local support = require "spec.support"

local quote = support.quote

local setBack = {}

local TABLES <const> = { "apps", "users", "sessions", "state", "base_state", "events" }

local function run(command)
  assert(os.execute(command), command)
end

local function runSql(url, schema, statements)
  local sql = ("SET client_min_messages = error; SET search_path = %s; BEGIN; %s COMMIT"):format(schema, statements)
  run(support.psql(url, ("-c %s >/dev/null"):format(quote(sql))))
end

local function onServer(rest)
  local url, schema = rest:match "^(.*)[?&]schema=([%w_]+)$"
  local server = "postgresql:" .. assert(url)
  local function forEach(format)
    local statements = {}
    for index, name in ipairs(TABLES) do statements[index] = format:gsub("NAME", name) end
    runSql(server, schema, table.concat(statements))
  end
  return {
    keep = function() forEach "DROP TABLE IF EXISTS kept_NAME; CREATE TABLE kept_NAME AS TABLE NAME;" end,
    putBack = function()
      forEach "DELETE FROM NAME; INSERT INTO NAME OVERRIDING SYSTEM VALUE SELECT * FROM kept_NAME;"
    end,
  }
end

local function onMysql(url)
  local function forEach(format)
    local statements = {}
    for index, name in ipairs(TABLES) do statements[index] = format:gsub("NAME", name) end
    run(support.mariadb(url, "-e " .. quote("START TRANSACTION; " .. table.concat(statements) .. " COMMIT")))
  end
  return {
    keep = function()
      forEach "DROP TABLE IF EXISTS kept_NAME; CREATE TABLE kept_NAME AS SELECT * FROM moonpad_NAME;"
    end,
    putBack = function() forEach "DELETE FROM moonpad_NAME; INSERT INTO moonpad_NAME SELECT * FROM kept_NAME;" end,
  }
end

-- A copy of all keys of a place, in the place itself.
local COPY <const> = [[
local from, to, other = ARGV[1], ARGV[2], ARGV[3]
local function is(key, begin) return string.sub(key, 1, #begin) == begin end
local function each(begin, without, call)
  for _, key in ipairs(redis.call('KEYS', begin .. '*')) do
    if is(key, begin) and not (without ~= '' and is(key, without)) then call(key) end
  end
end
each(to, other, function(key) redis.call('UNLINK', key) end)
each(from, other == '' and to or '', function(key)
  local copied = to .. string.sub(key, #from + 1)
  redis.call('RESTORE', copied, 0, redis.call('DUMP', key), 'REPLACE')
end)
return 'done']]

local function onRedis(url)
  local prefix = assert(url:match "prefix=([%w_:]+)")
  local kept = prefix .. "kept!"
  local function copy(from, to, other)
    run(support.redis(url, ("EVAL %s 0 %s %s %s"):format(quote(COPY), from, to, quote(other))) .. " | grep -q done")
  end
  return {
    keep = function() copy(prefix, kept, "") end,
    putBack = function() copy(kept, prefix, kept) end,
  }
end

local function onFile(path)
  local kept = path .. ".kept"
  local function sqlite(command) run(("sqlite3 %s %s"):format(quote(path), quote(command))) end
  return {
    keep = function() sqlite(".backup '" .. kept .. "'") end,
    putBack = function() sqlite(".restore '" .. kept .. "'") end,
  }
end

---@param url string of a store in a file, on PostgreSQL, on MariaDB or on Redis
---@return { keep: fun(), putBack: fun() }
function setBack.of(url)
  local path = url:match "^sqlite:(.+)$"
  if url:find "^redis:" then return onRedis(url) end
  if url:find "^mysql:" then return onMysql(url) end
  return path and onFile(path) or onServer((url:gsub("^postgresql:", "")))
end

return setBack
