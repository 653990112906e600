---Responses of a server of runnel.http.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local contexts = require "runnel.internal.trace_context"
local decimal = require "runnel.internal.decimal"
local ends = require "runnel.internal.ends"
local json = require "runnel.json"
local token = require "runnel.http.token"

local internal = core.internal
local is_awaited = internal.moving.is_awaited

local answer = {}

---The files of channels that are bodies, from which nothing was read (file_body.lua): the server can send the file.
---@type table<runnel.Channel<string>, runnel.http.FileBody>
answer.untouched = setmetatable({}, { __mode = "k" })

-- Characters that values of headers must not contain.
local NOT_IN_A_VALUE <const> = "[%z\1-\8\10-\31\127]"

local TEXT <const>, JSON <const> = "text/plain; charset=utf-8", "application/json"

-- Why the C module may refuse a header.
local REFUSED <const> = "the header %q cannot be set: it has a line break or a zero byte, or another wrong character, "
  .. "or the server sets it itself"

local function wrong(format, ...) error("http.serve: " .. format:format(...), 0) end

-- ---- headers ----

-- Adds a header whose value is no string, or one of several.
local function add(list, name, value)
  if type(value) ~= "string" and type(value) ~= "number" then
    wrong("the header %s: a string expected, got %s", name, check.article(value))
  end
  list[#list + 1] = name
  list[#list + 1] = decimal.exact(value)
end

-- Statuses of responses without a body, which have no type either.
local BARE = { [204] = true, [205] = true, [304] = true }

---Whether a response has no body, whatever the function returns as one.
---@param method string of the request
---@param status integer
---@return boolean
function answer.is_bare(method, status) return method == "HEAD" or BARE[status] ~= nil end

-- The headers as a list of names and values in turn, without Content-Length, and with the type `kind` of the body; and
-- the value of Content-Length. Whoever sends them checks their characters.
local function flatten(status, headers, kind)
  local list, length = { nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil, nil }, nil -- room for most
  local n = 0
  if BARE[status] then kind = nil end
  for name, value in pairs(headers) do
    if type(name) ~= "string" then wrong("headers: names are strings, got %s", check.article(name)) end
    local lower = (#name == 12 or #name == 14) and name:lower()
    if lower == "content-type" then kind = nil end
    if lower == "content-length" then
      length = math.tointeger(tonumber(value))
    elseif type(value) == "string" then
      list[n + 1], list[n + 2] = name, value
      n = n + 2
    else
      for _, element in ipairs(type(value) == "table" and value or { value }) do add(list, name, element) end
      n = #list
    end
  end
  if kind then add(list, "Content-Type", kind) end
  return list, length
end

---Headers for the C module. Raises, without a position, if one is wrong.
---@param headers table<string, string|number|string[]>
---@return string[] list names and values in turn
function answer.list(headers)
  local list = flatten(204, headers)
  local bad = answer.wrong_header(table.unpack(list))
  if bad then wrong(REFUSED, bad) end
  return list
end

---The first name among names and values in turn of a header that the C module refuses: for simulated servers.
---@param ... string
---@return string? name
function answer.wrong_header(...)
  for i = 1, select("#", ...), 2 do
    local name, value = select(i, ...)
    local lower = name:lower()
    if not token.is(name) or value:find(NOT_IN_A_VALUE) or lower == "transfer-encoding"
      or lower == "connection" and value:lower() ~= "close" then
      return name
    end
  end
end

local function check_sent(ok, name)
  if ok then return name end
  if not name then wrong("the headers are longer than max_header, which also limits the headers of a response") end
  wrong(REFUSED, name)
end

-- ---- bodies ----

-- Takes the file of a channel, which is then the caller's: nothing was read from the channel, nobody waits for a piece,
-- and the file has this length. The channel is closed. Returns nil if the channel is to be read.
local function take_file(ch, length)
  local file = answer.untouched[ch]
  if not file or file.length ~= length or ch:closed() or is_awaited(ch) then return nil end
  answer.untouched[ch], file.is_sent = nil, true
  ch:close()
  return file
end

-- Sends the values of a channel, as fast as the client reads; or the file from which they would come.
local function pump(req, ch, status, headers)
  local lib_request = req.core
  local reading <close> = setmetatable({ ch = ch }, ends.Dropping) -- luacheck: ignore 211
  local list, length = flatten(status, headers, TEXT)
  local file <close> = lib_request.respond_file and not BARE[status] and take_file(ch, length)
  if file then
    return check_sent(lib_request:respond_file(status, file.file, file.offset, file.length, table.unpack(list)))
  end
  if not check_sent(lib_request:respond(status, nil, length or -1, table.unpack(list))) then return end
  while true do
    local piece, err = ch:take()
    if type(piece) == "string" then
      local has_room = lib_request:write(piece)
      if has_room == nil then wrong("the body is longer than its header Content-Length says") end
      while not has_room do
        req.room:take()
        has_room = lib_request:write ""
      end
    elseif piece ~= nil then
      wrong("the channel of a body carries strings, got %s", check.article(piece))
    elseif err ~= nil then
      error(err, 0) -- the response is cut, so that the client sees that it is incomplete
    else
      local is_whole = lib_request:finish(false, table.unpack(req.sent_trailers or {}))
      if not is_whole then wrong("the body is shorter than its header Content-Length says") end
      return
    end
  end
end

local function send(req, status, headers, body)
  if math.type(status) ~= "integer" or status < 200 or status > 599 then
    wrong("the function must return a status from 200 to 599, headers or nil, and a body; got %s as the status",
      check.describe(status))
  end
  if headers ~= nil and type(headers) ~= "table" then
    wrong("headers: a table or nil expected, got %s: the function returned %d and that; to send a body without "
      .. "headers, return %d, nil, body", check.article(headers), status, status)
  end
  if core.is_chan(body) then return pump(req, body, status, headers or {}) end
  local kind = TEXT
  if type(body) == "table" then
    local text, why = json.encode(body)
    if not text then wrong("the body cannot be written as JSON: %s", why) end
    body, kind = text, JSON
  elseif body ~= nil and type(body) ~= "string" then
    wrong("body: a string, a channel of strings, or a table for JSON expected, got %s", check.article(body))
  end
  body = body or ""
  if headers == nil and not BARE[status] then
    return check_sent(req.core:respond(status, body, -1, "Content-Type", kind)) -- most responses
  end
  local list, length = flatten(status, headers or {}, kind)
  check_sent(req.core:respond(status, body, body == "" and length or -1, table.unpack(list)))
end

local function finish(req, ...)
  if not req.is_upgraded then return send(req, ...) end
  if not req.socket then req.core:finish(false) end -- a WebSocket ends by itself
end

local STATUS <const> = "http.response.status_code"

-- In a <close> variable: ends the operation of a request, whatever ends its go block.
local Ending = { __close = function(self, err)
  local operation, req = self.operation, self.req
  local attributes = operation.attributes
  if err ~= nil and not attributes[STATUS] and not req.is_upgraded then -- what the server has sent, or sends now
    attributes[STATUS] = req.sent_status or not internal.is_cancelled(err) and 500 or nil
  end
  local status = attributes[STATUS]
  if err == nil and status and status >= 500 then err = "status " .. status end
  contexts.finish(operation, err)
end }

-- The same as `give` for a request that belongs to a trace.
local function give_traced(req, f)
  local attributes = { ["http.request.method"] = req.method, ["url.path"] = req.path }
  local operation = contexts.begin(req.headers.traceparent, req.headers.tracestate, req.method .. " " .. req.path,
    "server", attributes)
  local ending <close> = setmetatable({ operation = operation, req = req }, Ending) -- luacheck: ignore 211
  local function note(status, headers, body)
    -- If the results are wrong, this status is not sent. The values of a channel come behind it.
    if core.is_chan(body) then attributes[STATUS] = math.tointeger(status) end
    finish(req, status, headers, body)
    attributes[STATUS] = math.tointeger(status)
  end
  note(f(req))
end

---Calls the program's function for a request, and sends what it returns; after an upgrade, ends the connection. Parks.
---@param req runnel.http.Request
---@param f fun(req: runnel.http.Request): integer, table?, any
function answer.give(req, f)
  if contexts.on then return give_traced(req, f) end
  finish(req, f(req))
end

return answer
