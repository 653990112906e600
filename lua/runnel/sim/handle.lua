---What all handles of a simulated world's luv have in common: a host, and an end.

local current = require "runnel.internal.world"
local raise = require("runnel.core").internal.raise

---@class runnel.sim.Handle
---@field world runnel.sim.World
---@field host runnel.sim.Host
---@field born integer the start of the host to which it belongs
---@field slot integer where it is in the host's list of handles
---@field closing boolean
---@field holder any what uses the handle: stays alive as long as the handle is open
local Handle = {}
Handle.__index = Handle

---A class of handles.
---@param name string
---@param parent? table the class whose methods it has, too
---@return table class
local function class(name, parent)
  local new = setmetatable({ __name = name }, { __index = parent or Handle })
  new.__index = new
  return new
end

---Makes a handle of the host that runs.
---@param of table its class
---@return table handle
local function new(of)
  local world = current.world --[[@as runnel.sim.World]]
  local host = world:here()
  local self = setmetatable({ world = world, host = host, born = host.born, closing = false }, of)
  host:keep(self)
  return self
end

---Whether the handle's host has not crashed since, and its world has not ended. If not, it has no effect any more.
function Handle:lives() return self.host.born == self.born and current.world == self.world end

---Calls a function of the handle after some ms, on its host.
function Handle:later(ms, f, a, b) self.world:later(ms, self.host, f, a, b) end

function Handle:is_closing() return self.closing end

function Handle:ref() end -- luacheck: ignore 212

function Handle:unref() end -- luacheck: ignore 212

-- What a class does when it is closed, or its host crashes.
function Handle:stopped() end -- luacheck: ignore 212

---Closes it, and calls `on_close` afterwards.
---@param on_close? fun()
function Handle:close(on_close)
  if self.closing then raise(("handle %s is already closing"):format(self)) end
  self.closing, self.holder = true, nil
  if not self:lives() then return end
  self:stopped()
  self.host:forget(self)
  if on_close then self:later(0, on_close) end
end

---The host has crashed.
function Handle:crashed() self:stopped() end

-- What luv's functions return when they fail.
local TEXTS = {
  EACCES = "permission denied", EADDRINUSE = "address already in use", EADDRNOTAVAIL = "address not available",
  EAGAIN = "resource temporarily unavailable", EBADF = "bad file descriptor", ECONNREFUSED = "connection refused",
  ECONNRESET = "connection reset by peer", EEXIST = "file already exists", EINVAL = "invalid argument",
  EIO = "i/o error", EISCONN = "socket is already connected", EISDIR = "illegal operation on a directory",
  EMFILE = "too many open files", EMSGSIZE = "message too long",
  ENETUNREACH = "network is unreachable", ENOENT = "no such file or directory",
  ENOSPC = "no space left on device", ENOTCONN = "socket is not connected", ENOTDIR = "not a directory",
  ENOTEMPTY = "directory not empty", EPIPE = "broken pipe", ESRCH = "no such process",
  ENXIO = "no such device or address", EPERM = "operation not permitted", EALREADY = "connection already in progress",
}

---What a function of luv returns when it fails.
---@param name string
---@param what? string what luv adds to the text, as a path
local function fail(name, what)
  return nil, ("%s: %s%s"):format(name, TEXTS[name], what and ": " .. what or ""), name
end

-- What luv raises for an address that is none.
local function check_address(ip, port)
  local a, b, c, d = tostring(ip):match "^(%d+)%.(%d+)%.(%d+)%.(%d+)$"
  local is_valid = a and tonumber(a) < 256 and tonumber(b) < 256 and tonumber(c) < 256 and tonumber(d) < 256
  if not is_valid and not tostring(ip):find "^[%x:.]*:[%x:.]*$" then
    raise(("Invalid IP address or port [%s:%d]"):format(ip, port))
  end
end

local function address(ip, port)
  return { ip = ip, port = port, family = ip:find(":", 1, true) and "inet6" or "inet" }
end

-- Whether an address that was bound is all addresses of its host. There are no others of IPv6.
local function is_any(ip) return ip == "0.0.0.0" or ip == "::" end

-- An address of IPv4 as a socket of this address sees it, and as all others do.
local function seen_by(own, ip) return own == "::" and "::ffff:" .. ip or ip end

local function plain(ip) return ip:match "^::[fF][fF][fF][fF]:([%d.]+)$" or ip end

return { is_any = is_any, plain = plain, seen_by = seen_by, address = address, check_address = check_address,
  class = class, new = new, fail = fail, TEXTS = TEXTS }
