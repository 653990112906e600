---Processes: their input and output as channels, their end as a promise.

local core = require "runnel.core"
local command = require "runnel.uv.command"
local loop = require "runnel.uv.loop"
local stream = require "runnel.uv.stream"

local uv, math_type = loop.uv, math.type
local STANDARD = { "stdin", "stdout", "stderr" }

-- ms from SIGTERM to SIGKILL
local GRACE = 2000
-- ms between two checks whether a process group has ended after its signal
local LOOK = 10
-- longer than any program runs
local FOREVER_MS = 1 << 40

-- Processes that run, by their promises. The loop keeps the promise of the exit alive, but not the rest: a process that
-- nobody has any more, and that waits for somebody to take its output, is to find it closed.
local running = setmetatable({}, { __mode = "v" })

---How a process has ended.
---@class runnel.uv.Status
---@field code integer the exit status, 0 to 255; if a signal killed the process, 128 + its number, as in a shell
---@field signal? integer the number of the signal that killed the process; nil if it ended by itself

-- What a process has for uv.run, which is in another file. (The reference leaves out a class without a description.)
---@class runnel.uv.Process
---@field streams table<string, runnel.uv.Stream> by "stdin", "stdout" and "stderr"
---@field leash? table kills the process when the program ends

---A process, as spawn returns it. Of an output that nobody has asked for yet only the last 64 KB are kept.
---@class runnel.uv.Process
---@field pid? integer nil when it could not be started; of a detached one also the number of its process group
---@field exit runnel.Channel<runnel.uv.Status> a promise, or closed with the error that kept it from starting
---@field stdin? runnel.Channel<any> what it reads; close it to end that
---@field stdout? runnel.Channel<string> what it writes, chunks or lines; closes when it has ended
---@field stderr? runnel.Channel<string> likewise
---@field package handle any luv's; nil when it has ended
---@field package grace number ms
---@field package closing boolean
---@field package guard? table
---@field package timer any luv's
---@field package detached? boolean
---@field package deadline? number ms
local Process = {}
Process.__name = "runnel.uv.process"

-- ---- plumbing ----

-- Makes a pipe for a descriptor of the process. Returns its end, and ours as a stream; or nothing and an error.
---@return integer? fd
---@return any stream or the error
local function pipe_for(name, what)
  local fds, err = uv.pipe()
  if not fds then return nil, err end
  local ours, theirs = fds.read, fds.write
  if name == "stdin" then ours, theirs = theirs, ours end
  local handle = uv.new_pipe(false)
  local ok
  ok, err = handle:open(ours)
  if not ok then
    loop.close(handle)
    uv.fs_close(ours)
    uv.fs_close(theirs)
    return nil, err
  end
  return theirs, stream.new(handle, what, true)
end

local function wants_channel(option)
  return option ~= false and option ~= "stdout" and math_type(option) ~= "integer"
end

-- The descriptors of the process, those of its streams being ends of pipes, and an error if there is one.
local function plumb(self, options, what)
  local stdio = { nil, nil, nil }
  for i, name in ipairs(STANDARD) do
    local option = options[name]
    if wants_channel(option) then
      local fd, end_ = pipe_for(name, what)
      if not fd then return stdio, loop.message(end_, what) end
      stdio[i], self.streams[name] = fd, end_
    elseif option == "stdout" then
      stdio[i] = stdio[2]
    elseif option then
      stdio[i] = option
    end
  end
  return stdio
end

-- Somebody asks for an output.
local function ask_for(self, name)
  local end_ = self.streams[name]
  if not end_ then return nil end
  local ch = end_.by_lines and end_:lines() or end_:read()
  rawset(self, name, ch)
  return ch
end

function Process:__index(key)
  if key == "stdout" or key == "stderr" then return ask_for(self, key) end
  return Process[key]
end

-- ---- the end ----

-- Sends a signal to the process, or to all of its group where it has one of its own. That may be a while after the
-- process itself has ended: while anybody is left in the group, the system gives its number to nobody else.
local function signal_to(self, signal) return uv.kill(self.detached and -self.pid or self.pid, signal) end

---Sends a signal to the process; if it is detached, to its whole process group.
---@param signal? string|integer a name, as in "int" or "sigint", or a number; default "term"
---@return boolean ok false when it has ended already
---@return string? err
function Process:kill(signal)
  signal = signal or "term"
  if type(signal) == "string" then
    signal = signal:lower()
    if signal:sub(1, 3) ~= "sig" then signal = "sig" .. signal end
    if not uv.constants[signal:upper()] then error(("kill: there is no signal %q"):format(signal), 2) end
  elseif math.type(signal) ~= "integer" then
    error("kill: the name or number of a signal expected, got a " .. type(signal), 2)
  end
  if not self.handle then return false, "it has ended" end
  local ok, err = signal_to(self, signal)
  if not ok then return false, err end
  return true
end

-- The program ends within the grace. With the process itself, each would have a finalizer, and few are closed.
local Guard = {}

function Guard:__gc()
  if self.process.timer then signal_to(self.process, "sigkill") end
end

-- Waits for the end, but not for ever. A timer of luv's, since it can be taken back: rn.run would wait for a timeout.
local function see_off(self)
  local grace = math.ceil(math.min(self.grace, FOREVER_MS))
  self.guard = setmetatable({ process = self }, Guard)
  self.deadline = core.now() + grace
  self.timer = uv.new_timer()
  self.timer:start(grace, 0, function()
    if not loop.over then signal_to(self, "sigkill") end
  end)
end

local function is_seen_off(self)
  self.timer:stop() -- it is closed only after the next timers have run
  loop.close(self.timer)
  self.timer = nil
end

-- A process that is being stopped has ended. Other processes of its group may still run; they have the rest of the
-- grace.
local function see_off_group(self)
  if not self.detached then return is_seen_off(self) end
  self.timer:stop()
  self.timer:start(0, LOOK, function()
    if loop.over then return end
    local late = core.now() >= self.deadline
    if not signal_to(self, late and "sigkill" or 0) or late then is_seen_off(self) end
  end)
end

---Stops the process: closes its channels, sends SIGTERM, and SIGKILL if it has not ended within its grace. If it is
---detached, the signals go to its whole process group. Does not wait; take from `exit` for that. If the process has
---already ended, no signal is sent, not even to processes that it left behind.
function Process:close()
  if self.closing then return end
  self.closing = true
  for _, end_ in pairs(self.streams) do end_:close() end
  if not self.handle then return end
  self:kill "term"
  see_off(self)
end

Process.__close = Process.close

-- ---- the beginning ----

local function start(self, file, for_luv)
  local exit = self.exit
  local handle, pid, err
  handle, pid, err = uv.spawn(file, for_luv, function(code, signal)
    loop.close(handle)
    local status = { code = signal == 0 and code or 128 + signal, signal = signal ~= 0 and signal or nil }
    local process = running[exit]
    if process then
      running[exit] = nil
      process.handle = nil
      if process.timer then see_off_group(process) end
      if process.streams.stdin then process.streams.stdin:close "the process has ended" end
    end
    exit:offer(status)
  end)
  if not handle then return loop.message(pid, file), err end
  self.handle, self.pid = handle, pid
  running[exit] = self
end

-- Gives it the channels that it would have had, and closes them with the error.
local function fail(self, options, err)
  local channels = { self.exit }
  for _, name in ipairs(STANDARD) do
    if wants_channel(options[name]) then
      self[name] = core.is_chan(options[name]) and options[name] or core.chan()
      channels[#channels + 1] = self[name]
    end
  end
  for _, end_ in pairs(self.streams) do end_:close() end
  loop.after_turn(function()
    for _, ch in ipairs(channels) do stream.refuse(ch, err) end
  end)
end

---Starts a process.
---@param options table the command and its arguments, and by name:
---`stdin`: true for a new channel (the default), a channel whose values are written to it, false for none, or a file
---descriptor. `stdout`, `stderr`: `"chunks"` (the default) or `"lines"` for a channel, false for none, or a file
---descriptor; `stderr = "stdout"`: where stdout goes. `cwd`: its directory. `env`: changes to the environment, false to
---leave a variable out. `grace`: ms between SIGTERM and SIGKILL when it is closed, default 2000. `detached`: true for a
---session and process group of its own. Then `kill` and `close` signal the whole group, and Ctrl-C in a terminal, which
---goes to the program's own group, does not reach the process. Otherwise they signal the process alone.
---@return runnel.uv.Process
---Where it cannot be started, `exit` and the other channels are closed with the error.
local function spawn(options)
  local valid, for_luv = pcall(command.parse, options)
  if not valid then error("spawn: " .. tostring(for_luv), 2) end
  loop.check_time "spawn"
  local file = options[1]
  local self = setmetatable({
    exit = core.promise_chan(), streams = {}, grace = options.grace or GRACE, detached = options.detached,
    closing = false, handle = nil, pid = nil, timer = nil, stdout = nil, -- room for what is set later
  }, Process)
  local stdio, err = plumb(self, options, file)
  for_luv.stdio = stdio
  if not err then err = start(self, file, for_luv) end
  for i = 1, 3 do
    if self.streams[STANDARD[i]] then uv.fs_close(stdio[i]) end
  end
  if err then
    fail(self, options, err)
    return self
  end
  if self.streams.stdin then
    self.stdin = self.streams.stdin:writer(core.is_chan(options.stdin) and options.stdin or nil)
  end
  for i = 2, 3 do
    local name = STANDARD[i]
    local end_ = self.streams[name]
    if end_ then
      if options[name] == "lines" then end_.by_lines = true end
      end_:hold(name)
    end
  end
  return self
end

---@class runnel.uv.process
local process = { spawn = spawn }

return process
