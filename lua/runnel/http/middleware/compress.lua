---http.compress: compresses responses with gzip, and decompresses requests, by zlib, which the C module of the client
---has.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local conditions = require "runnel.http.conditions"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local headers_of = require "runnel.http.middleware.headers"
local json = require "runnel.json"
local need = require "runnel.internal.need"
local refusal = require "runnel.http.refusal"
local request = require "runnel.http.request"
local raise = core.internal.raise

local lib = need("runnel.http.curl", "libcurl, zlib and their headers, on Debian libcurl4-openssl-dev and zlib1g-dev")
local put_while_open = core.internal.moving.put_while_open

---@class runnel.http.compress
local compress = {}

local MAX <const>, MIN <const>, LEVEL <const> = 1048576, 1024, 6

local kinds = check.kinds
local OPTIONS = { level = kinds.integer(1), max = kinds.integer(0), min = kinds.integer(0), secrets = kinds.boolean }

---The options of http.compress.
---@class runnel.http.CompressOptions
---@field level? integer from 1, fast, to 9, small; default 6
---@field min? integer bytes: shorter strings are not compressed; default 1024
---@field max? integer bytes of a request's body once it is decompressed; default 1048576
---@field secrets? boolean compresses also responses that may have secrets of a user

-- ---- requests ----

local function wrong(why, max)
  if why == "long" then return refusal.new(413, "413: the decompressed body is longer than %d bytes", max) end
  return refusal.new(400, "400: the compressed body is damaged")
end

-- Has the body decompressed while it is read.
local function inflate(req, max)
  local inflater, left = lib.inflater(), max
  local headers = req.headers
  if headers["content-length"] then headers["transfer-encoding"] = "chunked" end -- the length is unknown
  headers["content-encoding"], headers["content-length"] = nil, nil
  request.filter(req, function(next_piece)
    while true do
      local piece, why = next_piece()
      if piece == nil then
        if why == nil and not inflater:is_whole() then why = wrong "damaged" end
        return nil, why
      end
      local text, problem = inflater:inflate(piece, left)
      if not text then return nil, wrong(problem, max) end
      left = left - #text
      if text ~= "" then return text end
    end
  end)
end

-- ---- which responses ----

-- Content types that become shorter.
local KINDS = { "^text/", "[/+]json$", "[/+]xml$", "/javascript$", "/wasm$", "/manifest$", "^application/x%-ndjson$" }
local function is_compressible(kind)
  kind = tostring(kind or "text/plain"):lower():match "^[^;%s]*"
  for _, pattern in ipairs(KINDS) do
    if kind:find(pattern) then return true end
  end
  return false
end

-- Statuses without a body, and a part of a file.
local NEVER = { [204] = true, [205] = true, [206] = true, [304] = true }

-- Whether the headers allow for compression.
local function has_right_kind(headers)
  local _, cache = headers_of.find(headers, "cache-control")
  local _, kind = headers_of.find(headers, "content-type")
  return is_compressible(kind) and not headers_of.find(headers, "content-encoding")
    and not tostring(cache or ""):lower():find("no-transform", 1, true)
end

local function is_candidate(self, status, headers, body)
  return not NEVER[status] and (core.is_chan(body) or type(body) == "string" and #body >= self.min)
    and not headers_of.find(headers, "content-range") and has_right_kind(headers)
end

-- Whether the response may have a secret of the user. Whoever sees how long it is, and can put text into it, could
-- guess the secret bit by bit if it was compressed (BREACH).
local function has_secret(req, headers)
  local sent = req.headers or {}
  return sent.cookie ~= nil or sent.authorization ~= nil or headers_of.find(headers, "set-cookie") ~= nil
end

local function accepts(req)
  local weights = conditions.encodings((req.headers or {})["accept-encoding"])
  local weight = weights.gzip or weights["x-gzip"] or weights["*"] or 0
  return weight > 0 and weight >= (weights.identity or 0)
end

-- ---- compressing ----

-- Moves a body. What has come is sent before a wait for more.
local function move(deflater, from, to)
  local source <close> = setmetatable({ ch = from }, ends.Dropping) -- luacheck: ignore 211
  local next_piece = ends.source(from)
  local piece, _, err = next_piece(from, to)
  while piece ~= nil do
    local out = piece -- what is no string is an error, which the server reports
    local ahead = from:poll()
    if type(piece) == "string" then out = deflater:deflate(piece, ahead == nil and "flush" or "keep") end
    if out ~= "" and not put_while_open(to, out) then return end
    if ahead == nil then piece, _, err = next_piece(from, to) else piece = ahead end
  end
  if err == nil then put_while_open(to, deflater:deflate("", "finish")) end
  ends.close(to, err, from)
end

local function deflated(self, body)
  local deflater = lib.deflater(self.level)
  if type(body) == "string" then return deflater:deflate(body, "finish") end
  local to = core.chan()
  guard.started(guard.go(guard.close, { to, body }, move, deflater, body, to), "compress")
  return to
end

-- A table as its text, with its type.
local function to_text(headers, body)
  local text = json.encode(body)
  if not text then return body end -- the server reports what is wrong
  if not headers_of.find(headers, "content-type") then headers["Content-Type"] = "application/json" end
  return text
end

-- Makes the entity tag weak: other bytes, same content.
local function weaken(headers)
  local key, tag = headers_of.find(headers, "etag")
  if key and type(tag) == "string" and not tag:find "^W/" then headers[key] = "W/" .. tag end
end

-- Gives 304 and 206 the headers that 200 would have (RFC 9110, 15.3.7 and 15.4.5). A client that has the content
-- uncompressed keeps its strong tag, and so does a part, which is not compressed.
local function match_whole(self, req, status, headers)
  if not has_right_kind(headers) then return end
  headers_of.add_vary(headers, "Accept-Encoding")
  if status == 206 or not accepts(req) or not self.secrets and has_secret(req, headers) then return end
  local _, tag = headers_of.find(headers, "etag")
  local known = (req.headers or {})["if-none-match"]
  if known and type(tag) == "string" and conditions.has_tag(known, tag, false) then return end
  weaken(headers)
end

local function pass(self, req, status, headers, body)
  if math.type(status) ~= "integer" or headers ~= nil and type(headers) ~= "table" then return status, headers, body end
  local copy = headers_of.copy(headers)
  if type(body) == "table" then body = to_text(copy, body) end
  if status == 304 or status == 206 then match_whole(self, req, status, copy) end
  if not is_candidate(self, status, copy, body) then return status, copy, body end
  headers_of.add_vary(copy, "Accept-Encoding")
  if not accepts(req) or not self.secrets and has_secret(req, copy) then return status, copy, body end
  for _, name in ipairs { "content-length", "accept-ranges" } do copy[headers_of.find(copy, name) or name] = nil end
  weaken(copy)
  if not headers_of.find(copy, "content-type") then copy["Content-Type"] = "text/plain; charset=utf-8" end
  copy["Content-Encoding"] = "gzip"
  return status, copy, deflated(self, body)
end

local function handle(self, req)
  local encoding = ((req.headers or {})["content-encoding"] or "identity"):lower()
  if encoding == "identity" then return pass(self, req, self.f(req)) end
  if encoding ~= "gzip" and encoding ~= "x-gzip" then
    return 415, { ["Accept-Encoding"] = "gzip" }, "415: the body has an unknown encoding\n"
  end
  inflate(req, self.max)
  return pass(self, req, refusal.call(self.f, req))
end

---Makes a function for http.serve that calls another one, and compresses its responses for clients that accept gzip, if
---that makes them shorter and gives no secret away. Compressed bodies of requests are decompressed while they are read.
---@param f fun(req: runnel.http.Request): integer, table?, any
---@param opts? runnel.http.CompressOptions
---@return fun(req: runnel.http.Request): integer, table?, any
function compress.compress(f, opts)
  check.callable(f, "compress: f")
  check.options(opts, OPTIONS, "compress")
  opts = opts or {}
  if opts.level and opts.level > 9 then
    raise(("compress: level: an integer from 1 to 9 expected, got %d"):format(opts.level))
  end
  local self = { f = f, level = opts.level or LEVEL, min = opts.min or MIN, max = opts.max or MAX,
    secrets = opts.secrets }
  return function(req) return handle(self, req) end
end

return compress
