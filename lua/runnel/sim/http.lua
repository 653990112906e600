---HTTP in a simulated world, at the level of requests: a request and its response are one message each, on a simulated
---connection, whose faults are theirs. What is in them is not sent as bytes: headers, and a body that is a channel,
---reach the other host as they are.

local check = require "runnel.internal.check"
local contexts = require "runnel.internal.trace_context"
local core = require "runnel.core"
local current = require "runnel.internal.sim.current"
local guard = require "runnel.internal.guard"
local timed_out = require "runnel.timed_out"

local internal = core.internal
local alts = internal.moving.alts
local PRIORITY = { priority = true }

local http = {}

-- ---- the client ----

local PORTS = { http = 80, https = 443 }

-- The host and the port of a URL.
local function place_of(url)
  local scheme, place = url:match "^(%a+)://([^/?#]*)"
  local host, port = place:gsub("^.*@", ""):match "^(.-):?(%d*)$"
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
function http.exchange(url, req, what)
  local world = current.world --[[@as runnel.sim.World]]
  local host, port = place_of(url)
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
  if not line then return nil, why or ("%s:%d: the connection has ended without a response"):format(host, port) end
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
  exchange.status, exchange.headers, exchange.body = status, with_type(headers, body), body
end

-- Cancels the go block of a request whose connection has ended.
local Ending = { __close = function(self)
  if not internal.has_ended(self.block) then core.cancel(self.block, self.reason) end
end }

-- Serves the request of a connection.
local function serve(self, conn)
  local closing <close> = conn -- luacheck: ignore 211
  local lines = conn:lines()
  local line = lines:take()
  local id = line and math.tointeger(tonumber(line:match "#(%d+)$"))
  local exchange = id and current.world.exchanges[id]
  if not exchange then return end
  local block = guard.started(guard.go(guard.nothing, nil, call, self, exchange), "http.serve")
  local ending <close> = setmetatable({ block = block, reason = "the client has closed the connection" }, Ending)
  self.running[block] = true
  local late = self.timeout > 0 and guard.timer(self.timeout) or nil
  local _, which = alts({ block, lines, late }, PRIORITY)
  self.running[block] = nil
  if late and not internal.has_ended(late) then core.cancel(late) end
  if which == 3 then ending.reason = timed_out.new(("the request had no answer after %s ms"):format(self.timeout)) end
  if which ~= 1 or not exchange.status then return end
  conn:write(message(tostring(exchange.status), exchange.body, id))
end

-- Accepts connections until the server is closed.
local function accept(self, conns)
  for conn in conns do
    self.open = self.open + 1
    local block = guard.started(guard.go(guard.nothing, nil, serve, self, conn), "http.serve")
    block:take_async(function()
      self.open = self.open - 1
      if self.quiet and self.open == 0 then self.drained:close() end
    end)
  end
end

---In place of the server of the C module: what runnel.http.server calls.
---@class runnel.sim.HttpServer
---@field handler function
---@field timeout number ms; 0: none
---@field conns runnel.Channel<any>
---@field running table<runnel.Channel<any>, true> the go blocks of requests
---@field open integer connections
---@field quiet boolean no more are accepted
---@field drained runnel.Channel<any>
local Server = {}
Server.__index = Server

---Accepts no more connections.
function Server:drain()
  self.quiet = true
  self.conns:close()
  if self.open == 0 then self.drained:close() end
end

---Closes the server, and cancels the go blocks of its requests.
function Server:stop()
  self.conns:close()
  local list = {}
  for block in pairs(self.running) do list[#list + 1] = block end
  table.sort(list, function(a, b) return a:stats().id < b:stats().id end)
  for _, block in ipairs(list) do core.cancel(block, "the server has been closed") end
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
    quiet = false, drained = drained }, Server)
  guard.started(guard.go(guard.nothing, nil, accept, self, conns), "http.serve")
  return self, where
end

return http
