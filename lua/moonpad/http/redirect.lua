--- Following a redirection without telling a stranger what was meant for somebody else.
local redirect = {}

local MAX_HOPS = 5

local STATUSES = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }

-- Harmless anywhere. Whatever else there is may be a key: providers use header names of their own
-- for them.
local FOR_STRANGERS = { ["accept"] = true, ["content-type"] = true, ["user-agent"] = true }

---@param status integer
---@return boolean
function redirect.isRedirect(status)
  return STATUSES[status] == true
end

local DEFAULT_PORTS = { http = "80", https = "443" }

local function parse(url)
  local scheme, authority = url:lower():match "^(%a[%w+.-]*)://([^/?#]*)"
  if not scheme then return nil end
  authority = authority:match "@(.*)$" or authority
  local host, port = authority:match "^(.*):(%d*)$"
  return { scheme = scheme, host = host or authority, port = port ~= "" and port or DEFAULT_PORTS[scheme] }
end

-- From http to https on the same host is what servers do with a name that was typed: nothing
-- becomes less safe by it.
local function isUpgrade(from, to)
  return from.scheme == "http" and to.scheme == "https" and from.host == to.host
end

-- May the headers go along? To the same place, or from the usual port to the usual port: behind
-- another one, somebody else may listen.
local function isSamePlace(from, to)
  if from.host ~= to.host then return false end
  return from.port == to.port or isUpgrade(from, to) and from.port == "80" and to.port == "443"
end

-- The method that the next request has: what browsers made of 301 and 302 has become the rule (RFC
-- 9110, 15.4).
local function withoutBody(status, method)
  return status == 303 and method ~= "HEAD" or (status == 301 or status == 302) and method == "POST"
end

---Changes the plan of a request so that it goes where it was sent to.
---@param plan table
---@param status integer
---@param target string? an absolute URL
---@return string? problem why it must not go there
function redirect.follow(plan, status, target)
  plan.hops = (plan.hops or 0) + 1
  if plan.hops > MAX_HOPS then return ("redirected more than %d times"):format(MAX_HOPS) end
  local from, to = parse(plan.url), parse(target or "")
  if not to then return "redirected without an address" end
  if to.scheme ~= from.scheme and not isUpgrade(from, to) then
    return ("redirected from %s to %s, which is refused"):format(from.scheme, to.scheme)
  end
  if not isSamePlace(from, to) then
    for name in pairs(plan.headers) do
      if not FOR_STRANGERS[name] then plan.headers[name] = nil end
    end
  end
  if withoutBody(status, plan.method) then
    plan.method, plan.body, plan.headers["content-type"] = "GET", nil, nil
  end
  plan.url = target
  return nil
end

return redirect
