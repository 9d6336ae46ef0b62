--- The keywords of JSON Schema by what they hold.
return {
  LISTS = { required = true, enum = true, examples = true, propertyOrdering = true },
  LISTS_OF_SCHEMAS = { anyOf = true, oneOf = true, allOf = true, prefixItems = true },
  MAPS = {
    properties = true, patternProperties = true, ["$defs"] = true, definitions = true, dependentSchemas = true,
  },
  SCHEMAS = {
    items = true, additionalProperties = true, ["not"] = true, ["if"] = true, ["then"] = true, ["else"] = true,
    contains = true, propertyNames = true, unevaluatedProperties = true, unevaluatedItems = true,
  },
}
