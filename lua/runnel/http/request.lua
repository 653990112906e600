---Requests to a server of runnel.http, as its function gets them.

local require = require
local core = require "runnel.core"
local event_response = require "runnel.http.event_response"
local guard = require "runnel.internal.guard"
local check = require "runnel.internal.check"
local decimal = require "runnel.internal.decimal"
local json = require "runnel.json"
local sign = require "runnel.internal.sign"
local token = require "runnel.http.token"
local raise = core.internal.raise

-- The longest piece of a body, in bytes.
local PIECE <const> = 65536

local request = {}

---A request.
---@class runnel.http.Request
---@field method string as in "GET"
---@field target string path and query, as the client has sent them
---@field path string the path of the target, decoded: %41 is A
---@field params? table<string, string> the values of the names in the pattern of http.router, decoded
---@field rest? string the value of *name, as the client has sent it
---@field request_id? string set by http.log
---@field query table<string, string> the fields of the query, decoded; if several have one name, the first
---@field queries table<string, string[]> all values of each field of the query, decoded
---@field headers table<string, string> by name in lower case; values of one name are joined with ", "
---@field cookies table<string, string> those of the client; of several with one name, the first
---@field address string of the client; behind a proxy, that of the proxy
---@field can_upgrade boolean the client offers another protocol for the connection, by its headers
---@field is_upgraded? boolean the connection speaks that protocol: see request.upgrade
---@field package sent_trailers? string[] names and values in turn
---@field package sent_status? integer the status that the server itself has sent, in place of the program
---@field package server runnel.http.Server
---@field package socket? runnel.http.WebSocketUpgrade of `websocket`
---@field package core any the C module's request
---@field package id any a light userdata that stands for it
---@field package block runnel.Channel<any> its go block
---@field package gone? string why the client has gone, if that was known before the go block has begun
---@field package can_read runnel.Channel<boolean> gets a value when more of the body has come, or the request has ended
---@field package room runnel.Channel<boolean> gets a value when more of the response can be written
---@field private no_more any why no more of the body will come, or false
---@field private text? string the body
---@field package is_taken? boolean the body is being read, or has been
---@field package filter? fun(req: runnel.http.Request): string?, any see request.filter
local Request = { __name = "http request", __sign = "req" }

-- ---- reading the body ----

-- The next piece of what the client has sent; nil after the last one; nil and why if no more will come. Parks.
local function sent_piece(self)
  while true do
    local piece = self.core:read(PIECE)
    if piece then return piece end
    if piece == false then return nil end
    if self.no_more then return nil, self.no_more end
    self.can_read:take() -- raises the cancellation in the go block of a request that the server has ended
  end
end

-- The same of the body as the program gets it.
local function next_piece(self)
  local filter = rawget(self, "filter")
  return (filter or sent_piece)(self)
end

---Changes the body of a request, before it is read. A body with several filters passes the first one first.
---@param req runnel.http.Request
---@param filter fun(next_piece: fun(): string?, any): string?, any returns the next piece, as `next_piece`
---does, which gives those before the filter: nil after the last one, or nil and why no more will come
function request.filter(req, filter)
  if not rawget(req, "core") then return end -- a table of a test, which has a body of its own
  local before = rawget(req, "filter") or sent_piece
  local function next_before() return before(req) end
  req.filter = function() return filter(next_before) end
end

---An iterator over the pieces of the body. They can be read once.
---@param req runnel.http.Request
---@param what string the method that was called
---@return fun(): string?, any next nil after the last one; nil and why if no more will come
function request.reader(req, what)
  if req.is_taken then raise(what .. ": the body of this request has been read already") end
  req.is_taken = true
  return function() return next_piece(req) end
end

---Called when the go block of the request has ended: other go blocks get no more of the body than has come.
---@param self runnel.http.Request
---@param why any the error that they get if that is not all
function request.end_body(self, why)
  self.no_more = why
  local can_read = rawget(self, "can_read")
  if can_read then can_read:offer(true) end
end

-- The whole body, for the method `what`.
local function whole_body(self, what)
  if self.text then return self.text end
  local parts, read = {}, request.reader(self, what)
  local piece, why = read()
  while piece do
    parts[#parts + 1] = piece
    piece, why = read()
  end
  if why then error(why, 0) end
  self.text = table.concat(parts)
  return self.text
end

---The body as a string, "" if there is none; parks until it is complete. If the server ends the request before, its go
---block is cancelled. In another go block, `body` raises the reason; it also does if the response is sent before.
---@return string
function Request:body()
  sign.own(self, "req", "body")
  return whole_body(self, "body")
end

local function read_into(read, ch)
  local piece, why = read()
  while piece do
    if not ch:put(piece) then return end
    piece, why = read()
  end
  ch:close(why) -- an error of this go block would be reported if nothing reads the channel
end

---The body as a channel of strings, for bodies that are too large for memory. The client can send only as fast as the
---strings are taken. The channel closes with an error if the request ends before the body has come.
---@return runnel.Channel<string>
function Request:pieces()
  sign.own(self, "req", "pieces")
  local read, ch = request.reader(self, "pieces"), core.chan()
  guard.started(guard.go(guard.close, ch, read_into, read, ch), "pieces")
  return ch
end

---The body as JSON. Parks.
---@return any value nil if it is not JSON
---@return string? err the reason
function Request:json()
  sign.own(self, "req", "json")
  return json.decode(whole_body(self, "json"))
end

---The fields of a form, of both kinds that browsers send; files go to a function. Parks until the body has come.
---@param opts? runnel.http.FormOptions
---@return runnel.http.Form? form nil if the body is no form, or is refused
---@return string? err the reason
---@return integer? status of a response that says so
function Request:form(opts)
  sign.own(self, "req", "form")
  return require("runnel.http.form.form_reader").read(self, opts, request)
end

-- ---- early hints and trailers ----

---Sends early hints, a response of status 103 with these headers, before the response: so that a browser loads what the
---page will need while the page is made.
---@param headers table<string, string|number|string[]> as in { Link = "</style.css>; rel=preload; as=style" }
function Request:hints(headers)
  sign.own(self, "req", "hints")
  check.table(headers, "hints: headers")
  local ok, list = pcall(require("runnel.http.answer").list, headers)
  if not ok then raise("hints: " .. tostring(list):gsub("^http%.serve: ", "")) end
  local is_sent, name = self.core:hint(table.unpack(list))
  if not is_sent then raise(("hints: the header %q cannot be set"):format(tostring(name))) end
end

---The trailers of the request: fields behind a body in chunks, such as a checksum. They are no headers: whoever is
---between may drop them, and the client may say anything there.
---@return table<string, string>? fields by name in lower case; nil until the body has been read to its end
---@return string? err
function Request:trailers()
  sign.own(self, "req", "trailers")
  local text = self.core:trailers()
  if not text then return nil, "trailers: the body has not come to its end: read it first" end
  local fields = {}
  for name, value in text:gmatch "([^:\r\n]+):([^\r\n]*)\r\n" do
    local lower = name:lower()
    value = token.trim(value)
    fields[lower] = fields[lower] and fields[lower] .. ", " .. value or value
  end
  return fields
end

-- Fields that would change how a message is read, or by whom (RFC 9110, 6.5.1).
local NO_TRAILERS <const> = {}
for name in ([[age authorization cache-control connection content-encoding content-length content-range content-type
  cookie date expect expires host keep-alive location max-forwards pragma proxy-authenticate proxy-authorization range
  retry-after set-cookie te trailer transfer-encoding upgrade vary warning www-authenticate]]):gmatch "%S+" do
  NO_TRAILERS[name] = true
end

---Whether a field may be behind a body.
---@param name any
---@return boolean
function request.is_trailer(name) return token.is(name) and not NO_TRAILERS[name:lower()] end

---Whether a value has characters that a header must not have.
---@param value string
---@return boolean
function request.is_malformed(value) return value:find "[%z\1-\8\10-\31\127]" ~= nil end

---Adds a trailer to the response: a field that is sent behind its body, if that is a channel and is sent in chunks.
---Call it before the channel closes.
---@param name string
---@param value string|number
function Request:trailer(name, value)
  sign.own(self, "req", "trailer")
  if not request.is_trailer(name) then
    raise(("trailer: the name of a field that may be behind a body expected, got %s"):format(check.describe(name)))
  end
  if type(value) ~= "string" and type(value) ~= "number" or request.is_malformed(tostring(value)) then
    raise(("trailer: %s: a string without control characters, or a number, expected, got %s"):format(name,
      check.describe(value)))
  end
  local list = rawget(self, "sent_trailers") or {}
  self.sent_trailers, list[#list + 1] = list, name
  list[#list + 1] = decimal.text(value)
end

-- ---- events ----

---Makes a response that sends events (text/event-stream): return what this returns. The events come from a channel; or
---from a function, which is called with a channel in a go block of its own. Each event is sent at once. The response
---ends when the channel is closed, or the function returns. When the client goes away, the channel is closed, so that
---puts return false, and the go block of the function is cancelled.
---@param source runnel.Channel<runnel.http.SentEvent|string>|fun(events: runnel.Channel<runnel.http.SentEvent|string>)
---a string is the data of an event
---@param opts? { ping?: number|false, headers?: table } `ping`: ms without an event after which a comment is sent, so
---that proxies do not close the connection; default 15000; false: never. `headers`: more headers
---@return integer status
---@return table headers
---@return runnel.Channel<string>? body nil for HEAD
function Request:events(source, opts)
  sign.own(self, "req", "events")
  return event_response.new(self, source, opts)
end

-- ---- WebSocket ----

---Makes the connection a WebSocket. It is closed when the function of the request returns.
---@param opts? runnel.http.WebSocketOptions|{ origins?: string[], keep?: boolean } `origins`: origins whose pages may
---connect, as in "https://example.org", besides the server's own host; "*": all. `keep`: the connection stays open when
---the function has returned
---@return runnel.http.WebSocket? conn nil if the request is not for WebSocket, or is refused: then the function must
---return a response, such as `status, headers, err`
---@return string? err the reason
---@return integer? status of such a response
---@return table<string, string>? headers of such a response
function Request:websocket(opts)
  sign.own(self, "req", "websocket")
  return require("runnel.http.websocket.ws_server").accept(self, opts, request.upgrade)
end

-- ---- what is computed when it is first used ----

---Decodes a part of a URL: %41 is A.
---@param text string
---@return string
function request.decode(text)
  return (text:gsub("%%(%x%x)", function(digits) return string.char(tonumber(digits, 16)) end))
end

local decode = request.decode

local late = {}

-- A target may also be a whole URL: its host then replaces the header Host (RFC 9112, 3.2.2).
function late:path()
  local path = self.target:gsub("^%a+://[^/?]*", ""):match "^[^?]*"
  return path == "" and "/" or decode(path)
end

---An iterator over the names and values of an encoded query or form. A name may be empty, as browsers and other servers
---have it.
---@param text string
---@return fun(): string?, string
function request.fields(text)
  local next_field = text:gmatch "[^&]+"
  return function()
    local field = next_field()
    local name, value = (field or ""):match "^([^=]*)=?(.*)$"
    if field then return decode((name:gsub("+", " "))), decode((value:gsub("+", " "))) end
  end
end

local function query_of(req) return request.fields(req.target:match "%?(.*)" or "") end

function late:query()
  local fields = {}
  for name, value in query_of(self) do
    if fields[name] == nil then fields[name] = value end
  end
  return fields
end

function late:queries()
  local lists = {}
  for name, value in query_of(self) do
    lists[name] = lists[name] or {}
    table.insert(lists[name], value)
  end
  return lists
end

function late:cookies() return require("runnel.http.cookie").parse(self.headers.cookie) end

function late:headers()
  local list, fields = self.core:headers(), {}
  for i = 1, #list, 2 do
    local name = list[i]:lower()
    local before = fields[name]
    fields[name] = before and before .. (name == "cookie" and "; " or ", ") .. list[i + 1] or list[i + 1]
  end
  fields.host = self.target:match "^%a+://([^/?]*)" or fields.host
  return fields
end

-- Two channels, since one go block may read the body while another one writes the response.
function late.can_read() return core.chan(1) end
function late.room() return core.chan(1) end

function Request:__index(name)
  local compute = late[name]
  if not compute then return Request[name] end
  local value = compute(self)
  rawset(self, name, value)
  return value
end

function Request:__tostring() return ("http request: %s %s"):format(self.method, self.target) end

---Makes a request from the C module's request.
---@param id any
---@param lib_request any
---@return runnel.http.Request
function request.new(id, lib_request)
  local method, target, address, can_upgrade = lib_request:head()
  return setmetatable({ id = id, core = lib_request, method = method, target = target, address = address,
    can_upgrade = can_upgrade, no_more = false }, Request)
end

-- ---- other protocols ----

---Answers a request with status 101, after which the connection speaks another protocol: use request.read and
---request.write. The connection ends when the function of the request returns.
---@param req runnel.http.Request one with can_upgrade, that has no response yet
---@param headers string[] names and values in turn, such as { "Upgrade", "websocket" }
function request.upgrade(req, headers)
  local ok, name = req.core:upgrade(table.unpack(headers))
  if not ok then raise(("upgrade: the header %q cannot be set"):format(tostring(name))) end
  req.is_upgraded = true
end

return request
