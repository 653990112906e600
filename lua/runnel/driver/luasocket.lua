---A driver over LuaSocket's select: go blocks can wait for its sockets.
---
---    local sockets = require "runnel.driver.luasocket"
---    rn.driver(sockets)
---    server:settimeout(0)
---    rn.go(function()
---      sockets.readable(server):take()
---      local client = server:accept()
---    end)
---
---The sockets must not block: call settimeout(0) for each. Because `readable` and `writable` return channels, rn.alts
---can wait for a socket and a timeout, or any other channel.

local core = require "runnel.core"
local need = require "runnel.internal.need"
local raise = core.internal.raise
local socket = need("socket", "Debian's lua-socket, LuaRocks' luasocket")

-- ms. LuaSocket does not stop waiting for a signal such as Ctrl-C, so no wait is longer than this.
local LONGEST = 100

-- The sockets that go blocks wait for: a list for select, and the channel of each socket.
local reading, writing = { channels = {} }, { channels = {} }

local function watch(set, sock, what)
  local ok, fd = pcall(function() return sock:getfd() end)
  if not ok or type(fd) ~= "number" then raise(what .. ": a socket of LuaSocket expected, got a " .. type(sock)) end
  local ch = set.channels[sock]
  if not ch then
    ch = core.chan()
    set.channels[sock] = ch
    set[#set + 1] = sock
  end
  return ch
end

-- Closes the channels of the sockets that are ready, and of those that have been closed, which select does not report.
-- Returns whether there were any.
local function settle(set, ready)
  local before = #set
  for i = before, 1, -1 do
    local sock = set[i]
    local closed = sock:getfd() < 0
    if closed or ready[sock] then
      set[i] = set[#set]
      set[#set] = nil
      local ch = set.channels[sock]
      set.channels[sock] = nil
      ch:close(closed and "closed" or nil)
    end
  end
  return #set < before
end

---@class runnel.driver.luasocket: runnel.Driver
local driver = {}

---Makes a channel that closes when a socket can be read, or can accept a connection, without waiting. If the socket is
---closed here first, the channel closes with the error "closed".
---@param sock table a socket of LuaSocket
---@return runnel.Channel<any> ch
function driver.readable(sock) return (watch(reading, sock, "readable")) end

---Makes a channel that closes when a socket can be written without waiting, or is connected; otherwise like readable.
---@param sock table a socket of LuaSocket
---@return runnel.Channel<any> ch
function driver.writable(sock) return (watch(writing, sock, "writable")) end

function driver:wait(ms) -- luacheck: ignore self
  local read, written = settle(reading, {}), settle(writing, {})
  if read or written then return end
  local readable, writable = socket.select(reading, writing, math.min(ms or LONGEST, LONGEST) / 1000)
  settle(reading, readable)
  settle(writing, writable)
end

function driver:alive() return #reading + #writing > 0 end -- luacheck: ignore self

return driver
