---TLS contexts: the certificates of this end, and the authorities that it trusts. For uv.connect, uv.listen and
---http.serve. Needs OpenSSL.
---
---    local tls = require "runnel.tls"
---    local context = assert(tls.server { cert = "cert.pem", key = "key.pem" })
---    local conns = assert(uv.listen("0.0.0.0", 4433, { tls = context }))
---
---Certificates and keys are in PEM format: paths of files, or the texts themselves, which contain "-----BEGIN".

local contexts = require "runnel.internal.tls_options"
local sign = require "runnel.internal.sign"

---@class runnel.tls.Context: userdata
---@field reload fun(self: runnel.tls.Context): boolean?, string? reads the files again, for new connections; open
---connections keep the old certificates. If a file is invalid, nothing changes, and it returns nil and the error

---@class runnel.tls.Certificate
---@field cert string the certificate, followed by those of the authorities above it: a file or a text
---@field key? string its private key; default: in the same file as the certificate
---@field password? string of an encrypted key

---@class runnel.tls.ServerOptions: runnel.tls.Certificate
---@field more? runnel.tls.Certificate[] certificates for clients that ask for a name in one of them (SNI); all others
---get the first one
---@field ca? string authorities: then a client must have a certificate that one of them has signed
---@field verify? "required"|"optional" "optional": a client may have no certificate
---@field alpn? string[] protocols that the program speaks, best first

---@class runnel.tls.ClientOptions
---@field ca? string the authorities to trust; default: those of the system
---@field name? string the name that the server's certificate must be for; default: the host to which the program
---connects
---@field cert? string the client's own certificate, if the server asks for one
---@field key? string
---@field password? string
---@field alpn? string[] protocols that the program speaks, best first
---@field insecure? boolean true: any certificate is accepted, so anyone can act as the server and read everything

---@class runnel.tls
local tls = {}

---Makes a context for servers. It speaks TLS 1.2 and 1.3.
---@param opts runnel.tls.ServerOptions
---@return runnel.tls.Context? context nil if a file cannot be read, or is invalid
---@return string? err
function tls.server(opts)
  sign.dot(opts, "tls", "server")
  return contexts.make("server", opts, "tls.server")
end

---Makes a context for clients. The server's certificate must be valid for the host.
---@param opts? runnel.tls.ClientOptions
---@return runnel.tls.Context? context
---@return string? err
function tls.client(opts)
  sign.dot(opts, "tls", "client")
  return contexts.make("client", opts or {}, "tls.client")
end

---Whether a value is a context, and which kind.
---@param value any
---@return "server"|"client"|nil
function tls.kind(value) return contexts.native.kind(value) end

return tls
