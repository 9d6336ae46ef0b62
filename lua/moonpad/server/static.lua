--- The files of ADK's web UI, from a folder, below /dev-ui/.
local core = require "moonpad.core"
local failure = require "moonpad.server.failure"

local static = {}

local TYPES = {
  html = "text/html; charset=utf-8", js = "text/javascript; charset=utf-8", mjs = "text/javascript; charset=utf-8",
  css = "text/css; charset=utf-8", json = "application/json", svg = "image/svg+xml", png = "image/png",
  jpg = "image/jpeg", gif = "image/gif", webp = "image/webp", ico = "image/x-icon", woff = "font/woff",
  woff2 = "font/woff2", ttf = "font/ttf", wasm = "application/wasm", txt = "text/plain; charset=utf-8",
  map = "application/json",
}

-- The UI's own scripts compile WebAssembly and load their styles by an attribute.
local POLICY = {
  "Content-Security-Policy", "default-src 'self'; style-src 'self' 'unsafe-inline'; "
    .. "script-src 'self' 'unsafe-inline' 'wasm-unsafe-eval'; img-src 'self' data: blob:; "
    .. "media-src 'self' data: blob:; "
    .. "font-src 'self' data:; connect-src 'self'; worker-src 'self' blob:; frame-ancestors 'none'",
  "Cache-Control", "no-cache",
}

-- Nothing but names: none that leads out of the folder, and none that is hidden.
local function pathOf(folder, segments)
  local list = {}
  for index, segment in ipairs(segments) do
    if segment:find "[/\\]" or segment:find "^%." then failure.raise(404, "there is no such file") end
    if segment ~= "" then
      list[#list + 1] = segment
    elseif index < #segments then
      failure.raise(404, "there is no such file")
    end
  end
  if #list == 0 then list[1] = "index.html" end
  return folder .. "/" .. table.concat(list, "/"), list[#list]
end

-- The fonts of the UI's page come from another host: without them it asks nobody else.
local function withoutHosts(html)
  html = html:gsub("<style[^>]*>%s*@font%-face.-</style>", "")
  return (html:gsub('<link[^>]-https?://[^>]->', ""))
end

local function read(path)
  local file <close> = core.openFile(path, "rb")
  -- (A folder can be opened, and not be read.)
  local text = file and file:read "a"
  if not text then failure.raise(404, "there is no such file") end
  return text
end

---@param folder string
---@return table[] routes
function static.routes(folder)
  local function serve(call)
    local segments = table.move(call.segments, 2, #call.segments, 1, {})
    local path, name = pathOf(folder, segments)
    local text = read(path)
    if name == "index.html" then text = withoutHosts(text) end
    return 200, call.raw(TYPES[name:match "%.(%w+)$"] or "application/octet-stream", text, POLICY)
  end
  local function lead(call)
    return 301, call.raw("text/plain", "", { "Location", "/dev-ui/" })
  end
  return {
    { "GET", "/dev-ui", lead, isOpen = true },
    { "GET", "/dev-ui/", serve, isOpen = true },
    { "GET", "/dev-ui/{file*}", serve, isOpen = true },
  }
end

---@param folder string
---@return boolean isThere whether it looks like the UI
function static.isThere(folder)
  local file <close> = core.openFile(folder .. "/index.html", "rb")
  return file ~= nil
end

return static
