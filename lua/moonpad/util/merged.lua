--- Two tables of named fields as one.

---@param first table?
---@param second table? whose fields count where both have one
---@return table merged a new table
return function(first, second)
  local result = {}
  for key, value in pairs(type(first) == "table" and first or {}) do result[key] = value end
  for key, value in pairs(type(second) == "table" and second or {}) do result[key] = value end
  return result
end
