--- Following a redirection without telling a stranger what was meant for somebody else.
local redirect = {}

local MAX_HOPS = 5

local STATUSES = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }

-- Harmless anywhere. Whatever else there is may be a key: providers use header names of their own for them.
local FOR_STRANGERS = { ["accept"] = true, ["content-type"] = true, ["user-agent"] = true }

---@param status integer
---@return boolean
function redirect.isRedirect(status)
  return STATUSES[status] == true
end

local function parse(url)
  local scheme, authority = url:lower():match "^(%a[%w+.-]*)://([^/?#]*)"
  if not scheme then return nil, nil end
  local host = authority:match "@(.*)$" or authority
  if not host:find ":%d+$" then host = host .. (scheme == "https" and ":443" or ":80") end
  return scheme, host
end

-- The method that the next request has: what browsers made of 301 and 302 has become the rule (RFC 9110, 15.4).
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
  local scheme, host = parse(target or "")
  if not scheme then return "redirected without an address" end
  local ownScheme, ownHost = parse(plan.url)
  if scheme ~= ownScheme then return ("redirected from %s to %s, which is refused"):format(ownScheme, scheme) end
  if host ~= ownHost then
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
