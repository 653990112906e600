---Makes TLS contexts from options, and checks the options: for runnel.tls, and for all functions with an option `tls`.

local check = require "runnel.internal.check"
local need = require "runnel.internal.need"
local raise = require("runnel.core").internal.raise

local native = need("runnel.tls.core", "OpenSSL and its headers, on Debian libssl-dev")

local SERVER = { alpn = true, ca = true, cert = true, key = true, more = true, password = true, verify = true }
local CLIENT = { alpn = true, ca = true, cert = true, insecure = true, key = true, name = true, password = true }
local CERTIFICATE = { cert = true, key = true, password = true }
-- Names that other libraries use, and the option that is meant.
local HINTS = {
  cafile = "ca", cainfo = "ca", certificate = "cert", certificates = "more", certs = "more", host = "name",
  hostname = "name", keypasswd = "password", protocols = "alpn", server_name = "name", servername = "name",
  sni = "more", sslcert = "cert", sslkey = "key",
}
local OWNERS = {
  insecure = "a client", more = "a server", name = "a client", verify = "a server; a client always verifies",
}

local function fail(what, text, ...) error(what .. ": " .. text:format(...), 0) end

local function check_names(opts, known, what)
  for key in pairs(opts) do
    if not known[key] then
      if OWNERS[key] then fail(what, "the option %s is only for %s", key, OWNERS[key]) end
      local hint = HINTS[type(key) == "string" and key:lower()]
      fail(what, "%s%s", check.unknown(key, known), known[hint] and ("; did you mean %s?"):format(hint) or "")
    end
  end
end

local function check_string(opts, name, what)
  local value = opts[name]
  if value == nil then return end
  if type(value) ~= "string" or value == "" then
    fail(what, "%s: a string expected, got %s", name, check.describe(value))
  end
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
  if type(list) ~= "table" or #list == 0 then
    fail(what, "%s: %s expected, got %s", name, expected, check.article(list))
  end
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

local function server_options(opts, what)
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
    if type(one) ~= "table" then
      fail(which, "{ cert = a file, key = a file } expected, got %s", check.article(one))
    end
    check_names(one, CERTIFICATE, which)
    check_certificate(one, which)
    if not one.cert then fail(which, "the certificate is missing (option cert)") end
    copied.more[i] = { cert = one.cert, key = one.key, password = one.password }
  end
  return copied
end

local function client_options(opts, what)
  local copied = copy(opts, CLIENT, what)
  check_string(opts, "name", what)
  if opts.insecure ~= nil and type(opts.insecure) ~= "boolean" then
    fail(what, "insecure: true or false expected, got %s", check.describe(opts.insecure))
  end
  if opts.insecure and opts.ca then
    fail(what, "ca: with insecure = true the authorities are not used; remove one of the two options")
  end
  return copied
end

local READERS = { server = server_options, client = client_options }

local contexts = { native = native }

---Makes a context from options. Wrong options are an error.
---@param kind "server"|"client"
---@param opts any
---@param what string the function, for messages
---@return runnel.tls.Context? context nil if a file cannot be read, or is invalid
---@return string? err
function contexts.make(kind, opts, what)
  local ok, copied = pcall(READERS[kind], opts, what)
  if not ok then raise(copied) end
  return native.context(kind == "server", copied)
end

local usual -- the context of clients without options

---The context for an option `tls`: a context, a table of options, or `true` for a client that trusts the authorities of
---the system. Like contexts.make.
---@param kind "server"|"client"
---@param value any
---@param what string the function and the option, as in "connect: tls"
---@return runnel.tls.Context? context
---@return string? err
function contexts.of(kind, value, what)
  local found = native.kind(value)
  if found == kind then return value end
  if found then raise(("%s: a context of a %s expected, got one of a %s"):format(what, kind, found)) end
  if value == true and kind == "client" then
    if usual then return usual end
    local err
    usual, err = native.context(false, {})
    return usual, err
  end
  if type(value) ~= "table" then
    local expected = kind == "server" and "{ cert = a file, key = a file } or a context of tls.server"
      or "true, a table of options or a context of tls.client"
    raise(("%s: %s expected, got %s"):format(what, expected, check.describe(value)))
  end
  return contexts.make(kind, value, what)
end

return contexts
