--- Is all that a test wants in what is there? Other keys may be there as well.

---@param wanted any
---@param there any
---@return boolean
local function includesAll(wanted, there)
  if type(wanted) ~= "table" or type(there) ~= "table" then return wanted == there end
  for key, value in pairs(wanted) do
    if not includesAll(value, there[key]) then return false end
  end
  return true
end

return includesAll
