---HTTP in a simulated world, at the level of requests: a request and its response are one message each, on a simulated
---connection, whose faults are theirs. What is in them is not sent as bytes: headers, and a body that is a channel,
---reach the other host as they are. Only WebSockets send all of their bytes.

local require = require
local answer = require "runnel.http.answer"
local check = require "runnel.internal.check"
local connection = require "runnel.uv.uv_connection"
local core = require "runnel.core"
local current = require "runnel.internal.world"
local exchanges = require "runnel.sim.sim_exchange"
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

local CUT = "the connection has ended in the middle of the body"
local AHEAD = 1024 -- pieces

-- A body that is a channel may close with an error: then the request fails with it, and the server loses the client,
-- whoever reads the body. And the client may read it ahead of the server, also before it is connected. Returns a
-- function that gives the error, or nil, and one to which the connection is given.
local function watch_source(world, what)
  local pieces, failed, conn = what.pieces, nil, nil
  if not pieces then return function() end, function() end end
  local function go_on(ok, piece)
    if ok then return piece end
    if internal.is_cancelled(piece) then error(piece, 0) end -- the reader, and not the body
    failed = piece
    if conn then conn:close() end
    error(piece, 0)
  end
  local function next_piece() return go_on(pcall(pieces)) end
  what.pieces = next_piece
  if world.faults:perhaps() then
    local ahead = core.chan(AHEAD)
    guard.go(guard.nothing, nil, function()
      local ok, piece = pcall(next_piece)
      while ok and piece and ahead:put(piece) do ok, piece = pcall(next_piece) end
      ahead:close(not ok and piece or nil)
    end)
    function what.pieces()
      local piece, err = take(ahead)
      if err ~= nil then error(err, 0) end
      return piece
    end
  end
  return function() return failed end, function(opened) conn = opened end
end

-- The response is there. The rest of a body that the server has not read may have been sent, or not.
local function send_rest(world, what)
  if not what.pieces or not world.faults:perhaps() then return end
  pcall(function()
    repeat until not what:read()
  end)
end

-- The connections of a host to a server, of which http.max_connections limits the number.
---@class runnel.sim.HttpSlots
---@field used integer
---@field freed runnel.Channel<boolean> has a value when there may be a free one
local Slots = {}
Slots.__index = Slots

-- A free one again. Whoever gets it tells the next one, since only one value is kept.
function Slots:free()
  self.used = self.used - 1
  self.freed:offer(true)
end

-- A `<close>` variable that frees a connection, unless that is left to somebody else.
local Slot = { __close = function(self)
  if self.slots then self.slots:free() end
end }

-- Waits until there may be another connection from this host to that server.
local function wait_for_slot(host, place)
  local slots = host.requests[place]
  if not slots then
    slots = setmetatable({ used = 0, freed = core.chan(1) }, Slots)
    host.requests[place] = slots
  end
  while slots.used >= (host.max_connections or math.huge) do take(slots.freed) end
  slots.used = slots.used + 1
  if slots.used < (host.max_connections or math.huge) then slots.freed:offer(true) end
  return setmetatable({ slots = slots }, Slot)
end

---Makes a request, in the running go block.
---@param url string
---@param req runnel.http.Request as the server's function gets it
---@param what { method: string, target: string, body: any, pieces?: fun(): string?, read: function, path?: string }
---@return integer? status nil if there is no response
---@return any headers or the error
---@return any body
---@return boolean? again the real client may have had a connection from an earlier request to this server, and would
---now send this one on a new connection
function http.exchange(url, req, what)
  local world = current.world --[[@as runnel.sim.World]]
  local host, port = place_of(url)
  local place = ("%d %s:%d"):format(internal.host(), what.path or host, port)
  local source_error, connected = watch_source(world, what)
  local slot <close> = world:here().max_connections and wait_for_slot(world:here(), place) or nil
  local socket = require "runnel.uv.socket"
  local opened, err = socket.connect(what.path or host, not what.path and port or nil)
  if source_error() ~= nil then err = source_error() end
  if not opened then return nil, err end
  local attempt <close> = connection.attempt(opened)
  local conn = opened --[[@as runnel.uv.Connection]]
  if err ~= nil then return nil, err end
  connected(conn)
  world.last_exchange = world.last_exchange + 1
  local id = world.last_exchange
  req.address = what.path and "unix:" or conn:address()
  local exchange = exchanges.new(id, req, ("%s:%d: %s"):format(host, port, CUT))
  world.exchanges[id] = exchange
  local lines = conn:lines()
  local sent, why = conn:write(exchanges.message(what.method .. " " .. what.target, what.body, id))
  local line, hint
  repeat
    if sent then line, why = lines:take() end
    hint = line and line:find "^103 " and table.remove(exchange.hints, 1)
    if hint then what:hint(table.unpack(hint)) end
  until not hint
  world.exchanges[id] = nil
  local was_kept = world.kept[place]
  world.kept[place] = line ~= nil and (exchange.headers.connection or ""):lower() ~= "close"
  if line then send_rest(world, what) end
  if source_error() ~= nil then return nil, source_error() end
  if not line then
    return nil, why or ("%s:%d: the connection has ended without a response"):format(host, port), nil, was_kept
  end
  if core.is_chan(exchange.body) then -- the connection is open until all of the body has come
    attempt.conn = nil
    local slots = slot and slot.slots
    if slot then slot.slots = nil end
    internal.on_close(exchange.body, function()
      conn:close()
      if slots then slots:free() end
    end)
  end
  return exchange.status, exchange.headers, exchange.body
end

-- ---- the server ----

local WHAT <const> = "the function of http.serve" -- in reports of errors

-- Calls the program's function, and sends what it returns, in a go block of the request.
local function call(self, exchange)
  if guard.call(WHAT, answer.give, exchange.req, self.handler) then return exchange:finish(false) end
  if exchange.status then return exchange:finish(true) end
  exchange:fail(500, "500: the server has failed\n")
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

-- The go block of a request has died: so does its WebSocket, which says so as on the real server.
local function give_up(req)
  if req.socket then req.socket:gone "its go block has been cancelled" end
end

-- Runs f in the go block of a request, and waits until it ends, the client goes away (`input` gets something), or the
-- time is up; but a WebSocket may take as long as it likes. Returns whether it has ended, and whether the time is up.
local function wait_for(self, req, input, f, ...)
  local block = guard.started(guard.go(give_up, req, f, self, ...), "http.serve")
  local ending <close> = setmetatable({ block = block, reason = "the client has closed the connection" }, Ending)
  self.running[block] = req
  local alarm <close> = guard.alarm(self.timeout > 0 and self.timeout or nil)
  local _, which = alts({ block, alarm.over, input }, PRIORITY)
  if which == 2 then time_limit.settle(core.sleep) end
  if which == 2 and (req.is_upgraded or req.core.status or internal.has_ended(block)) then
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
  lib_request.req, req.server = req, self.owner
  wait_for(self, req, nil, call_upgrade, req)
end

-- The connection of a request has ended.
local Over = { __close = function(self) self.exchange:finish(true) end }

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
  local over <close> = setmetatable({ exchange = exchange }, Over) -- luacheck: ignore 211
  exchange.conn, exchange.is_over, exchange.req.core, exchange.req.server = conn, self.is_stopped, exchange, self.owner
  exchange.server = self
  local _, is_late = wait_for(self, exchange.req, input, call, exchange)
  if is_late then exchange:fail(503, "503: the answer took too long\n") end
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
---@field is_stopped boolean nothing is answered any more
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
  -- The thread of the real server says so later.
  if self.open == 0 then current.world:later(0, current.world:here(), self.drained.close, self.drained) end
end

---Closes the server, and cancels the go blocks of its requests.
function Server:stop()
  self.is_stopped = true
  for _, req in pairs(self.running) do
    if exchanges.is(req.core) then req.core.is_over = true end
  end
  self.conns:close()
  for _, block in ipairs(blocks_of(self)) do core.cancel(block, "the server has been closed") end
end

-- Listens at a path. A Unix socket to which nobody listens any more is replaced, as by the real server.
local function listen_unix(path, mode)
  local socket, opts = require "runnel.uv.socket", mode >= 0 and { mode = mode } or nil
  local conns, err = socket.listen(path, nil, opts)
  if conns or not err:find "^EADDRINUSE" then return conns, err end
  local conn, why = socket.connect(path)
  if conn then conn:close() end
  if conn or not why:find "^ECONNREFUSED" then return nil, err end
  require("runnel.uv.loop").uv.fs_unlink(path)
  return socket.listen(path, nil, opts)
end

---Listens on the host that runs.
---@param settings { host: string, port: integer, path: string?, mode: integer, timeout: number }
---@param handler function
---@param drained runnel.Channel<any> is closed when no connection is left after drain
---@return runnel.sim.HttpServer? server
---@return any port, path or the error
function http.listen(settings, handler, drained)
  check.callable(handler, "serve: f")
  local conns, where
  if settings.path then conns, where = listen_unix(settings.path, settings.mode)
  else conns, where = require("runnel.uv.socket").listen(settings.host, settings.port) end
  if not conns then return nil, where end
  local self = setmetatable({ handler = handler, timeout = settings.timeout, conns = conns, running = {}, open = 0,
    drains = false, is_stopped = false, drained = drained }, Server)
  guard.started(guard.go(guard.nothing, nil, accept, self, conns), "http.serve")
  return self, where
end

return http
