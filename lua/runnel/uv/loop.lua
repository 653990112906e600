---What all of runnel.uv stands on: luv, its loop as the scheduler's driver, and the closing of handles.

local core = require "runnel.core"
local need = require "runnel.need"
local uv = need("luv", "Debian's lua-luv, LuaRocks' luv")
local driver = require "runnel.driver.luv"

---@class runnel.uv.loop
---@field uv any luv
---@field over boolean the Lua state is closing
local loop = { over = false }

-- Requiring this installs the driver, unless one is set that runs luv's loop: it has a field `luv` that is true.
local previous = core.driver(driver)
if previous then
  core.driver(previous)
  if not previous.luv then
    error("runnel.uv: a driver is set that does not run luv's loop; call rn.driver(nil) before, or let its wait(ms) "
      .. "run luv's loop as well and say so with a field luv = true", 0)
  end
end

---In a simulation, where no event of the loop comes, raises at the line that called the caller of this function.
---@param what string the function
function loop.check_time(what)
  if core.internal.is_simulation() then
    error(what .. ": real I/O needs real time, and this is a simulation (sim.run, runnel --sim): call it outside one, "
      .. "or use channels of your own in its place", 3)
  end
end

-- ---- closing handles ----

-- luv frees the memory of a handle that is being closed when the Lua state closes, although libuv will still use it. So
-- a handle is only ever closed within a turn of the loop, at whose end it is gone: `doomed` are those that wait for it.
local doomed, closing = {}, {} -- closing: those that a turn is at work on, or none
local settled = {} -- channels to close when they are
local due = false -- whether the sweeper runs
-- Not a timer, of which some run after the turn's end. Made now, since finalizers want it when the state closes.
local sweeper = uv.new_idle()

local function sweep()
  sweeper:stop()
  due = false
  doomed, closing = closing, doomed
  for i = 1, #closing do
    local handle = closing[i]
    closing[i] = nil
    if not handle:is_closing() then handle:close() end
  end
  local waiting = settled
  if #waiting == 0 then return end
  settled = {}
  for _, ch in ipairs(waiting) do ch:close() end
end

local function in_next_turn()
  if loop.over then return end
  if sweeper:is_closing() then sweeper = uv.new_idle() elseif due then return end
  due = true
  sweeper:start(sweep)
end

---Closes a handle in the loop's next turn. To be called once; nothing else may be done with the handle.
---@param handle userdata
function loop.close(handle)
  doomed[#doomed + 1] = handle
  in_next_turn()
end

---Parks until all handles for which loop.close has been called are closed.
function loop.settle()
  core.yield() -- to those who close a handle because a channel has been closed
  if #doomed == 0 then return end
  local ch = core.chan()
  settled[#settled + 1] = ch
  in_next_turn()
  ch:take()
end

-- Where luv closes a handle by itself, as when a process cannot be started, the loop has to have its turn before the
-- Lua state closes. Finalizers run last made, first run: so this one, made after the handle, runs before the handle's.
-- Callbacks must do nothing then, since their handles may be gone: `over`.
local Turn = { __gc = function(self)
  if not self.due then return end
  loop.over = true
  uv.run "nowait"
end }

---Calls a function after the loop's next turn has begun, at whose end all is gone that is being closed.
---@param f fun()
function loop.after_turn(f)
  local turn = setmetatable({ due = true }, Turn)
  local ch = core.chan()
  settled[#settled + 1] = ch
  in_next_turn()
  ch:take_async(function()
    turn.due = false
    f()
  end)
end

-- ---- signals ----

local sigpipe

---Makes writing to what nobody reads an error instead of the program's end. It lasts for the rest of the program, so
---that it is called only where something is going to be written to a socket or pipe.
function loop.ignore_sigpipe()
  if sigpipe and not sigpipe:is_closing() then return end
  sigpipe = uv.new_signal()
  sigpipe:unref()
  sigpipe:start("sigpipe", function() end)
end

-- ---- errors ----

-- What luv's callbacks tell of an error is its name alone.
local MESSAGES = {
  EADDRINUSE = "address already in use", ECANCELED = "operation canceled", ECONNABORTED = "connection aborted",
  ECONNREFUSED = "connection refused", ECONNRESET = "connection reset by peer", EHOSTUNREACH = "host is unreachable",
  EIO = "i/o error", EMFILE = "too many open files", ENETUNREACH = "network is unreachable",
  ENFILE = "file table overflow",
  ENOENT = "no such file or directory", ENOSPC = "no space left on device", ENOTCONN = "socket is not connected",
  EPIPE = "broken pipe", ETIMEDOUT = "connection timed out", EACCES = "permission denied",
  EAI_NONAME = "unknown node or service", EAI_AGAIN = "temporary failure", EAI_NODATA = "no address",
  EAI_FAIL = "permanent failure", EAI_FAMILY = "address family not supported", EAI_SERVICE = "service not available",
}

---A message for an error of luv's.
---@param err string its name, or its name and message
---@param what? string what failed: a path, an address, a command
---@return string
function loop.message(err, what)
  local text = MESSAGES[err] and err .. ": " .. MESSAGES[err] or err
  if not what or text:find(what, 1, true) then return text end
  return what .. ": " .. text
end

loop.uv = uv

return loop
