--- Draws what bench/history.c and bench/peers.cjs print, as an SVG: append and get against the
--- length of the history, both axes logarithmic.
---   lua5.4 bench/plot.lua LINES > docs/history.svg

local WIDTH, HEIGHT, LEFT, TOP, PLOT_WIDTH, PLOT_HEIGHT, GAP = 960, 430, 64, 56, 360, 290, 90
local COLOURS = {
  ["moonpad memory"] = "#1f6feb",
  ["moonpad SQLite"] = "#0b7a3b",
  ["@google/adk"] = "#c2410c",
  ["adk-typescript"] = "#7c3aed",
}
local GREY = "#6b7280"
local X_MAX, Y_MIN, Y_MAX = 6, -1, 6 -- powers of ten: events, microseconds
local X_LABELS = { [0] = "1", "10", "100", "1,000", "10,000", "100,000", "1,000,000" }
local Y_LABELS = { [-1] = "0.1 µs", [0] = "1 µs", "10 µs", "100 µs", "1 ms", "10 ms", "100 ms", "1 s" }

-- name -> { { events, append, get }, ... }, and the names in the order in which they come.
local function readLines(path)
  local series, names = {}, {}
  for line in io.lines(path) do
    local name, events, append, get = line:match "^([^\t]+)\t(%d+)\t([%d.]+)\t([%d.]+)$"
    if not name then error(path .. ": not a line of measurements: " .. line, 0) end
    if not series[name] then
      series[name] = {}
      names[#names + 1] = name
    end
    table.insert(series[name], { events = tonumber(events), append = tonumber(append), get = tonumber(get) })
  end
  return series, names
end

local function log10(value) return math.log(value, 10) end

local function xOf(left, events) return left + log10(events) / X_MAX * PLOT_WIDTH end

local function yOf(microseconds) return TOP + (Y_MAX - log10(microseconds)) / (Y_MAX - Y_MIN) * PLOT_HEIGHT end

local out = {}
local function put(format, ...) out[#out + 1] = format:format(...) end

local function text(x, y, anchor, size, colour, words)
  put('<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%d" fill="%s">%s</text>', x, y, anchor, size, colour, words)
end

local function drawAxes(left, title)
  text(left, TOP - 18, "start", 15, "#111827", title)
  for power = Y_MIN, Y_MAX do
    local y = yOf(10.0 ^ power)
    put('<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#e5e7eb"/>', left, y, left + PLOT_WIDTH, y)
    text(left - 8, y + 4, "end", 11, GREY, Y_LABELS[power])
  end
  for power = 0, X_MAX do
    text(xOf(left, 10 ^ power), TOP + PLOT_HEIGHT + 18, "middle", 11, GREY, X_LABELS[power])
  end
  text(left + PLOT_WIDTH / 2, TOP + PLOT_HEIGHT + 38, "middle", 12, GREY, "events of history")
end

local function drawLine(left, points, field, colour)
  local places = {}
  for index, point in ipairs(points) do
    places[index] = ("%.1f,%.1f"):format(xOf(left, point.events), yOf(point[field]))
  end
  put('<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>', table.concat(places, " "), colour)
  for _, place in ipairs(places) do
    put('<circle cx="%s" cy="%s" r="3" fill="%s"/>', place:match "^[^,]+", place:match "[^,]+$", colour)
  end
end

local function drawLegend(names)
  local x = LEFT
  for _, name in ipairs(names) do
    put('<rect x="%d" y="%d" width="12" height="12" fill="%s"/>', x, HEIGHT - 22, COLOURS[name] or GREY)
    text(x + 18, HEIGHT - 12, "start", 12, "#111827", name)
    x = x + 40 + 8 * #name
  end
end

local series, names = readLines(assert(arg[1], "usage: lua5.4 bench/plot.lua LINES > FILE.svg"))
put('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif">', WIDTH, HEIGHT)
put '<rect width="100%%" height="100%%" fill="white"/>'
for index, panel in ipairs { { "append", "append of one event (median)" }, { "get", "getSession (median)" } } do
  local left = LEFT + (index - 1) * (PLOT_WIDTH + GAP)
  drawAxes(left, panel[2])
  for _, name in ipairs(names) do drawLine(left, series[name], panel[1], COLOURS[name] or GREY) end
end
drawLegend(names)
put "</svg>"
io.write(table.concat(out, "\n"), "\n")
