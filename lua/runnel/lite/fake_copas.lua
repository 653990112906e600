---Copas without a network, for tests: its threads are go blocks, its seconds virtual. With fake sockets
---(runnel.lite.fake_socket), explore runs a handler in every order. Before the code under test is loaded:
---
---    package.loaded.copas = require "runnel.lite.fake_copas"
---    package.loaded["copas.lock"] = require("runnel.lite.fake_copas").lock

local rn = require "runnel.lite"

local M, lock = {}, {}
lock.__index = lock

---@param seconds number
function M.sleep(seconds) rn.sleep(math.floor(math.max(0, seconds or 0) * 1000 + 0.5)) end
M.pause = M.sleep

---@param f fun(...)
function M.addthread(f, ...) return rn.go(f, ...) end

---Also copas.wrap of a socket that is wrapped.
function M.wrap(socket) return socket end
function M.receive(socket, ...) return socket:receive(...) end
function M.send(socket, ...) return socket:send(...) end
function M.settimeout(socket, seconds) return socket:settimeout(seconds) end

---Each thread may get it again while it holds it. copas.lock.new(seconds)
---@param seconds? number how long get waits; 10 by default
function lock.new(seconds)
  local self = setmetatable({ free = rn.chan(1), limit = seconds or 10, owner = false }, lock)
  self.free:offer(true)
  return self
end

---Returns the seconds that it has waited, or nil and "timeout".
---@param seconds? number
function lock:get(seconds)
  local thread, began, limit = coroutine.running(), rn.now(), (seconds or self.limit) * 1000
  if self.owner == thread then
    self.n = self.n + 1
    return 0
  end
  local got = rn.alts({ self.free, limit < math.huge and rn.timeout(limit) or nil }, { priority = true })
  if not got then return nil, "timeout", (rn.now() - began) / 1000 end
  self.owner, self.n = thread, 1
  return (rn.now() - began) / 1000
end

---Others get it when its thread has released it as often as it got it. Returns true, or nil and an error.
function lock:release()
  if self.owner ~= coroutine.running() then return nil, "cannot release a lock not owned" end
  self.n = self.n - 1
  if self.n == 0 then
    self.owner = false
    self.free:offer(true)
  end
  return true
end

M.lock = lock

return M
