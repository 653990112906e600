---File descriptors, which are opened and used without blocking the loop, and closed when they are collected.

local core = require "runnel.core"
local loop = require "runnel.internal.uv.loop"

local uv = loop.uv

-- ms between two attempts to open a named pipe for writing while it has no reader
local RETRY = 20

---@class runnel.uv.Descriptor
---@field fd? integer nil until it is open, and once it is closed
---@field is_closed boolean a descriptor that luv opens from now on is closed at once
---@field name string for messages
---@field world? runnel.sim.World where it exists; nil: the real one
---@field begin fun(f: function, ...: any) begins an asynchronous call of luv; only one at a time
---@field finish fun(): string?, any parks until that call is done; returns its error, if there is one, and its result
local Descriptor = {}
Descriptor.__index = Descriptor

-- Standard input, output and error belong to the whole program, so they are never closed.
local function close(self)
  if self.fd and self.fd > 2 then loop.close_descriptor(self.fd, self.world) end
  self.fd, self.is_closed = nil, true
end

Descriptor.close, Descriptor.__close, Descriptor.__gc = close, close, close

local function new(name, fd)
  local self = setmetatable({ name = name, fd = fd, is_closed = false, world = loop.world() }, Descriptor)
  local answers, err, result = core.chan(1), nil, nil
  -- Refers to `self`: it must not be collected, and closed, while luv uses it.
  local function on_answer(e, r)
    err, result = e and loop.message(e, self.name), r
    answers:offer(true)
  end
  function self.begin(f, ...)
    local args = table.pack(...)
    args[args.n + 1] = on_answer
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

---Returns the descriptor, which the caller must close from now on.
---@return integer fd
function Descriptor:give()
  local fd = self.fd
  self.fd = nil
  return fd
end

local descriptor = {}

---Whether a value may be a file descriptor.
---@return boolean
function descriptor.is_descriptor(value) return math.type(value) == "integer" and value >= 0 end

---Wraps the descriptor of an open file.
---@param path string
---@param fd integer
---@return runnel.uv.Descriptor
function descriptor.of_file(path, fd) return new(path, fd) end

-- Closes a descriptor unless it is open: the go block that opens it was cancelled, and luv may open it yet.
local Opening = { __close = function(self)
  if not self.descriptor.fd then close(self.descriptor) end
end }

-- Makes one attempt to open a path. Parks.
local function try_to_open(self, where, flags)
  local opening <close> = setmetatable({ descriptor = self }, Opening) -- luacheck: ignore 211
  return self:call(function(path, how, mode, on_answer)
    return uv.fs_open(path, how, mode, function(err, fd)
      self.fd = fd
      if self.is_closed then close(self) end
      on_answer(err)
    end)
  end, where, flags | uv.constants.O_NONBLOCK, tonumber("666", 8))
end

---Opens a path, or wraps a descriptor that is open.
---@param where string|integer
---@param flags integer how to open a path
---@return runnel.uv.Descriptor? d
---@return string? err
function descriptor.open(where, flags)
  if type(where) == "number" then return new("descriptor " .. where, where) end
  while true do
    local self = new(where)
    local err = try_to_open(self, where, flags)
    if not err then return self end
    if not err:find "^ENXIO" then return nil, err end
    core.sleep(RETRY)
  end
end

return descriptor
