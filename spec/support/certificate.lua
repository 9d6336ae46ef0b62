--- Certificates for servers of specs, made by the openssl command.
local support = require "spec.support"

local quote = support.quote

---Makes a key and a certificate that vouches for itself.
---@param folder string
---@param name string of the files: name.key, name.pem
---@param subject string whom it is for: "IP:127.0.0.1"
---@return string key the name of the file, quoted for the shell
---@return string certificate
return function(folder, name, subject)
  local command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
    .. " -subj /CN=moonpad -addext subjectAltName=%s -keyout %s -out %s 2>&1"
  local key, certificate = quote(("%s/%s.key"):format(folder, name)), quote(("%s/%s.pem"):format(folder, name))
  local made <close> = assert(io.popen(command:format(subject, key, certificate)))
  made:read "a"
  return key, certificate
end
