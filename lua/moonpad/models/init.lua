--- The models that come with moonpad, each loaded when it is first used.
---@class moonpad.Models
---@field openai fun(options: moonpad.ModelOptions): moonpad.HttpModel OpenAI, and what speaks like it
---@field gemini fun(options: moonpad.ModelOptions): moonpad.HttpModel
---@field anthropic fun(options: moonpad.ModelOptions): moonpad.HttpModel
---@field fallback fun(models: moonpad.ModelLike[]): moonpad.Model asks the next one where one cannot answer
---@field scripted fun(answers: moonpad.ScriptedReply[]): moonpad.ScriptedModel gives one answer after the other

local ADAPTERS = { anthropic = true, fallback = true, gemini = true, openai = true, scripted = true }

return setmetatable({}, {
  __index = function(self, name)
    if not ADAPTERS[name] then return nil end
    local new = require("moonpad.models." .. name).new
    local function value(options) return new(options) end
    rawset(self, name, value)
    return value
  end,
}) --[[@as moonpad.Models]]
