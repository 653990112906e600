---An HTTP server: a go block for each request.
---
---    local http = require "runnel.http"
---    local server <close> = assert(http.serve(8080, function(req)
---      return 200, { ["content-type"] = "text/html" }, "<p>You have asked for " .. req.path
---    end))
---
---Needs libmicrohttpd: `make` builds the C module runnel.httpd.core where it finds that library's headers. A thread of
---the library reads and writes, so slow clients do not hold up the program.

local core = require "runnel.core"
local answer = require "runnel.http.answer"
local check = require "runnel.internal.check"
local guard = require "runnel.internal.guard"
local need = require "runnel.internal.need"
local request = require "runnel.http.request"
local timed_out = require "runnel.timed_out"

local lib = need("runnel.httpd.core", "libmicrohttpd and its headers, on Debian libmicrohttpd-dev")

local internal = core.internal
local cancel, chan = core.cancel, core.chan

-- Bits of the events of a request (csrc/http/server/server.h).
local NEW <const>, BODY <const>, ROOM <const>, ENDED <const> = 1, 2, 4, 8

-- Names the program's function in reports of errors.
local WHAT <const> = "the function of http.serve"

local OPTIONS = {
  host = true, max = true, max_connections = true, max_header = true, idle = true, timeout = true,
}

---@class runnel.http.server
local server = {}

---The options of http.serve.
---@class runnel.http.ServeOptions
---@field host? string the address to listen on; default "127.0.0.1", which only programs of this machine can reach
---@field max? integer bytes of a request's body; default 1048576
---@field max_header? integer bytes of its line and headers; default 16384
---@field max_connections? integer how many may be open; default 1000. Others wait
---@field idle? number ms that a connection may be without a request, and that a client may send or read nothing;
---default 30000
---@field timeout? number|false ms from the headers of a request until `f` has returned; default 30000; false: no limit

---A listening server. It stays open until it is closed, even if it is unreachable.
---@class runnel.http.Server
---@field port integer the TCP port
---@field url string of its root, as in http://127.0.0.1:8080/
---@field private core any the server of the C module; nil once it is closed
---@field private handler fun(req: runnel.http.Request): integer, table?, any
---@field private running table<any, runnel.http.Request|false> requests whose go block runs
---@field private drained runnel.Channel<any> closes when the last connection has closed
---@field private timeout number ms
local Server = { __name = "http server" }
Server.__index = Server

-- ---- requests ----

-- Runs the program's function for a request, and sends its results. In the request's go block.
local function run(self, req)
  if not guard.call(WHAT, answer.give, req, self.handler) then req.core:abandon() end
  self.running[req.id] = nil
end

-- The go block of a request has died.
local function give_up(fed)
  local self, req = fed.self, fed.req
  self.running[req.id] = nil
  req.core:abandon()
end

-- Why the server has ended a request: the reason that cancels its go block.
local REASONS = {
  gone = "the client has closed the connection",
  too_long = "the body of the request is longer than the server's limit",
  memory = "there is no memory for the body of the request",
}

local function reason_of(self, req)
  local why = req.core:why()
  if why == "late" then return timed_out.new(("the request had no answer after %s ms"):format(self.timeout)) end
  return REASONS[why]
end

-- Called with each request that has events, in the go block of the port; with false when no connection is left.
local function on_events(self, id, events, lib_request)
  if not id then return self.drained:close() end
  local req
  if events & NEW ~= 0 then
    req = request.new(id, lib_request)
    self.running[id] = false -- makes room: once the go block exists, nothing may fail
    req.block = guard.go(give_up, { self = self, req = req }, run, self, req)
    self.running[id] = req
  else
    req = self.running[id]
    if not req then return end
  end
  if events & (BODY | ROOM) ~= 0 then req.news:offer(true) end
  if events & ENDED ~= 0 then cancel(req.block, reason_of(self, req)) end
end

-- ---- servers ----

-- A timeout would keep the program running until it is due.
local Timer = { __close = function(self) cancel(self.block) end }

---Accepts no more connections, and waits until the running requests have been answered and all connections have closed;
---then closes the server. Parks.
---@param ms? number how long to wait; default 10000. Requests that still run then are cancelled
---@return boolean drained whether all had been answered
function Server:drain(ms)
  if ms ~= nil then check.ms(ms, 0, "drain") end
  if not self.core then return true end
  self.core:quiesce()
  local timer <close> = setmetatable({ block = guard.timer(ms or 10000) }, Timer)
  local _, port = core.alts({ self.drained, timer.block }, { priority = true })
  self:close()
  return port == self.drained
end

---Closes the server and all connections, even unanswered ones, and cancels the go blocks of their requests. Closing it
---again does nothing.
function Server:close()
  local lib_server = self.core
  if not lib_server then return end
  self.core = nil
  lib_server:stop()
  self.drained:close()
  local running = self.running
  self.running = {}
  for _, req in pairs(running) do
    if req then cancel(req.block, "the server has been closed") end
  end
end

Server.__close = Server.close

function Server:__tostring() return ("http server: %s%s"):format(self.url, self.core and "" or " (closed)") end

local function check_options(opts)
  check.options(opts, OPTIONS, "serve", 4)
  opts = opts or {}
  if opts.host ~= nil and type(opts.host) ~= "string" then
    error("serve: host: an address such as \"0.0.0.0\" expected, got " .. check.article(opts.host), 3)
  end
  for name, least in pairs { max = 0, max_connections = 1, max_header = 256 } do
    if opts[name] ~= nil then check.integer(opts[name], least, "serve: " .. name, 4) end
  end
  if opts.idle ~= nil then check.ms(opts.idle, 1, "serve: idle", 4) end
  if opts.timeout then check.ms(opts.timeout, 1, "serve: timeout", 4) end
  return opts
end

---Starts a server, which calls `f` for each request, in a go block of its own, and sends what it returns: a status, a
---table of headers or nil, and a body: a string; a channel of strings, which is read as fast as the client reads; a
---table, which is sent as JSON; or nil. If `f` raises an error, it is reported, and the client gets status 500. When
---the client goes away, the go block is cancelled.
---
---The server keeps a script that `runnel` runs, and rn.run(), going until it is closed.
---@param port integer the TCP port; 0 for any that is free
---@param f fun(req: runnel.http.Request): integer, table<string, string|number|string[]>?, any
---@param opts? runnel.http.ServeOptions
---@return runnel.http.Server? server nil if the port is taken, for example
---@return string? err why
function server.serve(port, f, opts)
  check.integer(port, 0, "serve: port")
  if port > 65535 then error(("serve: port: at most 65535 expected, got %d"):format(port), 2) end
  check.callable(f, "serve: f")
  opts = check_options(opts)
  if internal.is_simulation() then
    error("serve: a server needs real time, and this is a simulation: call the function of the server itself", 2)
  end
  local host = opts.host or "127.0.0.1"
  local timeout = opts.timeout == nil and 30000 or opts.timeout or 0
  local self = setmetatable({ handler = f, running = {}, drained = chan(), timeout = timeout }, Server)
  local lib_server, number = lib.start(host, port, opts.max_connections or 1000, opts.max_header or 16384,
    opts.max or 1 << 20, opts.idle or 30000, timeout, chan():name "events of an http server",
    function(id, events, lib_request) on_events(self, id, events, lib_request) end)
  if not lib_server then return nil, number end
  self.core, self.port = lib_server, number
  self.url = ("http://%s:%d/"):format(host:find(":", 1, true) and "[" .. host .. "]" or host, number)
  return self
end

return server
