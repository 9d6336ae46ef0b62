--- Summarizers: when a long history is compacted, and how (contract 5). What a run does with one is
--- in runtime/summarize.lua.
local fields = require "moonpad.schema.fields"
local modelLike = require "moonpad.models.model_like"

local summarizers = {}

---@class moonpad.SummarizerDefinition
---@field model moonpad.ModelLike asked for the summaries
---@field maxTurns integer? so many turns that no summary covers yet bring a summary about
---@field maxEvents integer? so many events
---@field maxChars integer? so many characters in the texts, calls and responses of these events
---@field maxSeconds number? so many seconds since the oldest of these events
---@field maxTokens integer? so many tokens in the last prompt, by its usageMetadata
---@field combine "any"|"all"|nil of several limits: default "any"
---@field keepRecentTurns integer? the last turns stay as they are; default 2
---@field prompt string? what the model is told in place of moonpad's own words

---@class moonpad.Summarizer: moonpad.SummarizerDefinition
---@field package name string
local Summarizer = { __name = "moonpad.summarizer" }
Summarizer.__index = Summarizer

local LIMITS <const> = { "maxTurns", "maxEvents", "maxChars", "maxSeconds", "maxTokens" }

local POSITIVE <const> = {
  is = function(value) return type(value) == "number" and value > 0 and value < math.huge end, showsValue = true,
  what = "a positive number",
}

local FIELDS = fields.new {
  { "model", modelLike.check, required = true },
  { "maxTurns", fields.integerFrom(1) },
  { "maxEvents", fields.integerFrom(1) },
  { "maxChars", fields.integerFrom(1) },
  { "maxSeconds", POSITIVE },
  { "maxTokens", fields.integerFrom(1) },
  { "combine", fields.oneOf { "any", "all" }, default = "any" },
  { "keepRecentTurns", fields.integerFrom(0), default = 2 },
  { "prompt", fields.text, isText = true },
}:describes "moonpad.SummarizerDefinition"

---The limits that a summarizer has.
---@param self moonpad.Summarizer
---@return string[]
function summarizers.limitsOf(self)
  local list = {}
  for _, limit in ipairs(LIMITS) do
    if self[limit] then list[#list + 1] = limit end
  end
  return list
end

---Makes a summarizer for a runner: with it, a long history is compacted after a run.
---@param definition moonpad.SummarizerDefinition
---@return moonpad.Summarizer
function summarizers.define(definition)
  local self = FIELDS:take(definition, "summarizer")
  if #summarizers.limitsOf(self) == 0 then
    fields.refuse("summarizer", "says nothing of when; give it at least one of " .. table.concat(LIMITS, ", "))
  end
  self.name = "summarizer"
  return setmetatable(self, Summarizer)
end

---@param value any
---@return boolean
function summarizers.is(value)
  return getmetatable(value) == Summarizer
end

return summarizers
