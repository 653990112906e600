---A host of a simulated world: a name, an address, a disk, sockets, and the go blocks of its program.

local check = require "runnel.internal.check"
local core = require "runnel.core"
local current = require "runnel.internal.world"
local disks = require "runnel.sim.disk"
local lua_files = require "runnel.sim.io"
local programs = require "runnel.sim.program"
local sign = require "runnel.internal.sign"
local signals = require "runnel.sim.signal"

local internal = core.internal
local raise = internal.raise

---@class runnel.sim.Host
---@field name string
---@field address string as "10.0.0.1"
---@field number integer of its go blocks (core.internal.host)
---@field world runnel.sim.World
---@field f fun()|string its program, or the path of its file
---@field restarts? number after how many ms it starts again, if the fault crash ends it; nil: that fault spares it
---@field skew number by how many ms its clock is ahead
---@field born integer how often it has started: what belongs to an earlier start has no effect any more
---@field alive boolean
---@field main runnel.Channel<any> the result of its program
---@field handles table its open handles, in the order of a list with gaps filled by the last one
---@field listeners table<integer, runnel.sim.Handle> by port
---@field bells table<string, runnel.Channel<boolean>[]> of the machine: of those who wait for changes of a database, by
---its path
---@field datagrams table<integer, runnel.sim.Udp[]> UDP sockets by port
---@field sockets table<string, runnel.sim.Handle> Unix sockets by path
---@field next_port integer
---@field machine runnel.sim.Host the host itself; of a process, the host on which it runs
---@field pipes table<integer, runnel.sim.End> by descriptor, those that no handle has taken over
---@field signals runnel.sim.Signal[] what waits for signals
---@field term? runnel.internal.Term what SIGTERM ends in good order
---@field children table<integer, runnel.sim.Process> the processes that it has started, by their pids
---@field open_files table<integer, runnel.sim.OpenFile>
---@field old_address? string the address that it had before it moved
---@field disk runnel.sim.Disk
---@field subscriptions integer channels with messages of NATS that are open
---@field ended_at? number when it crashed or was ended last
---@field lost_power? boolean that was a crash of the machine; else its processes go on
---@field max_connections? integer of http.max_connections
---@field requests table<string, runnel.sim.HttpSlots> those to servers, if there is that limit
---@field locks table<string, table<string, runnel.sim.Locks>> those of stores, by file and text
local Host = {}
Host.__index = Host
Host.__sign = "host"
Host.__name = "runnel.sim.host"

local FIRST_PORT = 49152

-- A program without go blocks has exited, as a real one: what was in the buffers of its files has been written.
local function settle(self)
  if self.alive and not internal.has_go(self.number) then lua_files.has_exited(self) end
end

---Starts the program, in a go block of this host. The ports of processes that an earlier start has left behind stay
---theirs.
local function start(self)
  local f = type(self.f) == "string" and programs.load(self.f) or self.f --[[@as fun()]]
  self.born, self.alive = self.born + 1, true
  self.handles, self.open_files, self.pipes, self.signals, self.children = {}, {}, {}, {}, {}
  self.subscriptions, self.term, self.max_connections, self.requests = 0, nil, nil, {}
  local before, context = internal.host(self.number), internal.trace.context()
  internal.trace.set_context(nil) -- a program inherits nothing from the go block that starts it
  local main = core.go(f)
  internal.trace.set_context(context)
  internal.host(before)
  self.main = main
  local born = self.born
  main:take_async(function(_, err)
    if self.born ~= born then return end
    settle(self)
    if err ~= nil then self.world:failed(self, err) end
  end)
end

---@param world runnel.sim.World
---@param name string
---@param number integer
---@param f fun()|string
---@param restarts? number
---@param skew number
---@return runnel.sim.Host
local function new(world, name, number, f, restarts, skew)
  local self = setmetatable({
    world = world, name = name, number = number, f = f, restarts = restarts, skew = skew, born = 0, alive = false,
    address = world:new_address(),
  }, Host)
  self.machine, self.disk, self.locks, self.bells, self.next_port = self, disks.new(self), {}, {}, FIRST_PORT
  self.listeners, self.sockets, self.datagrams = {}, {}, {}
  start(self)
  return self
end

---Keeps a handle until it is closed, so that no finalizer decides when that happens.
---@param handle table
function Host:keep(handle)
  local list = self.handles
  list[#list + 1] = handle
  handle.slot = #list
end

---Forgets a handle that is closed.
---@param handle table
function Host:forget(handle)
  local list, slot = self.handles, handle.slot
  if list[slot] ~= handle then return end
  local last = list[#list]
  list[slot], last.slot = last, slot
  list[#list] = nil
end

---A port of the machine that nothing uses.
---@return integer
function Host:free_port()
  local machine = self.machine
  repeat
    local port = machine.next_port
    machine.next_port = port + 1
    if not machine.listeners[port] and not machine.datagrams[port] then return port end
  until false
end

---Whether the machine is down, with all of its processes.
---@return boolean
function Host:is_down() return not self.alive and self.lost_power == true end

---Whether it serves others: it listens for connections or datagrams, or subscribes to messages.
---@return boolean
function Host:listens()
  return next(self.listeners) ~= nil or next(self.sockets) ~= nil or next(self.datagrams) ~= nil
    or self.subscriptions > 0
end

-- Drops the go blocks of a program; also the running one, which never goes on.
local function drop(self)
  local is_running = internal.host() == self.number
  internal.crash(self.number)
  if is_running then self:drop_running() end
end

---The running go block, which belongs to this program, never goes on.
---@param after? fun(a: any) is called when it is dropped
---@param a? any
function Host:drop_running(after, a)
  self.world:later(0, nil, function()
    internal.crash(self.number)
    if after then after(a) end
  end)
  self.world:end_running()
end

-- The processes on the machine that run, in the order in which they were started.
local function processes_of(self)
  local list = {}
  for _, process in pairs(self.world.groups) do
    if process.machine == self and process ~= self and process.alive then list[#list + 1] = process end
  end
  table.sort(list, function(a, b) return a.pid < b.pid end)
  return list
end

---Ends the program as SIGKILL does: its go blocks do not go on, and the system closes what it has open. Files stay as
---they are, and the processes that it has started go on.
function Host:kill()
  sign.own(self, "host", "kill")
  if not self.alive then return end
  if internal.host() ~= self.number then settle(self) end
  self:close_all()
  drop(self)
end

---The system closes what the program has open, which has ended.
function Host:close_all()
  self.lost_power, self.alive = false, false
  for _, handle in ipairs(table.move(self.handles, 1, #self.handles, 1, {})) do
    if not handle.closing then handle:close() end
  end
  self.born, self.ended_at = self.born + 1, core.now()
end

---os.exit and rn.exit on this host: ends its program. Never returns.
---@param code? integer|boolean
function Host:exit(code)
  local status = code == false and 1 or type(code) == "number" and math.tointeger(code) or 0
  if internal.host() == self.number then lua_files.flush(self) else lua_files.has_exited(self) end
  self:finish(status & 255)
  self.world:end_running()
end

---Its program ends with a status.
---@param status integer
function Host:finish(status)
  if not self.alive then return end
  self.world:log(self, nil, "exits with status %d", status)
  self:kill()
end

---Sends the program a signal: `uv.signal` gets it, or it ends the program as Host:kill does.
---@param name string|integer as "term"
function Host:signal(name)
  sign.own(self, "host", "signal")
  local number = signals.number_of(name)
  if not number then raise("signal: the name of a signal expected, got " .. check.describe(name)) end
  if not signals.tell(self, number) then self:kill() end
end

-- A program has ended without any chance to close something.
local function cut(self)
  self.alive, self.born, self.ended_at = false, self.born + 1, core.now()
  local handles = self.handles
  self.handles = {}
  for i = 1, #handles do handles[i]:crashed() end
end

---Ends all go blocks of the host and of its processes, which get no chance to close anything. What was not synced is
---lost, and its connections are reset. A go block of the host that calls this never returns from it.
function Host:crash()
  sign.own(self, "host", "crash")
  if self:is_down() then return end
  self.lost_power = true
  local told = self.world:log(self, nil, "crashes")
  if told then told.kind = "crash" end
  local children = processes_of(self)
  cut(self)
  self.listeners, self.sockets, self.datagrams, self.bells, self.next_port = {}, {}, {}, {}, FIRST_PORT
  for _, child in ipairs(children) do cut(child) end
  self.disk:crash()
  local running = self.world:here()
  for _, child in ipairs(children) do
    internal.crash(child.number)
    if running == child then self.world:later(0, nil, internal.crash, child.number) end
  end
  drop(self)
  if running and running.machine == self then self.world:end_running() end
end

---Makes the file of a Unix socket. Returns nil, or the name of an error.
---@param path string
---@return string? err
function Host:make_socket(path)
  local full = disks.Disk.absolute(path)
  if self.disk.names[full] then return "EADDRINUSE" end
  local err = self.disk:check_folder(full)
  if err then return err end
  self.disk:make(full, "socket", 0x1ED)
end

---Removes it.
---@param path string
function Host:remove_socket(path) self.disk:remove(disks.Disk.absolute(path)) end

---The error of connecting to a Unix socket, or nil if there is one.
---@param path string
---@return string? err
function Host:find_socket(path)
  local inode, err = self.disk:find(disks.Disk.absolute(path))
  return err or inode.kind ~= "socket" and "ECONNREFUSED" or nil
end

---Sets the contents of a file of the host's disk, which is synced; for tests.
---@param path string
---@param data string
function Host:put(path, data)
  sign.own(self, "host", "put")
  check.path(path, "a path", "put")
  check.string(data, "the contents", "put")
  self.disk:put(path, data)
end

---The contents of a file of the host's disk, also of what is not synced; for tests.
---@param path string
---@return string? data nil if there is no such file
function Host:get(path)
  sign.own(self, "host", "get")
  check.path(path, "a path", "get")
  if current.world == self.world and internal.host() ~= self.number then settle(self) end
  return self.disk:get(path)
end

---Starts its program again; ends it first if it runs.
function Host:restart()
  sign.own(self, "host", "restart")
  if self.alive then self:crash() end
  local told = self.world:log(self, nil, "starts again")
  if told then told.kind = "start" end
  start(self)
end

---Moves its clock, as an administrator or NTP does: os.time and os.date of its programs jump, and rn.now goes on.
---@param ms number forwards, or back if it is negative
function Host:move_clock(ms)
  sign.own(self, "host", "move_clock")
  check.ms(ms, -(self.world:time() + self.skew) // 1 | 0, "move_clock: ms") -- not before 1970
  self.skew = self.skew + ms
  for _, database in ipairs(self.world.databases) do -- schedules look at the clock now and then
    if database.host.machine == self.machine then database:clock_moved() end
  end
  self.world:log(self, nil, "its clock moves by %g ms", ms)
end

---Gives the host another address. Names are looked up as the new one from now on; connections stay.
function Host:move()
  sign.own(self, "host", "move")
  self.old_address = self.address
  self.world:moved(self, self.world:new_address())
end

return { new = new }
