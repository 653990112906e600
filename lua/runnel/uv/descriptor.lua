---File descriptors, which are opened and used without blocking the loop, and closed when they are collected. Files are
---read in place if that does not wait for a disk, else by luv's threads, which also write them; pipes, terminals and
---sockets when they are ready. Luv's own streams would make them non-blocking for every program that shares them.

local core = require "runnel.core"
local check = require "runnel.internal.check"
local current = require "runnel.internal.world"
local guard = require "runnel.internal.guard"
local loop = require "runnel.uv.loop"

local uv, alts = loop.uv, core.internal.moving.alts
local descriptors = core.internal.descriptors
local PRIORITY = { priority = true }

-- ms between two attempts to open a named pipe for writing while it has no reader
local RETRY = 20
-- ms between two attempts to read or write, where the system cannot tell when that is possible
local AGAIN = 10
-- After so many reads of what is in memory other go blocks get a turn.
local READS = 16

---@class runnel.uv.Descriptor
---@field fd? integer nil until it is open, and once it is closed
---@field is_closed boolean a descriptor that luv opens from now on is closed at once
---@field is_called boolean luv has not done a call yet
---@field name string for messages
---@field world? runnel.sim.World where it exists; nil: the real one
---@field begin fun(f: function, ...: any) begins an asynchronous call of luv; only one at a time
---@field finish fun(): string?, any parks until that call is done; returns its error, if there is one, and its result
---@field polled? any of the core: it is a pipe, a terminal or a socket
---@field watch? any luv's, once it had to wait until it is ready
---@field ready? runnel.Channel<boolean> gets a value when it is
---@field writes? boolean it is for writing then
---@field by_time? boolean the system cannot tell when it is ready
---@field opened boolean the program has opened it by a path
---@field by_threads boolean it is not read in place: the system cannot tell what is in memory, or the pieces are large
---@field reads integer how often it was read from memory
local Descriptor = {}
Descriptor.__index = Descriptor

-- Standard input, output and error belong to the whole program, so they are never closed. A call of luv's threads may
-- not have begun yet, and the system gives the number of a closed descriptor to the next one: so it is closed after it.
local function close(self)
  self.is_closed = true
  if self.is_called and not loop.over then return end
  if self.fd and self.fd > 2 then loop.close_descriptor(self.fd, self.world) end
  self.fd = nil
  local watch = self.watch
  self.watch = nil
  if watch and not watch:is_closing() then
    watch:stop()
    loop.close(watch)
  end
  if self.polled then self.polled:close() end
end

Descriptor.close, Descriptor.__close, Descriptor.__gc = close, close, close

local function new(name, fd)
  local self = setmetatable({
    name = name, fd = fd, is_closed = false, is_called = false, opened = fd == nil, world = loop.world(),
    by_threads = loop.world() ~= nil or not descriptors.read_in_memory, reads = 0,
    polled = nil, watch = nil, ready = nil, writes = nil, by_time = nil, -- room for later fields
  }, Descriptor)
  local answers, err, result = core.chan(1), nil, nil
  -- Refers to `self`: it must not be collected, and closed, while luv uses it.
  local function on_answer(e, r)
    err, result = e and loop.message(e, self.name), r
    self.is_called = false
    if self.is_closed then close(self) end
    answers:offer(true)
  end
  function self.begin(f, ...)
    local args = table.pack(...)
    args[args.n + 1] = on_answer
    self.is_called = true
    local req, problem = f(table.unpack(args, 1, args.n + 1))
    if not req then on_answer(problem) end
  end
  function self.finish()
    answers:take()
    return err, result
  end
  return self
end

---Makes an asynchronous call and parks until it is done.
function Descriptor:call(f, ...)
  self.begin(f, ...)
  return self.finish()
end

-- Makes a message of a system's error number.
local function message(self, number)
  local text = uv.translate_sys_error(number)
  return loop.message(text or "error " .. number, self.name)
end

---Reads a file. Parks if the system does not have the bytes in memory.
---@param n integer how many bytes; it may be less
---@param at integer the offset; -1: the file's own position, which moves on
---@return string? err
---@return string? chunk "" at the end
---@return integer? size of the file, if it is known
function Descriptor:read_file(n, at)
  if not self.by_threads then
    local chunk, number = descriptors.read_in_memory(self.fd, n, at)
    if chunk then
      self.reads = self.reads + 1
      if self.reads % READS == 0 then core.yield() end
      return nil, chunk, number
    end
    if number then return message(self, number) end
    self.by_threads = chunk == nil
  end
  return self:call(uv.fs_read, self.fd, n, at)
end

-- ---- pipes, terminals, sockets ----

---Prepares reading or writing: of a pipe, a terminal or a socket when it is ready, which `polled` then says.
---@param writes boolean
---@return string? err
function Descriptor:prepare(writes)
  if current.world then return nil end -- there are only files
  local polled, number = descriptors.polled(self.fd, writes, self.opened)
  if polled == nil then return message(self, number) end
  self.polled = polled or nil
  if not polled then return nil end
  self.writes = writes
  if writes then loop.ignore_sigpipe() end
end

-- Begins to wait until it is ready. The callback must not refer to the descriptor, since luv keeps the callback.
local function begin_watch(self)
  if not self.watch then
    local fd = self.polled:descriptor()
    local poll = fd and uv.new_poll(fd)
    self.ready, self.by_time = core.chan(1), not poll
    self.watch = loop.made(poll or uv.new_timer(), self.writes and "uv.write" or "uv.read", self.name)
  end
  local watch, ready = self.watch, self.ready
  local function on_ready()
    watch:stop()
    if not loop.over then ready:offer(true) end
  end
  if self.by_time then watch:start(AGAIN, 0, on_ready) else watch:start("r", on_ready) end
end

-- Parks until it is ready; returns false if `stop` closes.
local function wait(self, stop)
  begin_watch(self)
  local _, i = alts({ stop:done(), self.ready }, PRIORITY)
  if i == 2 then return true end
  self.watch:stop()
  return false
end

---Reads what there is; parks until there is something.
---@param stop runnel.Channel<any> gives up when it closes
---@return string? chunk "" at the end; nil if it has given up, or with an error
---@return string? err
function Descriptor:read(stop)
  while not stop:closed() do
    local chunk, number = self.polled:read()
    if chunk then return chunk end
    if number then return nil, message(self, number) end
    if not wait(self, stop) then return nil end
  end
end

---Writes some of the text; parks until that is possible.
---@param text string
---@param from integer a position in the text
---@param stop runnel.Channel<any> gives up when it closes
---@return string? err
---@return integer? n how many bytes; nil if it has given up, or with an error
function Descriptor:write(text, from, stop)
  while not stop:closed() do
    local n, number = self.polled:write(text, from)
    if n then return nil, n end
    if number then return message(self, number) end
    if not wait(self, stop) then return nil end
  end
end

-- ---- opening ----

local descriptor = {}

---Whether a value may be a file descriptor.
---@return boolean
function descriptor.is_descriptor(value)
  return math.type(value) == "integer" and value >= 0 and value <= check.MOST_DESCRIPTOR
end

---Wraps the descriptor of an open file.
---@param path string
---@param fd integer
---@return runnel.uv.Descriptor
function descriptor.of_file(path, fd) return new(path, fd) end

-- The go block that opens a path may be cancelled, and luv may open it yet: it is closed then. If that makes the file,
-- the go block ends only afterwards, so that whoever waits for its end can remove the file.
local Opening = { __close = function(self)
  local d = self.descriptor
  if not d.is_called then return end
  close(d)
  if self.makes then guard.insist(d.finish) end
end }

-- Makes one attempt to open a path. Parks.
local function try_to_open(self, where, flags)
  local makes = flags & uv.constants.O_CREAT ~= 0
  local opening <close> = setmetatable({ descriptor = self, makes = makes }, Opening) -- luacheck: ignore 211
  return self:call(function(path, how, mode, on_answer)
    return uv.fs_open(path, how, mode, function(err, fd)
      self.fd = fd
      on_answer(err)
    end)
  end, where, flags | uv.constants.O_NONBLOCK, tonumber("666", 8))
end

-- Whether there is a named pipe at a path. Parks.
local function is_pipe(self, where)
  local err, stat = self:call(uv.fs_stat, where)
  return not err and stat.type == "fifo"
end

-- The open descriptors that programs have passed, by number. Two objects would close the same one.
local in_use = setmetatable({}, { __mode = "v" })

---Opens a path, or wraps a descriptor that is open.
---@param where string|integer
---@param flags integer how to open a path
---@return runnel.uv.Descriptor? d
---@return string? err
function descriptor.open(where, flags)
  if type(where) == "number" then
    local name = "descriptor " .. where
    if where <= 2 or current.world then return new(name, where) end
    if in_use[where] and in_use[where].fd then return nil, name .. " is in use already" end
    in_use[where] = new(name, where)
    return in_use[where]
  end
  while true do
    local self = new(where)
    local err = try_to_open(self, where, flags)
    if not err then return self end
    -- A named pipe has no reader yet. A socket or a device without hardware gives this error for ever.
    if not err:find "^ENXIO" or not is_pipe(self, where) then return nil, err end
    core.sleep(RETRY)
  end
end

return descriptor
