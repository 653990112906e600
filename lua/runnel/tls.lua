---TLS: who this end is, and whom it trusts. Contexts are for uv.connect and uv.listen, and for http.serve. Needs OpenSSL.
---
---    local tls = require "runnel.tls"
---    local context = assert(tls.server { cert = "cert.pem", key = "key.pem" })
---    local conns = assert(uv.listen("0.0.0.0", 4433, { tls = context }))
---
---Certificates and keys are in the format PEM: paths of files, or the texts themselves, which have "-----BEGIN".

local check = require "runnel.internal.check"
local need = require "runnel.internal.need"

local native = need("runnel.tls.core", "the headers of OpenSSL (Debian's libssl-dev)")

local SERVER = { alpn = true, ca = true, cert = true, key = true, more = true, password = true, verify = true }
local CLIENT = { alpn = true, ca = true, cert = true, insecure = true, key = true, name = true, password = true }
local CERTIFICATE = { cert = true, key = true, password = true }
-- What options with other names have been meant by.
local HINTS = {
  cafile = "ca", cainfo = "ca", certificate = "cert", certificates = "more", certs = "more", host = "name",
  hostname = "name", keypasswd = "password", protocols = "alpn", server_name = "name", servername = "name",
  sni = "more", sslcert = "cert", sslkey = "key",
}
local OWNERS = {
  insecure = "a client", more = "a server", name = "a client", verify = "a server; a client always verifies",
}

---@class runnel.tls
local tls = {}

---@class runnel.tls.Context: userdata
---@field reload fun(self: runnel.tls.Context): boolean?, string? reads the files again, for new connections; connections
---that there are keep the old ones. If a file is invalid, nothing changes, and it returns nil and the error

---@class runnel.tls.Certificate
---@field cert string the certificate, and those of the authorities above it: a file or a text
---@field key? string its private key; default: in the same file as the certificate
---@field password? string of an encrypted key

---@class runnel.tls.ServerOptions: runnel.tls.Certificate
---@field more? runnel.tls.Certificate[] certificates for clients that ask for a name in one of them (SNI); all others get
---the first one
---@field ca? string authorities whose clients are let in: then a client must show a certificate
---@field verify? "required"|"optional" "optional": a client may show none
---@field alpn? string[] protocols that the program speaks, best first

---@class runnel.tls.ClientOptions
---@field ca? string the authorities to trust; default: those of the system
---@field name? string what the server's certificate must be for, default: the host to which the program connects
---@field cert? string the client's own certificate, if the server wants one
---@field key? string
---@field password? string
---@field alpn? string[] protocols that the program speaks, best first
---@field insecure? boolean true: any certificate is good; so anybody may be the server, and read along

local function fail(what, text, ...) error(what .. ": " .. text:format(...), 0) end

local function check_names(opts, known, what)
  for key in pairs(opts) do
    if not known[key] then
      if OWNERS[key] then fail(what, "the option %s is one of %s", key, OWNERS[key]) end
      local hint = HINTS[type(key) == "string" and key:lower()]
      fail(what, "%s%s", check.unknown(key, known), known[hint] and ("; did you mean %s?"):format(hint) or "")
    end
  end
end

local function check_string(opts, name, what)
  local value = opts[name]
  if value == nil then return end
  if type(value) ~= "string" or value == "" then fail(what, "%s: a string expected, got %s", name, check.describe(value)) end
  if value:find("\0", 1, true) then fail(what, "%s has a zero byte", name) end
end

local function check_certificate(opts, what)
  check_string(opts, "cert", what)
  check_string(opts, "key", what)
  check_string(opts, "password", what)
  if opts.cert then return end
  if opts.key then fail(what, "key: its certificate is missing (option cert)") end
  if opts.password then fail(what, "password: its certificate is missing (option cert)") end
end

local function check_list(opts, name, what, expected)
  local list = opts[name]
  if list == nil then return nil end
  if type(list) ~= "table" or #list == 0 then fail(what, "%s: %s expected, got %s", name, expected, check.article(list)) end
  return list
end

-- Copies the options that both kinds have, and more certificates, so that later changes of the tables do not matter.
local function copy(opts, known, what)
  if type(opts) ~= "table" then fail(what, "a table of options expected, got %s", check.article(opts)) end
  check_names(opts, known, what)
  check_certificate(opts, what)
  check_string(opts, "ca", what)
  local copied = {}
  for key, value in pairs(opts) do copied[key] = value end
  local alpn = check_list(opts, "alpn", what, 'a list of names, as in { "h2", "http/1.1" }')
  copied.alpn = alpn and table.move(alpn, 1, #alpn, 1, {})
  for i, name in ipairs(copied.alpn or {}) do
    if type(name) ~= "string" or name == "" or #name > 255 then
      fail(what, "alpn: name %d: a string of 1 to 255 bytes expected, got %s", i, check.describe(name))
    end
  end
  return copied
end

local function server_options(opts)
  local what <const> = "tls.server"
  local copied = copy(opts, SERVER, what)
  if not opts.cert then fail(what, "a certificate expected: { cert = a file, key = a file }") end
  local verify = opts.verify
  if verify ~= nil and verify ~= "required" and verify ~= "optional" then
    fail(what, 'verify: "required" or "optional" expected, got %s', check.describe(verify))
  end
  if verify and not opts.ca then fail(what, "verify: the authorities of the clients are missing (option ca)") end
  local more = check_list(opts, "more", what, "a list of certificates, as in { { cert = a file, key = a file } }")
  copied.more = more and {}
  for i, one in ipairs(more or {}) do
    local which = ("%s: more: %d"):format(what, i)
    if type(one) ~= "table" then fail(which, "{ cert = a file, key = a file } expected, got %s", check.article(one)) end
    check_names(one, CERTIFICATE, which)
    check_certificate(one, which)
    if not one.cert then fail(which, "the certificate is missing (option cert)") end
    copied.more[i] = { cert = one.cert, key = one.key, password = one.password }
  end
  return copied
end

local function client_options(opts)
  local what <const> = "tls.client"
  local copied = copy(opts, CLIENT, what)
  check_string(opts, "name", what)
  if opts.insecure ~= nil and type(opts.insecure) ~= "boolean" then
    fail(what, "insecure: true or false expected, got %s", check.describe(opts.insecure))
  end
  if opts.insecure and opts.ca then fail(what, "ca: with insecure = true no authority matters; leave out one of the two") end
  return copied
end

-- Raises an error of the options at the line that has called the public function, `level` levels above this one.
local function checked(read, opts, level)
  local ok, copied = pcall(read, opts)
  if not ok then error(copied, level + 1) end
  return copied
end

---Makes a context for servers. It speaks TLS 1.2 and 1.3.
---@param opts runnel.tls.ServerOptions
---@return runnel.tls.Context? context nil if a file cannot be read, or is invalid
---@return string? err
function tls.server(opts) return native.context(true, checked(server_options, opts, 2)) end

---Makes a context for clients. The server's certificate must be valid, and for the host.
---@param opts? runnel.tls.ClientOptions
---@return runnel.tls.Context? context
---@return string? err
function tls.client(opts) return native.context(false, checked(client_options, opts or {}, 2)) end

---Whether a value is a context, and of what.
---@param value any
---@return "server"|"client"|nil
function tls.kind(value) return native.kind(value) end

return tls
