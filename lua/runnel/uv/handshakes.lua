---The handshakes of connections that a listener has accepted: each in a go block of its own, so that a slow client does
---not delay others.

local core = require "runnel.core"
local connection = require "runnel.uv.uv_connection"
local guard = require "runnel.internal.guard"

local internal = core.internal

-- How many handshakes a listener runs at a time.
local MOST = 1000

---@class runnel.uv.Handshakes
---@field context runnel.tls.Context
---@field ms? number how long one may take
---@field failed? fun(err: string)
---@field count integer how many are running
---@field running table<runnel.uv.Connection, runnel.Channel<any>> their go blocks
---@field origin any the line of the program's call
local Handshakes = {}
Handshakes.__index = Handshakes

local function shake(self, conn, done)
  local alarm <close> = guard.alarm(self.ms)
  local ready, err = connection.secure(conn, self.context, self.ms and alarm.over)
  self.running[conn] = nil
  self.count = self.count - 1
  done(ready ~= nil, self.count == MOST - 1)
  if not ready and self.failed then guard.call("the function failed of uv.listen", self.failed, err) end
end

---Begins a handshake.
---@param conn runnel.uv.Connection is closed if it fails
---@param done fun(is_ready: boolean, was_full: boolean) is called when the handshake has ended, and must not park.
---`was_full`: there was no room for another handshake until now
---@return boolean is_full there is no room for another handshake until `done` is called with `was_full`
function Handshakes:begin(conn, done)
  self.count = self.count + 1
  local block = guard.go(guard.nothing, nil, shake, self, conn, done)
  self.running[conn] = internal.started(block, self.origin)
  return self.count == MOST
end

---Cancels all handshakes, and closes their connections.
function Handshakes:close()
  local running = self.running
  self.running = {}
  for _, block in pairs(running) do core.cancel(block, "the listener has been closed") end
end

local handshakes = {}

---Call it within the library function that the program has called.
---@param context runnel.tls.Context
---@param ms? number
---@param failed? fun(err: string)
---@return runnel.uv.Handshakes
function handshakes.new(context, ms, failed)
  return setmetatable({
    context = context, ms = ms, failed = failed, running = {}, count = 0, origin = internal.origin "uv.listen",
  }, Handshakes)
end

return handshakes
