---http.proxy: passes requests on to another server (RFC 9110, 7.6). Needs libcurl. What the server has parsed is
---written anew by libcurl, and a response that could be read in two ways is refused; so both ends read the same.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local client = require "runnel.http.client"
local guard = require "runnel.internal.guard"
local handshake = require "runnel.http.websocket.handshake"
local options = require "runnel.http.http_options"
local refusal = require "runnel.http.refusal"
local request = require "runnel.http.request"
local sign = require "runnel.internal.sign"
local timed_out = require "runnel.internal.timed_out"
local token = require "runnel.http.token"
local raise = core.internal.raise

---@class runnel.http.reverse_proxy
local reverse_proxy = {}

-- ms that the other server may send nothing: less than the server's own limit of 30 s.
local IDLE <const> = 25000

local MAX_MESSAGE <const> = 1048576 -- bytes

local METHODS <const> = "GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS"

local OPTIONS <const> = { behind_proxy = check.kinds.boolean, idle = true, keep_host = check.kinds.boolean,
  max_message = check.kinds.integer(1), on_error = check.kinds.callable }

---The options of http.proxy, besides those of libcurl.
---@class runnel.http.ProxyOptions
---@field behind_proxy? boolean the client is a proxy of yours: what it says of its client is kept; default false
---@field connect_timeout? number ms until there is a connection to the other server; default 10000
---@field idle? number|false ms that the other server may send nothing; default 25000; false: no limit
---@field keep_host? boolean the other server gets the client's header Host; default false: that of the URL
---@field max_message? integer bytes of a message of a WebSocket; default 1048576
---@field on_error? fun(req: runnel.http.Request, err: any, status: integer): integer, table?, any is called if there is
---no response to pass on, and returns one
---@field [string] any

-- ---- headers ----

local function set_of(text)
  local set = {}
  for word in text:gmatch "%S+" do set[word] = true end
  return set
end

-- Headers that are for this connection only, besides those that Connection names.
local HOP <const> = set_of [[connection http2-settings keep-alive proxy-authenticate proxy-authorization
  proxy-connection te transfer-encoding upgrade]]

-- Those of a request that are written anew. `proxy` would be the variable HTTP_PROXY of a CGI program.
local OWN <const> = set_of "content-length expect forwarded host proxy trailer via x-real-ip"

local function names_in(list) return set_of(((list or ""):lower():gsub(",", " "))) end

-- The fields that are not only for this connection. `connection`: that header, if the fields are trailers.
local function end_to_end(fields, connection)
  local named, kept = names_in(connection or fields.connection), {}
  for name, value in pairs(fields) do
    if not (HOP[name] or named[name]) then kept[name] = value end
  end
  return kept
end

local function append(before, value) return before and before .. ", " .. value or value end

-- Who has sent the request, for the other server. What the client says of that is dropped, unless it is a trusted
-- proxy; also with underscores, which programs behind CGI and WSGI cannot tell from hyphens.
local function set_forwarded(self, req, sent, kept)
  local known = self.behind_proxy and sent or {}
  local address, host = req.address or "unix:", sent.host
  local is_secure = req.server and req.server.url:find "^https:"
  if address == "unix:" then address = "unknown" end
  local node = address:find(":", 1, true) and ('"[%s]"'):format(address) or address
  local proto = is_secure and "https" or "http"
  kept["x-forwarded-for"] = append(known["x-forwarded-for"], address)
  kept["x-forwarded-host"] = known["x-forwarded-host"] or host
  kept["x-forwarded-proto"] = known["x-forwarded-proto"] or proto
  kept["x-real-ip"] = known["x-real-ip"]
  kept.forwarded = append(known.forwarded,
    ("for=%s%s;proto=%s"):format(node, host and (';host="%s"'):format(host) or "", proto))
end

-- The headers of the request to the other server.
local function headers_of(self, req)
  local sent, kept, lib_request = req.headers, {}, rawget(req, "core")
  for name, value in pairs(end_to_end(sent)) do
    local plain = name:gsub("_", "-")
    if not (HOP[plain] or OWN[plain] or plain:find "^x%-forwarded%-") then kept[name] = value end
  end
  set_forwarded(self, req, sent, kept)
  local is_old = lib_request and lib_request.is_old and lib_request:is_old()
  kept.via = append(sent.via, is_old and "1.0 runnel" or "1.1 runnel")
  if self.keep_host then kept.host = sent.host end
  if req.method == "OPTIONS" and tonumber(kept["max-forwards"]) then
    kept["max-forwards"] = math.tointeger(tonumber(kept["max-forwards"]) - 1)
  end
  return kept
end

-- Why the headers of a response cannot be passed on; nil if they can.
local function wrong_with(req, status, headers)
  if status < 200 or status > 599 then return ("it has answered with status %d"):format(status) end
  local size = 0
  for name, value in pairs(headers) do
    for _, one in ipairs(type(value) == "table" and value or { value }) do
      if not token.is(name) or request.is_malformed(one) then
        return ("it has answered with a malformed header %q"):format(name)
      end
      size = size + #name + #one + 4
    end
  end
  local max = req.server and req.server.max_header
  return max and size > max and ("the headers of its response are longer than max_header, %d bytes"):format(max) or nil
end

-- Passes on the trailers that the client wants, or that the response announces. Others are dropped, and so are those
-- that the server would refuse.
local function pass_trailers(req, headers, fields)
  local wants, announced = names_in(req.headers.te).trailers, names_in(headers.trailer)
  for name, value in pairs(end_to_end(fields, headers.connection or "")) do
    local is_right = request.is_trailer(name) and not request.is_malformed(value)
    if is_right and (wants or announced[name]) then req:trailer(name, value) end
  end
end

-- ---- the request ----

-- The URL for a request; nil if it could lead out of the proxy's URL.
local function url_of(self, req)
  local path, query = req.target:gsub("^%a[%w+.-]*://[^/?]*", ""):match "^([^?]*)(.*)$"
  if req.rest then path = "/" .. req.rest end
  if path:sub(1, 1) ~= "/" then path = "/" .. path end
  for name in request.decode(path):gmatch "[^/\\]+" do
    if name == "." or name == ".." then return nil end
  end
  return self.url .. path .. query
end

-- The response if the other server has none. `err` is a refusal if the body has exceeded a limit of http.within.
local function fail(self, req, err)
  if refusal.is(err) then error(err, 0) end
  local status = timed_out.is_timeout(err) and 504 or 502
  if self.on_error then return self.on_error(req, err, status) end
  core.internal.report(err, nil, "http.proxy")
  return status, nil, status == 504 and "504: the server behind this one has not answered in time\n"
    or "502: the server behind this one has failed\n"
end

-- Ends the transfer, unless its channel has become the body of the response.
local Transfer = { __close = function(self)
  if self.ch then self.ch:close() end
end }

local function pass_on(self, req, url)
  local sent, source, size = req.headers, nil, nil
  if (sent["transfer-encoding"] or (sent["content-length"] or "0") ~= "0") and req.method ~= "HEAD" then
    source, size = req:pieces(), math.tointeger(tonumber(sent["content-length"]))
  end
  local headers_sent = headers_of(self, req)
  if names_in(sent.te).trailers then headers_sent.te, headers_sent.connection = "trailers", "TE" end
  local settings = options.forward(self.settings, req.method, headers_sent, source, size)
  function settings.hints(fields)
    if not wrong_with(req, 200, fields) then req:hints(end_to_end(fields)) end
  end
  function settings.on_trailers(res) pass_trailers(req, res.headers, res.trailers) end
  local ch, head = client.forward("proxy", url, settings)
  local transfer <close> = setmetatable({ ch = ch }, Transfer)
  local res, err = head()
  if not res then return fail(self, req, err) end
  local problem = wrong_with(req, res.status, res.headers)
  if problem then return fail(self, req, ("%s: %s"):format(self.url, problem)) end
  local headers = end_to_end(res.headers)
  headers["content-type"] = headers["content-type"] or {} -- else the server would add one
  transfer.ch = nil
  return res.status, headers, ch
end

-- ---- WebSocket ----

-- Moves messages until one end has closed; then closes the other one alike.
local function pass_messages(from, to)
  local input = from:read()
  local message = input:take()
  while message ~= nil and to:write(message) do message = input:take() end
  if from.code == 1005 then return to:close() end
  if not pcall(to.close, to, from.code or 1001, from.code and from.reason) then to:close(1011) end
end

-- What is malformed in the headers of a handshake, which are written anew; nil if nothing is.
local function wrong_handshake(sent, protocols)
  for _, name in ipairs(protocols) do
    if not token.is(name) then return "Sec-WebSocket-Protocol" end
  end
  return sent.origin and sent.origin:find "[^!-~]" and "Origin" or nil
end

-- The settings of TLS to the other server that libcurl's options say.
local function tls_of(libcurl)
  local is_insecure = libcurl.ssl_verifypeer == false
  return { insecure = is_insecure, ca = not is_insecure and libcurl.cainfo or nil, cert = libcurl.sslcert,
    key = libcurl.sslcert and libcurl.sslkey, password = libcurl.sslcert and libcurl.keypasswd }
end

-- Passes messages on between two WebSockets. Their frames are read by both, so nothing else gets through.
local function pass_socket(self, req, url)
  local sent, headers = req.headers, headers_of(self, req)
  local protocols = handshake.list(sent["sec-websocket-protocol"])
  local wrong = wrong_handshake(sent, protocols)
  if wrong then return 400, nil, ("400: the header %s is malformed\n"):format(wrong) end
  for name in pairs(headers) do
    if name == "origin" or name:find "^sec%-websocket%-" then headers[name] = nil end
  end
  local libcurl = self.settings.libcurl or {}
  local other, err, response = require("runnel.http.websocket").websocket(url:gsub("^http", "ws", 1), {
    headers = headers, origin = sent.origin, protocols = protocols,
    max = self.max_message, timeout = self.settings.connect_timeout, proxy = libcurl.proxy,
    noproxy = libcurl.noproxy, unix_socket_path = libcurl.unix_socket_path,
    tls = url:find "^https:" and tls_of(libcurl) or nil,
    proxy_tls = libcurl.proxy_cainfo and { ca = libcurl.proxy_cainfo } or nil,
  })
  if not other then
    if not response or wrong_with(req, response.status, response.headers) then return fail(self, req, err) end
    local kept = end_to_end(response.headers)
    kept["content-length"], kept["content-type"] = nil, {} -- its body is dropped
    return response.status, kept
  end
  local conn <close> = other
  local own, why, status, refused = req:websocket {
    origins = { "*" }, protocols = { conn.protocol }, max = self.max_message,
  }
  if not own then return status, refused, why end
  guard.started(guard.go(guard.nothing, nil, pass_messages, conn, own), "http.proxy") -- ends with either
  pass_messages(own, conn)
end

-- ---- the function ----

local function handle(self, req)
  if req.method == "TRACE" then return 405, { Allow = METHODS } end -- it would show what was forwarded
  if req.method == "OPTIONS" and (req.target == "*" or tonumber(req.headers["max-forwards"]) == 0) then
    return 200, { Allow = METHODS }
  end
  local url = url_of(self, req)
  if not url then return 400, nil, "400: a path without . and .. expected\n" end
  if req.can_upgrade and req.method == "GET" and handshake.has(req.headers.upgrade, "websocket") then
    return pass_socket(self, req, url)
  end
  return pass_on(self, req, url)
end

---Makes a function for http.serve that passes requests on to another server, and its responses back, both while they
---come. WebSockets get through, too. When the client goes away, the request to the other server ends. If there is no
---response, the client gets status 502, or 504 if the time was up, and the error is reported.
---@param url string of the other server, as in "http://127.0.0.1:9000"; its path comes before that of the request
---@param opts? runnel.http.ProxyOptions
---@return fun(req: runnel.http.Request): integer, table?, any
function reverse_proxy.proxy(url, opts)
  sign.dot(url, "http", "proxy")
  local own, all = {}, { idle = IDLE }
  if type(opts) ~= "table" then check.options(opts, OPTIONS, "proxy") end -- raises, unless it is nil
  for name, value in pairs(opts or {}) do
    all[name] = value
    if OPTIONS[name] then own[name] = value end
  end
  check.options(own, OPTIONS, "proxy")
  all.idle = all.idle or nil -- false: no limit
  local _, settings = options.read("proxy", url, all)
  check.no_zero(url, "proxy: the URL")
  local base = url:match "^[hH][tT][tT][pP][sS]?://[^/?#@%s][^?#@%s]*$"
  if not base then
    raise(('proxy: a URL such as "http://127.0.0.1:9000" expected, without a query and a password, got %q'):format(url))
  end
  local self = { url = base:gsub("/+$", ""):gsub("^%a+", string.lower), settings = settings, keep_host = own.keep_host,
    behind_proxy = own.behind_proxy, on_error = own.on_error, max_message = own.max_message or MAX_MESSAGE }
  return function(req) return handle(self, req) end
end

return reverse_proxy
