---http.log: a line for each request, and an id for each request, to find it in other logs.

local io, os = io, os
local core = require "runnel.core"
local answer = require "runnel.http.answer"
local check = require "runnel.internal.check"
local contexts = require "runnel.internal.trace_context"
local decimal = require "runnel.internal.decimal"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local headers_of = require "runnel.http.middleware.headers"
local json = require "runnel.json"
local token = require "runnel.http.token"

local internal = core.internal
local raise = internal.raise
local put_while_open = internal.moving.put_while_open
local now, random = core.now, internal.seed

---@class runnel.http.log
local log = {}

local OPTIONS = { behind_proxy = check.kinds.boolean, format = true, to = true }

-- The pattern of an id that a proxy has set.
local ID <const> = "^[%w._-]+$"
local LONGEST_ID <const> = 100

-- The status that is logged for a request without a response.
local GONE <const> = 499

---The options of http.log.
---@class runnel.http.LogOptions
---@field to? fun(line: string)|file*|runnel.Channel<string> where lines go; only a file gets newlines; default
---io.stderr
---@field format? "common"|"json"|fun(entry: runnel.http.LogEntry): string default "common"
---@field behind_proxy? boolean all requests come through your own proxy: the id is its X-Request-Id, and the client's
---address is the last one in its X-Forwarded-For; default false

---A request, at its end.
---@class runnel.http.LogEntry
---@field time integer when it arrived, in s since 1970
---@field id string
---@field address string
---@field method string
---@field target string as the client has sent it
---@field status integer 499 if there was no response, such as when the client went away; 101 if the connection got
---another protocol
---@field bytes integer of the body
---@field ms number until the end of the response was passed to the server
---@field error? string why the response is not complete
---@field referer? string
---@field agent? string
---@field trace? string the id of the trace to which the request belongs, if rn.traceparent is on

-- ---- formats ----

local function escape(c) return ("\\x%02x"):format(c:byte()) end

-- A text from the client, escaped so that it cannot contain a line end or a quote.
local function escaped(text) return (text:gsub('[%c"\\\127-\255]', escape)) end

-- A string for JSON, made valid UTF-8.
local function unicode(text)
  if utf8.len(text) then return text end
  return (text:gsub("[\128-\255]", escape))
end

local formats = {}

function formats.common(entry)
  -- os.date would write the month in the program's locale.
  local t = os.date("!*t", entry.time) --[[@as osdate]]
  local month = ("JanFebMarAprMayJunJulAugSepOctNovDec"):sub(t.month * 3 - 2, t.month * 3)
  local line = '%s - - [%02d/%s/%d:%02d:%02d:%02d +0000] "%s %s HTTP/1.1" %d %d %s %s'
  return line:format(escaped(entry.address), t.day, month, t.year, t.hour, t.min, t.sec, escaped(entry.method),
    escaped(entry.target), entry.status, entry.bytes, decimal.format("%.1f", entry.ms), entry.id)
end

local FIELDS = { "id", "address", "method", "target", "status", "bytes", "ms", "error", "referer", "agent", "trace" }

function formats.json(entry)
  local parts = { ('{"time":"%s"'):format(os.date("!%Y-%m-%dT%H:%M:%SZ", entry.time)) }
  for _, name in ipairs(FIELDS) do
    local value = entry[name]
    if type(value) == "string" then value = json.encode(unicode(value)) end
    if name == "ms" then value = decimal.format("%.1f", value) end
    if value ~= nil then parts[#parts + 1] = ('"%s":%s'):format(name, value) end
  end
  return table.concat(parts, ",") .. "}"
end

-- ---- one request ----

-- Writes a line. If it is lost, raises an error, but only for the first one of several.
local function write(self, entry)
  local line, to, ok, err = self.format(entry), self.to, true, nil
  if core.is_chan(to) then
    ok, err = to:put(line), "the channel is closed"
  elseif io.type(to) then
    ok, err = to:write(line, "\n")
    if ok then ok, err = to:flush() end
  else
    to(line)
  end
  local was_lost = self.is_lost
  self.is_lost = not ok
  if not ok and not was_lost then error("lines are lost: " .. err, 0) end
end

-- Writes the line of a request.
local function finish(self, entry)
  entry.ms, entry.began = now() - entry.began, nil -- `began` is no field of the log
  guard.call("the log of http.log", write, self, entry)
end

-- The last word of a list; nil if nothing is behind its last comma.
local function last_word(text)
  text = token.trim(text)
  return text:match "^.*[%s,]([^%s,]+)$" or text:match "^[^%s,]+$"
end

local function new_id() return ("%08x%08x"):format(random(), random()) end

local function begin(self, req)
  local headers = req.headers or {}
  local id, address = nil, req.address
  if self.behind_proxy then
    id = headers["x-request-id"]
    address = last_word(headers["x-forwarded-for"] or "") or address
  end
  if not id or #id > LONGEST_ID or not id:find(ID) then id = new_id() end
  req.request_id = id
  local operation = contexts.on and contexts.current()
  return { began = now(), time = os.time(), id = id, address = address or "-", method = req.method,
    target = req.target or req.path, referer = headers.referer, agent = headers["user-agent"], status = 500, bytes = 0,
    trace = operation and operation.trace or nil }
end

-- Passes a body on, and counts its bytes.
local function pass(self, entry, from, to)
  local source <close> = setmetatable({ ch = from }, ends.Dropping) -- luacheck: ignore 211
  local next_piece = ends.source(from)
  local piece, _, err = next_piece(from, to)
  while piece ~= nil and put_while_open(to, piece) do
    entry.bytes = entry.bytes + (type(piece) == "string" and #piece or 0)
    piece, _, err = next_piece(from, to)
  end
  if err ~= nil then entry.error = internal.error_text(err) elseif to:closed() then entry.error = "cut" end
  finish(self, entry)
  ends.close(to, err, from)
end

-- The body as text, if that is possible; and its headers.
local function to_text(headers, body)
  local text = json.encode(body)
  if not text then return headers, body end -- the server reports what is wrong
  for name in pairs(headers) do
    if type(name) == "string" and name:lower() == "content-type" then return headers, text end
  end
  headers["Content-Type"] = "application/json"
  return headers, text
end

local function with_id(headers, id)
  local copy = headers_of.copy(headers)
  headers_of.set(copy, "X-Request-Id", id)
  return copy
end

-- Logs that the go block of a request was cancelled, and lets it end.
local function give_up(self, req, entry, reason)
  entry.status = req.sent_status or GONE
  entry.error = internal.error_text(reason)
  finish(self, entry)
  error(reason, 0)
end

-- Logs an error of the function, which has been reported; returns the response.
local function fail(self, entry, err)
  entry.error = internal.error_text(err)
  finish(self, entry)
  return 500, { ["X-Request-Id"] = entry.id }, "500: the server has failed\n"
end

-- Whether the server accepts these results of the function.
local function is_response(status, headers, body)
  return math.type(status) == "integer" and status >= 200 and status <= 599
    and (headers == nil or type(headers) == "table")
    and (body == nil or type(body) == "string" or type(body) == "table" or core.is_chan(body))
end

local function handle(self, req)
  local entry = begin(self, req)
  local is_there, ok, status, headers, body = pcall(guard.call, "the function of http.log", self.f, req)
  if not is_there then give_up(self, req, entry, ok) end
  if not ok then return fail(self, entry, status) end
  if req.is_upgraded then
    entry.status = 101
    return finish(self, entry)
  end
  if not is_response(status, headers, body) then
    finish(self, entry)
    return status, headers, body -- the server reports what is wrong
  end
  entry.status, headers = status, with_id(headers, entry.id)
  local is_bare = answer.is_bare(req.method, status)
  if core.is_chan(body) and not is_bare then
    local counted = core.chan()
    guard.started(guard.go(guard.close, { counted, body }, pass, self, entry, body, counted), "log")
    return status, headers, counted
  end
  if type(body) == "table" then headers, body = to_text(headers, body) end
  if type(body) == "string" and not is_bare then entry.bytes = #body end
  finish(self, entry)
  return status, headers, body
end

---Makes a function for http.serve that calls another one, and writes a line about each request. Each request has an id:
---req.request_id, and the header X-Request-Id of the response.
---@param f fun(req: runnel.http.Request): integer, table?, any
---@param opts? runnel.http.LogOptions
---@return fun(req: runnel.http.Request): integer, table?, any
function log.log(f, opts)
  check.callable(f, "log: f")
  check.options(opts, OPTIONS, "log")
  opts = opts or {}
  local format, to = opts.format or "common", opts.to or io.stderr
  if not check.is_callable(format) and not formats[format] then
    raise("log: format: \"common\", \"json\" or a function expected, got " .. check.describe(format))
  end
  if not (check.is_callable(to) or core.is_chan(to) or io.type(to) == "file") then
    raise("log: to: a function, an open file or a channel expected, got " .. check.describe(to))
  end
  local self = { f = f, format = formats[format] or format, to = to, behind_proxy = opts.behind_proxy }
  return function(req) return handle(self, req) end
end

return log
