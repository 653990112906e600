---A request of a simulated world and its response, as the server has them: what runnel.http.answer calls to send a
---response.

local answer = require "runnel.http.answer"
local conditions = require "runnel.http.conditions"
local core = require "runnel.core"
local lib = require "runnel.http.curl"

local put = core.internal.moving.put

local TEXT <const> = "text/plain; charset=utf-8"

local exchanges = {}

local SHOWN = 60 -- bytes of a body in the message

---A request or response as its message shows it.
---@param head string
---@param body any
---@param id integer
---@return string
function exchanges.message(head, body, id)
  local text = type(body) == "string" and body ~= "" and " " .. body:sub(1, SHOWN):gsub("%c", ".") or ""
  return ("%s%s #%d\n"):format(head, text, id)
end

---In place of the C module's request: what runnel.http.answer calls to send a response.
---@class runnel.sim.Exchange
---@field id integer
---@field req runnel.http.Request
---@field source table the client's request
---@field conn runnel.uv.Connection the server's end
---@field hints string[][] early hints that have been sent: names and values in turn
---@field has_chunks? boolean the response has no length
---@field promised number how many bytes of the body may still be written; math.huge: any number
---@field server runnel.sim.HttpServer
---@field cut string the client's error if the body is cut
---@field is_over boolean nothing can be sent any more
---@field status? integer of the response, once it was sent
---@field headers table as the real client has them
---@field body any a string; or a channel of what is sent of the body
local Exchange = {}
Exchange.__index = Exchange

---Sends the head of a response as the real server does (csrc/http/server/answer.c: respond).
---@param body? string nil: it is written later
---@param length integer of a body that is written later, or that is left out; -1: unknown
---@return boolean ok
---@return boolean|string goes_on the body can be written; or the name of a header that is refused
function Exchange:respond(status, body, length, ...)
  if self.is_over then return true, false end
  local bad = answer.wrong_header(...)
  if bad then return false, bad end
  local is_head = self.req.method == "HEAD"
  local has = not answer.is_bare(self.req.method, status)
  local writes = has and not body
  if status == 205 then length = 0
  elseif body and (has or length < 0 and is_head and status ~= 304) then length = #body end
  self.has_chunks = writes and length < 0
  self.promised = not writes and 0 or length < 0 and math.huge or length
  local lines, names = {}, {}
  local function add(name, value)
    lines[#lines + 1], names[name:lower()] = ("%s: %s\n"):format(name, value), true
  end
  for i = 1, select("#", ...), 2 do add(select(i, ...), (select(i + 1, ...))) end
  if not names.date then add("Date", conditions.date(os.time())) end
  if length >= 0 and status ~= 204 then add("Content-Length", length) end
  if self.has_chunks then add("Transfer-Encoding", "chunked") end
  if self.server.drains and not names.connection then add("Connection", "close") end
  self.status, self.headers = status, lib.headers(table.concat(lines))
  self.body = writes and core.chan() or has and body or ""
  self.conn:write(exchanges.message(tostring(status), self.body, self.id))
  return true, writes
end

---@param id integer
---@param req runnel.http.Request
---@param cut string the client's error if the body is cut
---@return runnel.sim.Exchange
function exchanges.new(id, req, cut)
  return setmetatable({ id = id, req = req, cut = cut, source = req.core, hints = {}, is_over = false,
    promised = 0 }, Exchange)
end

---The headers of the request as a list of alternating names and values.
function Exchange:headers() return self.source:headers() end

function Exchange:hint(...)
  if not self.status and not self.is_over then
    self.hints[#self.hints + 1] = { ... }
    self.conn:write(exchanges.message("103", nil, self.id))
  end
  return true
end

function Exchange:trailers() return self.source:trailers() end

---The next piece of the body of the request; false at the end.
function Exchange:read(n) return self.source:read(n) end

---Sends an error as the real server does in place of the program.
---@param status integer
---@param text string
function Exchange:fail(status, text)
  local again = status == 503 and { "Retry-After", "1" } or {}
  self:respond(status, text, -1, "Content-Type", TEXT, "Connection", "close", table.unpack(again))
end

---Parks until the client takes the piece. Returns nil if the body is longer than its length.
function Exchange:write(piece)
  if #piece > self.promised then return nil end
  self.promised = self.promised - #piece
  if piece ~= "" then put(self.body, piece) end
  return true
end

---@param is_cut boolean
---@return boolean is_complete
function Exchange:finish(is_cut)
  self.is_over = true
  local misses = self.promised > 0 and (is_cut or self.promised < math.huge)
  if not self.has_chunks then self.req.sent_trailers = nil end
  if core.is_chan(self.body) then self.body:close(misses and self.cut or nil) end
  return not is_cut and not misses
end

---@param value any
---@return boolean
function exchanges.is(value) return getmetatable(value) == Exchange end

return exchanges
