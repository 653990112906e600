---Simulated processes: functions of the world, each with go blocks and handles of its own; pipes, and signals.

local require = require
local connections = require "runnel.sim.sim_connection"
local core = require "runnel.core"
local current = require "runnel.internal.world"
local files = require "runnel.sim.sim_files"
local guard = require "runnel.internal.guard"
local handles = require "runnel.sim.handle"
local lua_files = require "runnel.sim.io"
local network = require "runnel.sim.network"
local signals = require "runnel.sim.signal"

local internal = core.internal
local fail = handles.fail

local processes = {}

local PIPE = 64 * 1024 -- bytes that a pipe of Linux has room for

-- ---- pipes ----

---luv's pipe: the descriptors of the two ends of one.
function processes.pipe()
  local world = current.world --[[@as runnel.sim.World]]
  local host = world:here()
  local a, b = connections.connect(world, host, host)
  a.is_pipe, b.is_pipe = true, true
  a.window, b.window = PIPE, PIPE
  local read, write = files.new_fd(), files.new_fd()
  host.pipes[read], host.pipes[write] = a, b
  return { read = read, write = write }
end

-- ---- a process ----

---A process: a host that shares the machine of the one that has started it.
---@class runnel.sim.Process: runnel.sim.Host
---@field pid integer
---@field parent runnel.sim.Host
---@field parent_born integer the start of the parent, which alone learns of the end
---@field on_exit fun(code: integer, signal: integer)

local Handle = handles.class "runnel.sim.sim_process"

function Handle:kill(signal) return processes.kill(self.pid, signal) end

local function free(self) self.world:free_number(self.number) end

-- The parent learns of the end. Until then the system keeps the process, so that signals to it are no error.
local function reap(self, status)
  self.parent.children[self.pid] = nil
  self.on_exit(status.code, status.signal)
end

-- Ends the process; does not return if the running go block belongs to it.
local function exit(self, status)
  if not self.alive then return end
  local world, code, signal = self.world, status.code, status.signal
  world:log(self, nil, "ends with %s", signal > 0 and "signal " .. signal or "status " .. code)
  self:close_all()
  local is_running = internal.host() == self.number
  internal.crash(self.number)
  if self.parent.born == self.parent_born then world:later(0, self.parent, reap, self, status) end
  if is_running then self:drop_running(free, self) end
  free(self)
end

-- os.exit in the process.
local function finish(self, status) exit(self, { code = status, signal = 0 }) end

---luv's kill, for the processes that the host has started, and their groups.
---@param pid integer
---@param signal? integer|string
function processes.kill(pid, signal)
  local host = current.world:here() --[[@as runnel.sim.Host]]
  local number = signals.number_of(signal or "term")
  if not number then return fail "EINVAL" end
  local child = pid == host.pid and host or host.children[math.abs(pid)]
  if not child then return fail "ESRCH" end
  if number > 0 and child.alive and not signals.tell(child, number) then
    child.world:later(0, nil, exit, child, { code = 0, signal = number })
  end
  return 0
end

-- ---- input and output ----

-- A handle of the process for the end of a pipe.
local function adopt(stream)
  local handle = network.new_pipe()
  handle:take_over(stream)
  return handle
end

-- Writes the values of a channel; its result closes when the last one is written.
local function write_all(handle, ch)
  while true do
    local value = ch:take()
    if value == nil then break end
    local answer = core.chan(1)
    local ok, _, err = handle:write(tostring(value), function(e) answer:offer(e or true) end)
    if ok then err = answer:take() end
    if err ~= true then
      ch:close(err)
      break
    end
  end
  if not handle.closing then handle:close() end
end

-- The channel of an output, and the go block that writes its values to a pipe. `pipes`: the channels of pipes that were
-- made already, since two outputs may have the same one.
local function output(pipes, stream)
  if not stream then return core.chan(core.dropping_buffer(1)), nil end
  if pipes[stream] then return pipes[stream], nil end
  local ch = core.chan()
  pipes[stream] = ch
  return ch, guard.go(guard.close, ch, write_all, adopt(stream), ch)
end

-- Runs in the process: its program, and what follows.
local function run(self, f, args, stdio)
  local stream = require "runnel.uv.uv_stream"
  local pipes, stdin = {}, core.chan()
  if stdio[1] then stdin = stream.new(adopt(stdio[1]), "stdin", true):read() else stdin:close() end
  local stdout, out_writer = output(pipes, stdio[2])
  local stderr, err_writer = output(pipes, stdio[3])
  local main = core.go(f, args, stdin, stdout, stderr)
  local result, err = main:take()
  lua_files.flush(self)
  if err ~= nil then stderr:put(internal.error_text(err) .. "\n") end
  stdout:close()
  stderr:close()
  if out_writer then internal.join(out_writer) end
  if err_writer then internal.join(err_writer) end
  local code = err ~= nil and 1 or math.type(result) == "integer" and result & 255 or result == false and 1 or 0
  self.world:later(0, nil, exit, self, { code = code, signal = 0 })
end

-- The ends of pipes that the process gets, by descriptors of its parent.
local function take_pipes(parent, stdio)
  local streams, by_fd = {}, {}
  for i = 1, 3 do
    local fd = stdio[i]
    if fd then
      by_fd[fd] = by_fd[fd] or parent.pipes[fd]
      streams[i], parent.pipes[fd] = by_fd[fd], nil
      if not streams[i] then error("a file descriptor for a process is not simulated: use channels", 0) end
    end
  end
  return streams
end

---luv's spawn. The command is one of World:program.
---@param file string
---@param options table
---@param on_exit fun(code: integer, signal: integer)
function processes.spawn(file, options, on_exit)
  local world = current.world --[[@as runnel.sim.World]]
  local parent = world:here() --[[@as runnel.sim.Host]]
  local f = world.programs[file]
  if not f then return fail "ENOENT" end
  local streams = take_pipes(parent, options.stdio or {})
  local number = world:new_number(parent.name .. "/" .. file)
  local self = setmetatable({
    number = number, name = parent.name .. "/" .. file, pid = world:new_pid(), parent = parent, on_exit = on_exit,
    parent_born = parent.born, born = 1, alive = true, handles = {}, open_files = {}, pipes = {}, signals = {},
    children = {}, finish = finish,
  }, { __index = parent })
  world.groups[number] = self
  parent.children[self.pid] = self
  world:log(parent, nil, "starts %s", table.concat({ file, table.unpack(options.args or {}) }, " "))
  local handle = handles.new(Handle)
  handle.pid = self.pid
  local args = table.move(options.args or {}, 1, #(options.args or {}), 1, {})
  local block = guard.go(guard.nothing, nil, run, self, f, args, streams)
  internal.host(number, block)
  return handle, self.pid
end

return processes
