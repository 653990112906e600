---Processes: their input and output as channels, their exit as a promise channel.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local descriptor = require "runnel.uv.descriptor"
local loop = require "runnel.uv.loop"
local sign = require "runnel.internal.sign"
local starting = require "runnel.uv.spawn"
local stream = require "runnel.uv.uv_stream"

local internal = core.internal
local raise = internal.raise
local uv, find = loop.uv, string.find
local describe, is_descriptor = check.describe, descriptor.is_descriptor

local OPTIONS = starting.OPTIONS
local STANDARD = { "stdin", "stdout", "stderr" }

-- The default time from SIGTERM to SIGKILL.
local GRACE_MS = 2000
-- The time between two checks whether a process group has ended.
local CHECK_MS = 10
local FOREVER_MS = 1 << 40

-- The running processes, by their exit channels. The loop keeps an exit channel alive, but not its process object: if
-- that is unreachable, its streams are collected and closed, and a process that is blocked on its output ends.
local running = setmetatable({}, { __mode = "v" })

---The exit of a process.
---@class runnel.uv.Status
---@field code integer the exit status, 0 to 255; if a signal killed the process, 128 + its number, as in a shell
---@field signal? integer the number of the signal that killed the process; nil if it ended by itself

-- Fields that uv.run uses, which is in another file. (The reference leaves out a class without a description.)
---@class runnel.uv.Process
---@field streams table<string, runnel.uv.Stream> by "stdin", "stdout" and "stderr"
---@field ending? runnel.Ending what the process gets when the program ends: nothing, if it is nil
---@field world? runnel.sim.World the simulated world in which it runs; nil: it is a real one

---A process, as spawn returns it. Until the first use of `stdout` or `stderr`, only its last 64 KB are kept.
---@class runnel.uv.Process
---@field pid? integer nil if it could not be started; if it is detached, also the number of its process group
---@field exit runnel.Channel<runnel.uv.Status> a promise channel; or closes with the error if it could not be started
---@field stdin? runnel.Channel<any> its input; close it to end the input
---@field stdout? runnel.Channel<string> its output, as chunks or lines; closes at the end of the output
---@field stderr? runnel.Channel<string> likewise
---@field package handle any luv's; nil when the process has ended
---@field package grace number ms from SIGTERM to SIGKILL
---@field package closing boolean `close` has been called
---@field package timer any luv's, while the process is being stopped
---@field package detached? boolean
---@field package deadline? number when the grace ends, ms
local Process = { __sign = "p" }
Process.__name = "runnel.uv.process"

-- ---- options ----

local function complain(text, ...) error(text:format(...), 0) end

-- The command's arguments.
local function words_of(options)
  if type(options) ~= "table" then
    complain('a table with the command and its arguments expected, as in { "ls", "-l" }, got %s',
      describe(options))
  end
  if type(options[1]) ~= "string" or options[1] == "" then
    complain("the name of a command expected as the first value, got %s", describe(options[1]))
  end
  local args = {}
  for i = 1, #options do
    local word = options[i]
    local kind = type(word)
    if kind == "number" then
      word = tostring(word)
    elseif kind ~= "string" then
      complain("argument %d: a string expected, got %s", i - 1, describe(word))
    elseif find(word, "\0", 1, true) then
      complain("argument %d has a zero byte", i - 1)
    end
    if i > 1 then args[i - 1] = word end
  end
  return args
end

local function check_stdin(value)
  if value ~= nil and type(value) ~= "boolean" and not is_descriptor(value) and not core.is_chan(value) then
    complain("stdin: a channel, true for a new one, false for none, or a file descriptor expected, got %s",
      describe(value))
  end
end

local function check_output(name, value, same)
  if value == nil or value == false or value == "lines" or value == "chunks" or value == same then return end
  if is_descriptor(value) then return end
  complain('%s: "chunks", "lines", %sfalse for none, or a file descriptor expected, got %s', name,
    same and '"stdout" for the same, ' or "", describe(value))
end

-- `args` are the words after the command. So the keys of `args`, and the number after the last, are indices into
-- `options`.
local function check_options(options, args)
  local n = #args + 1
  for key in next, options do
    if not (OPTIONS[key] or args[key] or key == n) then
      complain("%s", check.unknown(key, OPTIONS))
    end
  end
  check_stdin(options.stdin)
  check_output("stdout", options.stdout)
  check_output("stderr", options.stderr, "stdout")
  if options.cwd ~= nil and type(options.cwd) ~= "string" then
    complain("cwd: a path expected, got %s", describe(options.cwd))
  end
  if options.cwd and find(options.cwd, "\0", 1, true) then complain "cwd has a zero byte" end
  if options.env ~= nil and type(options.env) ~= "table" then
    complain("env: a table of names and values expected, got %s", describe(options.env))
  end
  if options.detached ~= nil and type(options.detached) ~= "boolean" then
    complain("detached: true or false expected, got %s", describe(options.detached))
  end
  local max = options.max
  if max ~= nil and (math.type(max) ~= "integer" or max < 1) then
    complain("max: a number of bytes, at least 1, expected, got %s", describe(max))
  end
  if max ~= nil and options.stdout ~= "lines" and options.stderr ~= "lines" then
    complain('max: it limits lines, and neither stdout nor stderr is "lines"')
  end
  local grace = options.grace
  if grace ~= nil and (type(grace) ~= "number" or grace < 0 or grace ~= grace) then
    complain("grace: a number of ms expected, got %s", describe(grace))
  end
end

-- The environment as luv takes it: this program's, with changes.
local function environment(changes)
  local env = uv.os_environ()
  for name, value in pairs(changes) do
    if type(name) ~= "string" or name == "" or name:find("=", 1, true) then
      complain("env: the name of a variable expected, got %s", describe(name))
    end
    if find(name, "\0", 1, true) then complain("env: the name %s has a zero byte", describe(name)) end
    if value ~= false and type(value) ~= "string" and type(value) ~= "number" then
      complain("env: %s: a string expected, or false to leave it out, got %s", name, describe(value))
    end
    if value and find(value, "\0", 1, true) then complain("env: %s has a zero byte", name) end
    env[name] = value or nil
  end
  local list = {}
  for name, value in pairs(env) do list[#list + 1] = name .. "=" .. value end
  return list
end

-- Checks the argument of spawn; returns the options for luv. Raises without a position and without the function's name.
local function options_for_luv(options)
  local args = words_of(options)
  check_options(options, args)
  return {
    args = args, stdio = nil, cwd = options.cwd, detached = options.detached and true or nil,
    env = options.env and environment(options.env),
  }
end

-- ---- input and output ----

-- Makes a pipe for a descriptor of the process. Returns its end, and our end as a stream; or nil and an error.
---@return integer? fd
---@return any stream or the error
local function pipe_for(name, what)
  local fds, err = uv.pipe()
  if not fds then return nil, err end
  local ours, theirs = fds.read, fds.write
  if name == "stdin" then ours, theirs = theirs, ours end
  local handle = loop.made(uv.new_pipe(false), "uv.spawn", what)
  local ok
  ok, err = handle:open(ours)
  if not ok then
    loop.close(handle)
    uv.fs_close(ours)
    uv.fs_close(theirs)
    return nil, err
  end
  local end_ = stream.new(handle, what, true)
  end_.label = ("%s of %s"):format(name, what)
  return theirs, end_
end

local function wants_channel(option)
  return option ~= false and option ~= "stdout" and not is_descriptor(option)
end

-- Returns the descriptors of the process, and an error if there is one. Makes a pipe and a stream for each channel.
local function open_pipes(self, options, what)
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

-- Makes the channel of an output at its first use.
local function channel_of(self, name)
  local end_ = self.streams[name]
  if not end_ then return nil end
  local ch = end_.by_lines and end_:lines() or end_:read()
  rawset(self, name, ch)
  return ch
end

function Process:__index(key)
  if key == "stdout" or key == "stderr" then return channel_of(self, key) end
  return Process[key]
end

-- ---- the end ----

-- Sends a signal to the process, or, if it is detached, to its process group. The group may outlive the process; as
-- long as it does, the system does not use its number for another one. But a simulated world may use the numbers of an
-- earlier one, whose finalizers may still run.
local function signal_to(self, signal)
  if self.world ~= loop.world() then return nil, "it has ended" end
  return uv.kill(self.detached and -self.pid or self.pid, signal)
end

-- Whether processes of the group still run although the process has ended. If there is a process with its number, that
-- is a later one, and so may the group be.
local function group_lives(self)
  if not self.detached or not self.pid or self.world ~= loop.world() then return false end
  local ok, _, name = uv.kill(self.pid, 0)
  return not ok and name == "ESRCH" and signal_to(self, 0) ~= nil
end

---Sends a signal to the process, or, if it is detached, to its whole process group.
---@param signal? string|integer a name, as in "int" or "sigint", or a number; default "term"
---@return boolean ok false if the process has ended already
---@return string? err
function Process:kill(signal)
  sign.own(self, "p", "kill")
  signal = signal or "term"
  if type(signal) == "string" then
    signal = signal:lower()
    if signal:sub(1, 3) ~= "sig" then signal = "sig" .. signal end
    if not uv.constants[signal:upper()] then raise(("kill: there is no signal %q"):format(signal)) end
  elseif math.type(signal) ~= "integer" then
    raise("kill: the name or number of a signal expected, got a " .. type(signal))
  end
  if not (self.handle or group_lives(self)) then return false, "it has ended" end
  local ok, err = signal_to(self, signal)
  if not ok then return false, err end
  return true
end

---Lets the process, or its group, get a signal when the program ends; nil: none any more. In a simulated world its host
---ends it.
---@param signal? "sigterm"|"sigkill"
function Process:end_by(signal)
  if self.world or not self.pid then return end
  local number = signal and uv.constants[signal:upper()]
  if self.ending and number then return self.ending:set(number) end
  if self.ending then self.ending:remove() end
  self.ending = number and internal.ending(self.detached and -self.pid or self.pid, number) or nil
end

-- Sends SIGKILL after `ms`. The timer is luv's because that can be stopped; rn.run would wait for an rn.timeout.
local function begin_grace(self, ms)
  local grace = math.ceil(math.min(ms, FOREVER_MS))
  self:end_by "sigkill"
  self.deadline = core.now() + grace
  self.timer = self.timer or uv.new_timer()
  if self.handle then loop.made_with(self.timer, self.handle) end
  self.timer:start(grace, 0, function()
    if not loop.over then signal_to(self, "sigkill") end
  end)
end

local function close_streams(self)
  for _, end_ in pairs(self.streams) do end_:close() end
end

-- Closes the streams after the loop's next turn, which reads what the process has written before it ended.
local function end_grace(self)
  self:end_by(nil)
  self.timer:stop() -- because loop.close closes it only after the next timers have run
  loop.close(self.timer)
  self.timer = nil
  loop.after_turn(function() close_streams(self) end)
end

-- A process that is being stopped has ended. If it is detached, other processes of its group may still run; they get
-- the rest of the grace.
local function wait_for_group(self)
  if not self.detached then return end_grace(self) end
  self.timer:stop()
  self.timer:start(0, CHECK_MS, function()
    if loop.over then return end
    local late = core.now() >= self.deadline
    if not signal_to(self, late and "sigkill" or 0) or late then end_grace(self) end
  end)
end

-- Asks the process to end, and kills it after `ms`.
local function stop(self, ms)
  if self.closing then
    if not self.timer or core.now() + ms >= self.deadline then return end
    begin_grace(self, ms)
    if not self.handle then wait_for_group(self) end
    return
  end
  self.closing = true
  if not self.handle and not group_lives(self) then return close_streams(self) end
  signal_to(self, "sigterm")
  begin_grace(self, ms)
  if not self.handle then wait_for_group(self) end
  for name, end_ in pairs(self.streams) do
    if name == "stdin" then end_:close() else end_:read_on(name) end
  end
end

---Stops the process: sends SIGTERM, closes its input, and sends SIGKILL if it has not ended within its grace. Its
---output is read to the end, with or without takes, so that the process can end in good order; the last 64 KB of
---untaken output are kept. Then the channels close. If it is detached, the signals go to its whole process group, also
---once the process itself has ended. Does not wait; take from `exit` for that. If it is not detached and has already
---ended, no signal is sent, not even to processes that it left behind.
function Process:close()
  sign.own(self, "p", "close")
  stop(self, self.grace)
end

---It has ended, and all that was wanted of it has come: what it has left behind goes on, unless it is being stopped.
function Process:leave()
  if self.closing then return end
  self.closing = true
  self:end_by(nil)
end

---Stops the process as close does, and parks until it has ended.
---@param ms? number after how many ms SIGKILL is sent, if it has not ended; default its grace
---@return runnel.uv.Status? status nil if the process could not be started
---@return string? err
function Process:stop(ms)
  sign.own(self, "p", "stop")
  if ms ~= nil then check.ms(ms, 0, "stop: ms") end
  stop(self, ms or self.grace)
  return self.exit:take()
end

Process.__close = Process.close

-- ---- the beginning ----

local function start(self, file, for_luv, searches)
  local exit = self.exit
  local handle, pid, err
  handle, pid, err = starting.program(file, for_luv, function(code, signal)
    local process = running[exit] -- before the handle is closed, which may have kept it
    loop.close(handle)
    local status = { code = signal == 0 and code or 128 + signal, signal = signal ~= 0 and signal or nil }
    if process then
      running[exit] = nil
      process.handle = nil
      if not process.detached then process:end_by(nil) end
      if process.timer then wait_for_group(process) end
      if process.streams.stdin then process.streams.stdin:close "the process has ended" end
    end
    exit:offer(status)
  end, searches)
  if not handle then
    -- The cause may be the directory, missing or inaccessible: the system does not tell.
    local what = for_luv.cwd and ("%s, in %s"):format(file, for_luv.cwd) or file
    return loop.message(pid, what), err
  end
  self.handle, self.pid = loop.made(handle, "uv.spawn", file), pid
  running[exit] = self
  loop.keep(handle, self)
end

-- The process could not be started: makes its channels, and closes them with the error.
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
    internal.fail(self.exit, err, nil, "uv.spawn") -- one report for all of them
    for i = 2, #channels do
      internal.pass_on(err, channels[i], nil)
      stream.refuse(channels[i], err)
    end
  end)
end

---Starts a process.
---@param options table the command and its arguments, and these fields.
---`stdin`: true for a new channel (the default), a channel whose values are written to it, false for none, or a file
---descriptor. `stdout`, `stderr`: `"chunks"` (the default) or `"lines"` for a channel, false for none, or a file
---descriptor; `stderr = "stdout"` sends it where stdout goes. `max`: how many bytes a line may have, default 1 MB.
---`cwd`: its directory. `env`: changes to the environment, false to remove a variable. `grace`: ms between SIGTERM and
---SIGKILL when it is closed, default 2000. `detached`: true for a session and process group of its own. Then `kill` and
---`close` signal the whole group, and Ctrl-C in a terminal, which goes to the program's own group, does not reach the
---process. Otherwise they signal only the process.
---@return runnel.uv.Process
---If it cannot be started, `exit` and the other channels close with the error, which is reported unless it is taken
---from `exit`.
local function spawn(options, ...)
  sign.dot(options, "uv", "spawn")
  check.alone((...), "spawn")
  local valid, for_luv = pcall(options_for_luv, options)
  if not valid then raise("spawn: " .. tostring(for_luv)) end
  loop.check "spawn"
  local file = options[1]
  local self = setmetatable({
    exit = core.promise_chan(), streams = {}, grace = options.grace or GRACE_MS, detached = options.detached,
    world = loop.world(), closing = false, handle = nil, pid = nil, timer = nil, stdout = nil, -- room for later fields
  }, Process)
  local stdio, err = open_pipes(self, options, file)
  local env = options.env
  for_luv.stdio = stdio
  if not err then err = start(self, file, for_luv, env ~= nil and env.PATH ~= nil) end
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
      if options[name] == "lines" then end_.by_lines, end_.max = true, options.max end
      end_:hold(name)
    end
  end
  return self
end

---@class runnel.uv.process
local process = { spawn = spawn }

return process
