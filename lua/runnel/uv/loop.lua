---The base of all modules of runnel.uv: the real luv or that of a simulated world, and a safe way to close handles.

local core = require "runnel.core"
local internal = core.internal
local current = require "runnel.internal.world"
local guard = require "runnel.internal.guard"
local real = require "runnel.uv.real"
local raise = internal.raise
local uv = real.luv

---@class runnel.uv.loop
---@field uv any luv
---@field over boolean the Lua state is closing: callbacks must do nothing
local loop = { over = false }

---Raises an error if the loop cannot deliver events: in a simulation without a world, outside the hosts of a world, and
---under another driver.
---@param what string the name of the caller
function loop.check(what)
  if current.world then
    if internal.host() > 0 then return end
    raise(what .. ": this go block belongs to no host of the simulated world: start it in the function of "
      .. "world:host(name, f)")
  end
  real.check(what)
  if internal.is_simulation() then
    raise(what .. ": real I/O needs real time, and this is a simulation (sim.run, runnel --sim): make a simulated "
      .. "world (sim.world) and call it on a host of that, call it outside the simulation, or use channels of your own "
      .. "in its place")
  end
end

-- Calls a function of the world's luv if a world runs, else the real one's.
local function dispatch(luvs, name)
  if type(uv[name]) ~= "function" then return uv[name] end
  local function call(...)
    local simulated = current.luv
    if not simulated then return uv[name](...) end
    local f = simulated[name]
    if not f then raise(("luv's %s is not simulated"):format(name)) end
    return f(...)
  end
  rawset(luvs, name, call)
  return call
end

---luv, or that of the simulated world which runs. Its functions may be kept: they look for the world when they are
---called.
loop.uv = setmetatable({}, { __index = dispatch })

---The name of the operating system.
loop.sysname = uv.os_uname().sysname ---@type string

-- Whether a handle is of a simulated world.
local function is_simulated(handle) return type(handle) == "table" end
loop.is_simulated = is_simulated

---The world in which what is made now exists; nil: the real one.
---@return runnel.sim.World?
function loop.world() return current.world end

---Closes a descriptor; also from a finalizer, which may run in another world, or after the descriptor's own has ended.
---@param fd integer
---@param world? runnel.sim.World where it exists
function loop.close_descriptor(fd, world)
  if world == current.world then loop.uv.fs_close(fd) elseif not world then uv.fs_close(fd) end
end

---What fs_scandir has found: names, and types, "unknown" where the file system does not say them. It reads all of it,
---since luv frees its list only at the end.
---@param found any luv's
---@return string[] names
---@return string[] kinds
function loop.entries(found)
  local names, kinds, next_entry = {}, {}, loop.uv.fs_scandir_next
  local name, kind = next_entry(found)
  while name do
    names[#names + 1], kinds[#kinds + 1] = name, kind or "unknown"
    name, kind = next_entry(found)
  end
  return names, kinds
end

---Lets an object that uses a handle live as long as the handle is open, if the handle is of a simulated world: there no
---finalizer may decide when it is closed.
---@param handle any
---@param object any
function loop.keep(handle, object)
  if is_simulated(handle) then handle.holder = object end
end

-- The longest name of a channel.
local LONGEST_NAME = 200

---Makes a channel with a name that messages and the monitor show.
---@param where? string|integer a path, an address or a descriptor
---@param n? integer the size of its buffer
---@return runnel.Channel<any>
function loop.chan(where, n)
  local ch = core.chan(n)
  if not where then return ch end
  local name = type(where) == "number" and "descriptor " .. where or where --[[@as string]]
  return ch:name(name:sub(1, LONGEST_NAME))
end

-- ---- what handles are for ----

-- The program's call that made a handle, for messages about open handles.
---@class runnel.uv.Made
---@field what string as in "uv.watch", or "a connection to uv.listen"
---@field name string the path, address, or command
---@field where? string the line of the call
---@field accepted? runnel.uv.Made the same for connections that a listener accepts

local made = setmetatable({}, { __mode = "k" }) ---@type table<userdata, runnel.uv.Made|false>

---Says what a handle is for. Called by the go block, or in the call, that represents the program's call.
---@param handle userdata
---@param what string the function that the program has called
---@param name string the path, address or command
---@return any handle
function loop.made(handle, what, name)
  local _, origin = internal.origin(what)
  local by, where = (origin or what):match "^(.-) at (.*)$"
  made[handle] = { what = by or what, name = name, where = where }
  return handle
end

---Gives a handle the purpose of another one.
---@param handle userdata
---@param other userdata
function loop.made_with(handle, other) made[handle] = made[other] end

---Says that a handle is a part of what another handle is for, and is not to be shown.
---@param handle userdata
function loop.made_inside(handle) made[handle] = false end

---Says that a handle is a connection that a listener has accepted.
---@param handle userdata
---@param listener userdata
function loop.made_by(handle, listener)
  local by = made[listener]
  if not by then return end
  by.accepted = by.accepted or { what = "a connection to " .. by.what, name = by.name, where = by.where }
  made[handle] = by.accepted
end

local sweeper

---The purpose of a handle, as in `uv.watch "in" (made at job.lua:3)`; nil if runnel.uv has not made it; false if the
---handle is internal.
---@param handle userdata
---@return string|false|nil
function loop.purpose(handle)
  local by = handle ~= sweeper and made[handle]
  if not by then return by end
  return ("%s %q%s"):format(by.what, by.name, by.where and (" (made at %s)"):format(by.where) or "")
end

-- ---- closing handles ----

-- When the Lua state closes, luv frees the memory of handles that are being closed, although libuv will still use it.
-- So a handle is closed only within a turn of the loop: at the end of that turn libuv is done with it.
local to_close, closing = {}, {} -- the handles to close in the next turn; those that the current turn closes
local settled = {} -- channels to close when those handles are closed; and `calls`: what is called then
local due = false -- whether the sweeper is active
-- An idle handle, not a timer: some timers run after the end of a turn. Made now, because finalizers use it when the
-- Lua state closes.
sweeper = uv.new_idle()

local function sweep()
  sweeper:stop()
  due = false
  to_close, closing = closing, to_close
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

---Closes a handle in the loop's next turn. Call it once for a handle, and do not use the handle afterwards.
---@param handle userdata
function loop.close(handle)
  if is_simulated(handle) then
    if not handle:is_closing() then handle:close() end
    return
  end
  to_close[#to_close + 1] = handle
  in_next_turn()
end

---Closes the handle of an object, its field `handle`, if it has one.
---@param self { handle?: userdata }
function loop.release(self)
  local handle = self.handle
  if not handle then return end
  self.handle = nil
  loop.close(handle)
end

---Parks until all handles passed to loop.close are closed.
function loop.settle()
  core.yield() -- lets callbacks run that close a handle because a channel has closed
  if current.world then return end
  if #to_close == 0 then return end
  local ch = core.chan()
  settled[#settled + 1] = ch
  in_next_turn()
  ch:take()
end

-- When luv closes a handle by itself, because a process cannot be started, for example, the loop must have a turn
-- before the Lua state closes. Finalizers run in the reverse order of creation, so that this one, made after the
-- handle, runs before the handle's. Callbacks must do nothing in that turn, because their handles may be freed already;
-- hence `over`.
local Turn = { __gc = function(self)
  if not self.due then return end
  loop.over = true
  uv.run "nowait"
end }

local function in_turn(ch, turn, calls)
  ch:take()
  turn.due = false
  local n = 0
  local function call()
    while n < #calls do
      n = n + 1
      calls[n]()
    end
  end
  repeat until guard.call("a callback of runnel.uv", call)
end

---Calls a function in the loop's next turn, in a go block that programs do not see, so that nobody cancels it. At the
---end of that turn all handles that are being closed now are freed. The function must not wait, since others come after
---it.
---@param f fun()
function loop.after_turn(f)
  if current.world then return current.world:later(0, current.world:here(), f) end
  local calls = settled.calls
  if calls then
    calls[#calls + 1] = f
    return
  end
  calls = { f }
  local turn = setmetatable({ due = true }, Turn)
  local ch = core.chan()
  internal.trace.hide(guard.go(guard.nothing, nil, in_turn, ch, turn, calls))
  settled[#settled + 1], settled.calls = ch, calls
  in_next_turn()
end

-- ---- signals ----

local sigpipe

---Makes a write to a pipe or socket without a reader fail, instead of SIGPIPE killing the program. This lasts until the
---program ends, so it is called only when the program writes to one.
function loop.ignore_sigpipe()
  if current.world or sigpipe and not sigpipe:is_closing() then return end
  sigpipe = uv.new_signal()
  sigpipe:unref()
  sigpipe:start("sigpipe", function() end)
end

-- ---- errors ----

-- luv passes only the name of an error to callbacks.
local MESSAGES = {
  EADDRINUSE = "address already in use", ECANCELED = "operation canceled", ECONNABORTED = "connection aborted",
  ECONNREFUSED = "connection refused", ECONNRESET = "connection reset by peer", EHOSTUNREACH = "host is unreachable",
  EIO = "i/o error", ELOOP = "too many symbolic links", EMFILE = "too many open files", EMSGSIZE = "message too long",
  ENETDOWN = "network is down", ENETUNREACH = "network is unreachable", ENFILE = "file table overflow",
  ENOENT = "no such file or directory", ENOSPC = "no space left on device", ENOTCONN = "socket is not connected",
  ENOTDIR = "not a directory", EPIPE = "broken pipe", ETIMEDOUT = "connection timed out", EACCES = "permission denied",
  EAI_NONAME = "unknown node or service", EAI_AGAIN = "temporary failure", EAI_NODATA = "no address",
  EAI_FAIL = "permanent failure", EAI_FAMILY = "address family not supported", EAI_SERVICE = "service not available",
}

---Makes a message for an error of luv.
---@param err string its name, or its name and message
---@param what? string what failed: a path, an address, a command
---@return string
function loop.message(err, what)
  local text = MESSAGES[err] and err .. ": " .. MESSAGES[err] or err
  if not what or text:find(what, 1, true) then return text end
  return what .. ": " .. text
end

return loop
