--- The providers that are known by name or by address: one row each. What a server wants otherwise
--- than its API's maker is said here, and nowhere else.
local providers = {}

---@class moonpad.Provider
---@field name string in front of the slash: "groq/llama-3.3-70b"
---@field adapter string
---@field baseUrl string? of the API; nil: only the variable says it
---@field hosts string[] patterns of the hosts at which it is found by an address
---@field keyVariables string[] of the environment, the first that is set counts
---@field needsKey boolean? false: a server of one's own, which may want none
---@field addressVariable string? of the environment, by which its maker's own programs know another address
---@field address (fun(value: string?, environment: fun(name: string): string?, model: string?): string)? the base that
---that variable means
---@field isComposed boolean? other variables are a part of its address, also where that one is not set
---@field patterns string[]? of names of models that mean this provider without its name in front
---@field except string[]? of names that look like them, and are not
---@field known string? these names, for messages
---@field quirks moonpad.ProviderQuirks?

---What a server wants otherwise than OpenAI's chat completions.
---@class moonpad.ProviderQuirks
---@field maxTokens string? "max_completion_tokens" whatever the model; default: by the name of the model
---@field noStreamOptions boolean? it refuses `stream_options`, and counts tokens without being asked
---@field reasoning string? how `config.reasoning` is spelt: "effort" (`reasoning_effort`; the default), "object"
---(`reasoning = { effort }`), "thinking" (`thinking = { type }`), "switch" (`enable_thinking`)
---@field schema string? "strict": held to a schema; "none": not even asked for one; default: asked for one
---@field schemaWithTools boolean? it takes a schema for the answer beside tools
---@field callIds string? "short": ids of calls are nine letters and digits
---@field seed string? the name of the setting

local function withPath(path)
  return function(value)
    value = value:gsub("/+$", "")
    return value:find(path .. "$") and value or value .. path
  end
end

-- Google's clients name the host, or a gateway, and add the version.
local function withVersion(version)
  return function(value)
    value = value:gsub("/+$", "")
    return value:find "/v%d+%a*%d*$" and value or value .. "/" .. version
  end
end

-- "0.0.0.0" is where a server listens, and no address to ask.
local function ollamaAddress(value)
  local scheme, rest = value:match "^(%a+)://(.*)$"
  local host, path = (rest or value):gsub("/+$", ""):match "^([^/]*)(.*)$"
  host = host:gsub("^0%.0%.0%.0", "127.0.0.1"):gsub("^:", "127.0.0.1:")
  if not host:find ":%d+$" and not scheme then host = host .. ":11434" end
  return (scheme or "http") .. "://" .. host .. path .. (path:find "/v1$" and "" or "/v1")
end

-- The older kind of address names the deployment and a version, the newer one neither.
local function azureAddress(value, environment, deployment)
  value = value:gsub("/+$", "")
  local version = environment "AZURE_OPENAI_API_VERSION" or environment "OPENAI_API_VERSION"
  if value:find "/openai/v1$" or value:find "/openai/deployments/" then return value end
  if not version or version == "v1" or version == "preview" or not deployment then return value .. "/openai/v1" end
  return ("%s/openai/deployments/%s?api-version=%s"):format(value, deployment, version)
end

-- Vertex has an address for each region and project.
local function vertexAddress(value, environment)
  local project = environment "GOOGLE_CLOUD_PROJECT"
  local region = environment "GOOGLE_CLOUD_LOCATION" or "global"
  if not value then
    value = region == "global" and "https://aiplatform.googleapis.com"
      or ("https://%s-aiplatform.googleapis.com"):format(region)
  end
  if value:find "/publishers/" then return value end
  value = withVersion "v1"(value)
  if not project then return value .. "/publishers/google" end
  return ("%s/projects/%s/locations/%s/publishers/google"):format(value, project, region)
end

---@type moonpad.Provider[]
providers.ROWS = {
  {
    name = "openai", adapter = "openai", baseUrl = "https://api.openai.com/v1", hosts = { "%.openai%.com$" },
    keyVariables = { "OPENAI_API_KEY" }, addressVariable = "OPENAI_BASE_URL",
    patterns = { "^gpt%-", "^chatgpt%-", "^o[134]$", "^o[134]%-", "^codex%-", "^ft:" }, except = { "^gpt%-oss" },
    known = "gpt-*, chatgpt-*, o1*, o3*, o4*, codex-*, ft:*",
    quirks = { maxTokens = "max_completion_tokens", schema = "strict", schemaWithTools = true },
  },
  {
    name = "azure", adapter = "openai", addressVariable = "AZURE_OPENAI_ENDPOINT", address = azureAddress,
    hosts = { "%.openai%.azure%.com$", "%.cognitiveservices%.azure%.com$", "%.services%.ai%.azure%.com$" },
    keyVariables = { "AZURE_OPENAI_API_KEY", "AZURE_API_KEY" },
    quirks = { schema = "strict", schemaWithTools = true },
  },
  {
    name = "anthropic", adapter = "anthropic", baseUrl = "https://api.anthropic.com/v1",
    hosts = { "%.anthropic%.com$" }, keyVariables = { "ANTHROPIC_API_KEY" }, addressVariable = "ANTHROPIC_BASE_URL",
    address = withPath "/v1",
    patterns = { "^claude%-" }, known = "claude-*",
  },
  {
    name = "google", adapter = "gemini", baseUrl = "https://generativelanguage.googleapis.com/v1beta",
    hosts = { "^generativelanguage%.googleapis%.com$" }, keyVariables = { "GOOGLE_API_KEY", "GEMINI_API_KEY" },
    addressVariable = "GOOGLE_GEMINI_BASE_URL", address = withVersion "v1beta",
    patterns = { "^gemini%-", "^models/" }, known = "gemini-*, models/*",
  },
  {
    name = "vertex", adapter = "gemini", hosts = { "aiplatform%.googleapis%.com$" },
    baseUrl = "https://aiplatform.googleapis.com/v1/publishers/google",
    keyVariables = { "CLOUDSDK_AUTH_ACCESS_TOKEN", "GOOGLE_API_KEY" }, addressVariable = "GOOGLE_VERTEX_BASE_URL",
    address = vertexAddress, isComposed = true,
  },
  {
    name = "deepseek", adapter = "openai", baseUrl = "https://api.deepseek.com", hosts = { "^api%.deepseek%.com$" },
    keyVariables = { "DEEPSEEK_API_KEY" }, patterns = { "^deepseek%-" }, known = "deepseek-*",
    quirks = { reasoning = "thinking", schema = "none" },
  },
  {
    name = "mistral", adapter = "openai", baseUrl = "https://api.mistral.ai/v1", hosts = { "%.mistral%.ai$" },
    keyVariables = { "MISTRAL_API_KEY" },
    patterns = { "^mistral%-", "^magistral%-", "^ministral%-", "^codestral%-", "^devstral%-", "^pixtral%-" },
    known = "mistral-*, magistral-*, ministral-*, codestral-*, devstral-*, pixtral-*",
    quirks = {
      maxTokens = "max_tokens", noStreamOptions = true, schema = "strict", callIds = "short", seed = "random_seed",
    },
  },
  {
    name = "xai", adapter = "openai", baseUrl = "https://api.x.ai/v1", hosts = { "%.x%.ai$" },
    keyVariables = { "XAI_API_KEY" }, patterns = { "^grok%-" }, known = "grok-*",
    quirks = { schema = "strict", schemaWithTools = true },
  },
  {
    name = "groq", adapter = "openai", baseUrl = "https://api.groq.com/openai/v1", hosts = { "%.groq%.com$" },
    keyVariables = { "GROQ_API_KEY" }, addressVariable = "GROQ_BASE_URL", address = withPath "/openai/v1",
    quirks = { maxTokens = "max_completion_tokens" },
  },
  {
    name = "together", adapter = "openai", baseUrl = "https://api.together.xyz/v1",
    hosts = { "%.together%.xyz$", "%.together%.ai$" }, keyVariables = { "TOGETHER_API_KEY" },
    addressVariable = "TOGETHER_BASE_URL",
  },
  {
    name = "openrouter", adapter = "openai", baseUrl = "https://openrouter.ai/api/v1",
    hosts = { "^openrouter%.ai$" }, keyVariables = { "OPENROUTER_API_KEY" },
    quirks = { reasoning = "object", schema = "strict" },
  },
  {
    name = "fireworks", adapter = "openai", baseUrl = "https://api.fireworks.ai/inference/v1",
    hosts = { "%.fireworks%.ai$" }, keyVariables = { "FIREWORKS_API_KEY" },
  },
  {
    name = "cerebras", adapter = "openai", baseUrl = "https://api.cerebras.ai/v1", hosts = { "%.cerebras%.ai$" },
    keyVariables = { "CEREBRAS_API_KEY" }, quirks = { maxTokens = "max_completion_tokens", schema = "strict" },
  },
  {
    name = "moonshot", adapter = "openai", baseUrl = "https://api.moonshot.ai/v1", hosts = { "%.moonshot%.%a+$" },
    keyVariables = { "MOONSHOT_API_KEY" }, patterns = { "^kimi%-", "^moonshot%-" }, known = "kimi-*, moonshot-*",
    quirks = { reasoning = "thinking" },
  },
  {
    name = "zai", adapter = "openai", baseUrl = "https://api.z.ai/api/paas/v4",
    hosts = { "%.z%.ai$", "%.bigmodel%.cn$" }, keyVariables = { "ZAI_API_KEY" },
    patterns = { "^glm%-" }, known = "glm-*",
    quirks = { reasoning = "thinking", schema = "none" },
  },
  {
    name = "alibaba", adapter = "openai", baseUrl = "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    hosts = { "%.aliyuncs%.com$" }, keyVariables = { "DASHSCOPE_API_KEY" }, quirks = { reasoning = "switch" },
  },
  {
    name = "perplexity", adapter = "openai", baseUrl = "https://api.perplexity.ai", hosts = { "%.perplexity%.ai$" },
    keyVariables = { "PERPLEXITY_API_KEY" }, patterns = { "^sonar" }, known = "sonar*",
  },
  {
    name = "huggingface", adapter = "openai", baseUrl = "https://router.huggingface.co/v1",
    hosts = { "%.huggingface%.co$" }, keyVariables = { "HF_TOKEN" },
  },
  {
    name = "ollama", adapter = "openai", baseUrl = "http://localhost:11434/v1", hosts = {}, keyVariables = {},
    needsKey = false, addressVariable = "OLLAMA_HOST", address = ollamaAddress,
  },
  {
    name = "llama.cpp", adapter = "openai", baseUrl = "http://localhost:8080/v1", hosts = {}, keyVariables = {},
    needsKey = false,
  },
  {
    name = "lmstudio", adapter = "openai", baseUrl = "http://localhost:1234/v1", hosts = {}, keyVariables = {},
    needsKey = false,
  },
  {
    name = "vllm", adapter = "openai", baseUrl = "http://localhost:8000/v1", hosts = {},
    keyVariables = { "VLLM_API_KEY" }, needsKey = false,
  },
}

local byName = {}
for _, row in ipairs(providers.ROWS) do byName[row.name] = row end

---@param name string
---@return moonpad.Provider?
function providers.named(name)
  return byName[name]
end

local function matches(text, patterns)
  for _, pattern in ipairs(patterns or {}) do
    if text:find(pattern) then return true end
  end
  return false
end

---The provider that a model's bare name means.
---@param model string
---@return moonpad.Provider?
function providers.ofModel(model)
  for _, row in ipairs(providers.ROWS) do
    if matches(model, row.patterns) and not matches(model, row.except) then return row end
  end
  return nil
end

---The provider whose server has this address.
---@param baseUrl string
---@return moonpad.Provider?
function providers.ofAddress(baseUrl)
  local host = baseUrl:lower():match "^https?://([^/:?]+)"
  for _, row in ipairs(host and providers.ROWS or {}) do
    if matches(host, row.hosts) then return row end
  end
  return nil
end

---@param name string
---@return string? value of the environment; nil for an empty one, too
function providers.environment(name)
  local value = os and os.getenv(name)
  return value ~= "" and value or nil
end

---The first of these variables that is set.
---@param row moonpad.Provider
---@return string? key
---@return string? variable
function providers.keyOf(row)
  for _, variable in ipairs(row.keyVariables) do
    local key = providers.environment(variable)
    if key then return key, variable end
  end
  return nil
end

---The base address of a provider, and whether the environment has named it.
---@param row moonpad.Provider
---@param model string? the name of a model: one kind of address has it in it
---@return string? baseUrl nil: only a variable would say it
---@return boolean isOfEnvironment
function providers.addressOf(row, model)
  local value = row.addressVariable and providers.environment(row.addressVariable)
  local address = row.address and (value or row.isComposed) and row.address(value, providers.environment, model)
  return address or value or row.baseUrl, value ~= nil
end

return providers
