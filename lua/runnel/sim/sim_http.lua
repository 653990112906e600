---HTTP in a simulated world, at the level of requests: a request and its response are one message each, on a simulated
---connection, whose faults are theirs. What is in them is not sent as bytes: headers, and a body that is a channel,
---reach the other host as they are. Only WebSockets send all of their bytes.

local require = require
local answer = require "runnel.http.answer"
local check = require "runnel.internal.check"
local contexts = require "runnel.internal.trace_context"
local core = require "runnel.core"
local current = require "runnel.internal.world"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local time_limit = require "runnel.internal.time_limit"
local upgrades = require "runnel.sim.upgrade"

local internal = core.internal
local alts, take = internal.moving.alts, internal.moving.take
local PRIORITY = { priority = true }

local http = {}

-- ---- the client ----

local PORTS = { http = 80, https = 443 }

-- The host and the port of a URL.
local function place_of(url)
  local scheme, place = url:match "^(%a+)://([^/?#]*)"
  place = place:gsub("^.*@", "")
  local host, port = place:match "^(.*):(%d*)$"
  if not host or host:find "^%[[^%]]*$" then host = place end -- the colon is one of an IPv6 address
  return host, math.tointeger(tonumber(port)) or PORTS[scheme:lower()]
end

local SHOWN = 60 -- bytes of a body in the message

-- A request or response as its message shows it.
local function message(head, body, id)
  local text = type(body) == "string" and body ~= "" and " " .. body:sub(1, SHOWN):gsub("%c", ".") or ""
  return ("%s%s #%d\n"):format(head, text, id)
end

---Makes a request, in the running go block.
---@param url string
---@param req runnel.http.Request as the server's function gets it
---@param what { method: string, target: string, body: any }
---@return integer? status nil if there is no response
---@return any headers or the error
---@return any body
---@return boolean? again the real client may have had a connection from an earlier request to this server, and would
---now send this one on a new connection
function http.exchange(url, req, what)
  local world = current.world --[[@as runnel.sim.World]]
  local host, port = place_of(url)
  local place = ("%d %s:%d"):format(internal.host(), host, port)
  local conn <close>, err = require("runnel.uv.socket").connect(host, port)
  if not conn then return nil, err end
  world.last_exchange = world.last_exchange + 1
  local id = world.last_exchange
  req.address = conn:address()
  local exchange = { req = req }
  world.exchanges[id] = exchange
  local lines = conn:lines()
  local sent, why = conn:write(message(what.method .. " " .. what.target, what.body, id))
  local line
  if sent then line, why = lines:take() end
  world.exchanges[id] = nil
  local was_kept = world.kept[place]
  world.kept[place] = line ~= nil
  if not line then
    return nil, why or ("%s:%d: the connection has ended without a response"):format(host, port), nil, was_kept
  end
  return exchange.status, exchange.headers, exchange.body
end

-- ---- the server ----

local WHAT = "the function of http.serve" -- in reports of errors

-- The headers with the type that http.serve gives a body without one.
local function with_type(headers, body)
  for name in pairs(headers or {}) do
    if type(name) == "string" and name:lower() == "content-type" then return headers end
  end
  local copy = { ["content-type"] = type(body) == "table" and not core.is_chan(body) and "application/json"
    or "text/plain; charset=utf-8" }
  for name, value in pairs(headers or {}) do copy[name] = value end
  return body ~= nil and copy or headers
end

-- Calls the program's function, in a go block of the request.
local function call(self, exchange)
  local req = exchange.req
  if contexts.on then
    contexts.begin(req.headers.traceparent, req.headers.tracestate, req.method .. " " .. req.path, "server")
  end
  local ok, status, headers, body = guard.call(WHAT, self.handler, req)
  if not ok then status, headers, body = 500, nil, nil end
  if exchange.is_late then
    if core.is_chan(body) then ends.drop(body) end
    return
  end
  exchange.status, exchange.headers, exchange.body = status, with_type(headers, body), body
end

-- Cancels the go block of a request whose connection has ended.
local Ending = { __close = function(self)
  if not internal.has_ended(self.block) then core.cancel(self.block, self.reason) end
end }

-- The first line that arrives, and what has come behind it; nil if the connection ends before.
local function first_line(input)
  local text = ""
  repeat
    local piece = take(input)
    if not piece then return nil end
    text = text .. piece
  until text:find("\n", 1, true)
  return text:match "^([^\n]*)\n(.*)$"
end

-- Runs f in the go block of a request, and waits until it ends, the client goes away (`input` gets something), or the
-- time is up; but a WebSocket may take as long as it likes. Returns whether it has ended, and whether the time is up.
local function wait_for(self, req, input, f, ...)
  local block = guard.started(guard.go(guard.nothing, nil, f, self, ...), "http.serve")
  local ending <close> = setmetatable({ block = block, reason = "the client has closed the connection" }, Ending)
  self.running[block] = req
  local alarm <close> = guard.alarm(self.timeout > 0 and self.timeout or nil)
  local _, which = alts({ block, alarm.over, input }, PRIORITY)
  if which == 2 then time_limit.settle(core.sleep) end
  if which == 2 and (req.is_upgraded or internal.has_ended(block)) then
    which = 1
    take(block)
  end
  self.running[block] = nil
  if which == 2 then ending.reason = time_limit.error("the request had no answer", self.timeout) end
  return which == 1, which == 2
end

-- Calls the program's function for a request that may become a WebSocket.
local function call_upgrade(self, req)
  local ok = guard.call(WHAT, answer.give, req, self.handler)
  if req.socket then req.socket:returned(ok) elseif not ok then req.core:finish(true) end
end

local function serve_upgrade(self, conn, line, rest)
  local lib_request = upgrades.read(conn, line, rest)
  if not lib_request then return end
  local req = require("runnel.http.request").new(lib_request, lib_request)
  lib_request.req, req.server = req, self
  wait_for(self, req, nil, call_upgrade, req)
end

-- Serves the request of a connection.
local function serve(self, conn)
  local closing <close> = conn -- luacheck: ignore 211
  local input = conn:read()
  local line, rest = first_line(input)
  if not line then return end
  if upgrades.begins(line) then return serve_upgrade(self, conn, line, rest) end
  local id = math.tointeger(tonumber(line:match "#(%d+)$"))
  local exchange = id and current.world.exchanges[id]
  if not exchange then return end
  local _, is_late = wait_for(self, exchange.req, input, call, exchange)
  if is_late then
    local body = "503: the answer took too long" -- as the real server says it
    exchange.is_late, exchange.status, exchange.headers, exchange.body = true, 503, with_type(nil, body), body
  end
  if exchange.status then conn:write(message(tostring(exchange.status), exchange.body, id)) end
end

-- Accepts connections until the server is closed.
local function accept(self, conns)
  for conn in conns do
    self.open = self.open + 1
    local block = guard.started(guard.go(guard.nothing, nil, serve, self, conn), "http.serve")
    block:take_async(function()
      self.open = self.open - 1
      if self.drains and self.open == 0 then self.drained:close() end
    end)
  end
end

---In place of the server of the C module: what runnel.http.server calls.
---@class runnel.sim.HttpServer
---@field handler function
---@field timeout number ms; 0: none
---@field conns runnel.Channel<any>
---@field running table<runnel.Channel<any>, runnel.http.Request> by the go blocks of the requests
---@field open integer connections
---@field owner? runnel.http.Server
---@field drains boolean no more are accepted
---@field drained runnel.Channel<any>
local Server = {}
Server.__index = Server

-- The go blocks of the requests, in the order in which they came.
local function blocks_of(self)
  local list = {}
  for block in pairs(self.running) do list[#list + 1] = block end
  table.sort(list, function(a, b) return a:stats().id < b:stats().id end)
  return list
end

---Accepts no more connections, and closes WebSockets.
function Server:drain()
  self.drains = true
  self.conns:close()
  for _, block in ipairs(blocks_of(self)) do
    local socket = self.running[block].socket
    if socket then socket:drain() end
  end
  if self.open == 0 then self.drained:close() end
end

---Closes the server, and cancels the go blocks of its requests.
function Server:stop()
  self.conns:close()
  for _, block in ipairs(blocks_of(self)) do core.cancel(block, "the server has been closed") end
end

---Listens on the host that runs.
---@param host string
---@param port integer
---@param handler function
---@param timeout number ms
---@param drained runnel.Channel<any> is closed when no connection is left after drain
---@return runnel.sim.HttpServer? server
---@return any port or the error
function http.listen(host, port, handler, timeout, drained)
  check.callable(handler, "serve: f")
  local conns, where = require("runnel.uv.socket").listen(host, port)
  if not conns then return nil, where end
  local self = setmetatable({ handler = handler, timeout = timeout, conns = conns, running = {}, open = 0,
    drains = false, drained = drained }, Server)
  guard.started(guard.go(guard.nothing, nil, accept, self, conns), "http.serve")
  return self, where
end

return http
