---An HTTP server: a go block for each request.
---
---    local http = require "runnel.http"
---    local server <close> = assert(http.serve(8080, function(req)
---      return 200, { ["content-type"] = "text/html" }, "<p>You have asked for " .. req.path
---    end))
---
---A thread of the library reads and writes, so slow clients do not hold up the program.

local require = require
local core = require "runnel.core"
local everything = require "runnel.internal.living"
local answer = require "runnel.http.answer"
local check = require "runnel.internal.check"
local current = require "runnel.internal.world"
local guard = require "runnel.internal.guard"
local need = require "runnel.internal.need"
local request = require "runnel.http.request"
local sign = require "runnel.internal.sign"
local term = require "runnel.internal.sigterm"
local time_limit = require "runnel.internal.time_limit"
local timed_out = require "runnel.internal.timed_out"
local raise = core.internal.raise

local lib = need("runnel.http.core")

local cancel, chan = core.cancel, core.chan

-- Bits of the events of a request (csrc/http/server/server.h).
local NEW <const>, BODY <const>, ROOM <const>, ENDED <const>, CUT <const> = 1, 2, 4, 8, 32

-- Names the program's function in reports of errors.
local WHAT <const> = "the function of http.serve"

-- The error for other go blocks that still read the body.
local ANSWERED <const> = "the response was sent before the whole body had come"

local DEFAULTS <const> = {
  host = "127.0.0.1", max = 1048576, max_header = 16384, max_connections = 1000, max_requests = 1000,
  header_timeout = 10000, idle = 30000, min_rate = 500, timeout = 30000,
}

local kinds = check.kinds
local OPTIONS <const> = {
  host = true, reuseport = kinds.boolean, tls = true, max = kinds.integer(0), max_header = kinds.integer(256),
  max_connections = kinds.integer(1), max_per_address = kinds.integer(1), max_requests = kinds.integer(1),
  min_rate = kinds.integer(0), mode = kinds.integer(0, check.MOST_MODE),
  fd = kinds.integer(0, check.MOST_DESCRIPTOR), header_timeout = kinds.ms(1),
  idle = kinds.ms(1), timeout = true,
  drain_on_term = kinds.boolean,
}

---@class runnel.http.server
---@field package opened integer how many servers were opened
---@field living table<integer, runnel.http.Server> the open ones, by their numbers, but for those of simulated worlds
local server = { opened = 0, living = setmetatable({}, { __mode = "v" }) }

---The options of http.serve.
---@class runnel.http.ServeOptions
---@field host? string the address to listen on; default "127.0.0.1", which only programs of this machine can reach
---@field max? integer bytes of a request's body; default 1048576
---@field max_header? integer bytes of a request's line and headers, and of the headers of a response; default 16384
---@field max_connections? integer how many may be open; default 1000. Further ones get status 503
---@field max_per_address? integer how many one address may have; default a quarter of max_connections, and no limit for
---addresses of this machine
---@field max_requests? integer how many requests a connection may have; default 1000
---@field header_timeout? number ms from the first byte of a request to the end of its headers; default 10000, or
---`idle` if that is less
---@field idle? number ms that a connection may be without a request, and that a client may fall behind min_rate;
---default 30000
---@field min_rate? integer bytes a second that a client must send or read, on average; default 500; 0: it must send or
---read something within `idle`
---@field timeout? number|false ms from the headers of a request until `f` has returned; default 30000; false: no limit
---@field reuseport? boolean other processes may listen on the port at the same time
---@field drain_on_term? boolean false: SIGTERM ends the program at once, as usual; otherwise the server drains first
---@field fd? integer a listening socket that was passed to the program, in place of host and port
---@field mode? integer of the file of a Unix socket, as in tonumber("660", 8): who may connect
---@field tls? runnel.tls.Context|runnel.tls.ServerOptions certificates: the server speaks HTTPS

---A listening server. It stays open until it is closed, even if it is unreachable.
---@class runnel.http.Server
---@field port? integer the TCP port; nil: it is a Unix socket
---@field path? string of the Unix socket
---@field url string of its root, as in http://127.0.0.1:8080/
---@field package max_header integer bytes
---@field package number integer in the order in which they were opened
---@field private core any the server of the C module; nil once it is closed
---@field private handler fun(req: runnel.http.Request): integer, table?, any
---@field private running table<any, runnel.http.Request|false> requests whose go block runs
---@field private drained runnel.Channel<any> closes when the last connection has closed
---@field private timeout number ms
---@field package drains? boolean `drain` has been called
---@field private was_cut? boolean it was closed while it drained
---@field private forget? fun() SIGTERM does not drain it any more
local Server = { __name = "http server" }
Server.__index = Server
Server.__sign = "server"

-- ---- requests ----

-- Runs the program's function for a request, and sends its results. In the request's go block, whose stack stays as
-- large as it has been: most of the memory of an open WebSocket.
local function run(self, req)
  if req.gone then cancel(req.block, req.gone) end -- takes effect where the function first waits
  local ok = guard.called(WHAT, xpcall(answer.give, guard.keep_traceback, req, self.handler))
  if req.socket then
    req.socket:returned(ok)
  elseif not ok then
    req.core:finish(true)
  end
  self.running[req.id] = nil
  request.end_body(req, ANSWERED)
end

-- The go block of a request has died.
local function give_up(req, err)
  local self = req.server
  self.running[req.id] = nil
  request.end_body(req, err)
  req.core:finish(true)
  if req.socket then req.socket:gone "its go block has been cancelled" end
end

-- Why the server has ended a request: the reason that cancels its go block, and the status that it has sent.
local GONE <const> = "the client has closed the connection"
local REASONS = {
  gone = { GONE },
  slow = { "the body of the request did not arrive in time", 408 },
  late = { "the request had no answer", 503 },
  too_long = { "the body of the request is longer than the server's limit", 413 },
  wrong = { "the body of the request breaks the rules of HTTP", 400 },
  memory = { "there is no memory for the body of the request" },
}

local function reason_of(self, req)
  local why = req.core:why()
  local text, status = table.unpack(REASONS[why])
  req.sent_status = status
  if why == "late" then return time_limit.error(text, self.timeout) end
  return text
end

-- Called in the go block of the port, with each request that has events; with false when no connection is left.
local function on_events(self, id, events, lib_request, why)
  if not id then return self.drained:close() end
  if events & CUT ~= 0 then core.internal.report(why, nil, WHAT) end -- its go block has ended
  local req
  if events & NEW ~= 0 then
    req = request.new(id, lib_request)
    req.server = self
    self.running[id] = false -- reserves the field: once the go block exists, nothing may fail
    req.block = guard.go(give_up, req, run, self, req)
    self.running[id] = req
  else
    req = self.running[id]
    if not req then return end
  end
  if req.socket then
    req.socket:on_news(events)
  else
    if events & BODY ~= 0 then req.can_read:offer(true) end
    if events & ROOM ~= 0 then req.room:offer(true) end
  end
  if events & ENDED == 0 then return end
  local reason = reason_of(self, req)
  if req.socket then req.socket:gone(reason)
  elseif events & NEW ~= 0 and reason == GONE and self.core then req.gone = reason
  else cancel(req.block, reason) end
end

-- ---- servers ----

---Accepts no more connections, closes WebSockets with 1001, and waits until the running requests have been answered and
---all connections have closed; then closes the server. Parks.
---@param timeout? number ms; default 10000. Requests that still run then are cancelled
---@return boolean drained whether all had been answered
---@return string|runnel.TimedOut? err the time was up, or the server was closed meanwhile
function Server:drain(timeout)
  sign.own(self, "server", "drain")
  if timeout == nil then timeout = 10000 end
  check.ms(timeout, 0, "drain: timeout")
  if self.core then
    self.drains = true
    self.core:drain()
    for _, req in pairs(self.running) do
      if req and req.socket then req.socket:drain() end
    end
    local alarm <close> = guard.alarm(timeout)
    local _, port = core.alts({ self.drained, alarm.over }, { priority = true })
    self:close()
    if port ~= self.drained then return timed_out.of_drain("the server " .. self.url, timeout) end
  end
  if self.was_cut then return false, ("the server %s was closed before it was drained"):format(self.url) end
  return true
end

---Closes the server and all connections, even unanswered ones, and cancels the go blocks of their requests. Closing it
---again does nothing.
function Server:close()
  sign.own(self, "server", "close")
  local lib_server = self.core
  if not lib_server then return end
  self.core, server.living[self.number] = nil, nil
  if self.forget then self.forget() end
  lib_server:stop()
  self.was_cut = self.drains and not self.drained:closed()
  self.drained:close() -- also for calls of `drain` that wait
  local running = self.running
  self.running = {}
  for _, req in pairs(running) do
    if req then cancel(req.block, "the server has been closed") end
  end
end

Server.__close = Server.close

function Server:__tostring()
  return ("http server: %s%s"):format(self.path or self.url, self.core and "" or " (closed)")
end

---What an open server has counted (csrc/http/server/tally.h).
---@param self runnel.http.Server
---@return { statuses: table<integer, integer>, running: integer, seconds: number, times: number[][] }
function server.tally(self) return self.core:tally() end

-- Checks where to listen.
local function check_place(place, opts)
  if type(place) == "string" and place:find("/", 1, true) and not place:find(":", 1, true) then
    check.no_zero(place, "serve: the path")
    for _, name in ipairs { "host", "reuseport" } do
      if opts and opts[name] ~= nil then raise(("serve: %s is for a port, not for a Unix socket"):format(name)) end
    end
    return
  end
  if type(place) == "string" then
    raise(("serve: a port, or the path of a Unix socket, with a slash, expected, got %q"):format(place))
  end
  check.integer(place, 0, "serve: port")
  if place > 65535 then raise(("serve: port: at most 65535 expected, got %d"):format(place)) end
  if opts and opts.mode then raise("serve: mode is for a Unix socket") end
end

-- Checks the options; returns the settings for the C module.
local function read_options(place, opts)
  check.options(opts, OPTIONS, "serve")
  check_place(place, opts)
  local is_path = type(place) == "string"
  local settings = { port = is_path and 0 or place, path = is_path and place or nil, fd = -1, mode = -1 }
  for name, value in pairs(DEFAULTS) do settings[name] = value end
  for name, value in pairs(opts or {}) do settings[name] = value end
  if type(settings.host) ~= "string" then
    raise("serve: host: an address such as \"0.0.0.0\" expected, got " .. check.article(settings.host))
  end
  check.no_zero(settings.host, "serve: the host")
  if settings.timeout then check.ms(settings.timeout, 1, "serve: timeout") end
  settings.timeout = settings.timeout or 0
  if not (opts and opts.header_timeout) then
    settings.header_timeout = math.min(settings.header_timeout, settings.idle)
  end
  settings.counts_local = settings.max_per_address ~= nil
  settings.max_per_address = settings.max_per_address or math.max(1, settings.max_connections // 4)
  return settings
end

-- The certificates of option `tls`, if there is one; nil and an error if they cannot be read.
local function read_tls(opts)
  local tls = opts and opts.tls
  if not tls then return nil end
  if type(tls) == "table" and tls.alpn == nil then
    local settings = { alpn = { "http/1.1" } }
    for name, value in pairs(tls) do settings[name] = value end
    tls = settings
  end
  return require("runnel.internal.tls_options").of("server", tls, "serve: tls")
end

---Starts a server, which calls `f` for each request, in a go block of its own, and sends what it returns: a status, a
---table of headers or nil, and a body: a string; a channel of strings, which is read as fast as the client reads; a
---table, which is sent as JSON; or nil. If `f` raises an error, it is reported, and the client gets status 500. When
---the client goes away, the go block is cancelled.
---
---The server keeps a script that `runnel` runs, and rn.run(), going until it is closed.
---@param port integer|string the TCP port; 0 for any that is free; or the path of a Unix socket, with a slash
---@param f fun(req: runnel.http.Request): integer, table<string, string|number|string[]>?, any
---@param opts? runnel.http.ServeOptions
---@return runnel.http.Server? server nil if the port is taken, for example
---@return string? err why
function server.serve(port, f, opts)
  sign.dot(port, "http", "serve")
  check.callable(f, "serve: f")
  local settings = read_options(port, opts)
  local context, wrong = read_tls(opts)
  if wrong then return nil, wrong end
  if current.is_outside() then
    raise("serve: a server needs real time, and this is a simulation: make a simulated world (sim.world) and call it "
      .. "on a host of that, or call the function of the server itself")
  end
  server.opened = server.opened + 1
  local self = setmetatable({ handler = f, running = {}, drained = chan(), timeout = settings.timeout,
    max_header = settings.max_header, number = server.opened }, Server)
  local lib_server, number
  if current.world then
    lib_server, number = current.twin("sim_http").listen(settings, f, self.drained)
  else
    lib_server, number = lib.start(settings, chan():name "events of an http server",
      function(id, events, lib_request, why) on_events(self, id, events, lib_request, why) end, context)
  end
  if not lib_server then return nil, number end
  if type(number) == "string" then self.path = number else self.port = number end
  self.core = lib_server
  if current.world then lib_server.owner = self end -- which SIGTERM drains, also if the program has no reference to it
  if not current.world then server.living[self.number] = self end
  local host = settings.host
  if host:find(":", 1, true) then host = "[" .. host .. "]" end
  self.url = ("%s://%s/"):format(context and "https" or "http",
    self.port and ("%s:%d"):format(host, number) or "localhost")
  if not opts or opts.drain_on_term ~= false then
    self.forget = term.add(self, "http server", {
      order = term.SERVERS, name = self.path or self.url, drain = self.drain, done = self.drained,
    })
  end
  return self
end

everything.servers, everything.server_tally = server.living, server.tally

return server
