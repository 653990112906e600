---The functions of runnel under core.async's own names, for Fennel.
---
---    (local {: chan : <! : >! : timeout : alts!} (require :runnel.core_async))
---    (import-macros {: go : go-loop} (doto :runnel.core_async require))
---
---Names, arguments and results are those of async.fnl, the Fennel port of core.async: a program written for the port
---runs here once its require lines are changed. `alts!` returns one table, `[value port]`; `split` a table of two
---channels; `pipe` and the pipelines a channel that closes when they have ended. Names of core.async that the port
---lacks are here, too: `<!!` is the same function as `<!`, and so on.

local package = package

-- Fennel's compiler loads this file when it looks for the macros without a search path for them.
if rawget(_G, "_IS_COMPILER") then return require "runnel.macros" end

local rn = require "runnel"
local core = require "runnel.core"
local check = require "runnel.internal.check"
local ends = require "runnel.internal.ends"
local guard = require "runnel.internal.guard"
local raise = core.internal.raise

local methods = core.methods

---@class runnel.core_async
local core_async = {}

-- ---- buffers ----

-- The port's buffers are objects with methods that count, add and remove values. A channel made with one gets a buffer
-- of the core instead, of the same kind, and from then on the object's methods use the channel. An object that holds
-- values already, or that the user derived from these classes, becomes the channel's buffer policy.

---@class runnel.core_async.Buffer
---@field size integer
---@field buf any[] its values, while no channel uses it
---@field ch? runnel.Channel<any> the channel that uses it

local FixedBuffer, DroppingBuffer, SlidingBuffer, PromiseBuffer = {}, {}, {}, {}
local metas = {}

for class, make in pairs {
  [FixedBuffer] = core.buffer, [DroppingBuffer] = core.dropping_buffer, [SlidingBuffer] = core.sliding_buffer,
  [PromiseBuffer] = false,
} do
  class.type = "buffer"
  function class.length(self) return self.ch and #self.ch or #self.buf end
  ---@diagnostic disable-next-line: duplicate-set-field (FixedBuffer has its own)
  function class.full() return false end
  ---@diagnostic disable-next-line: duplicate-set-field
  function class.remove(self)
    if self.ch then return self.ch:poll() end
    return table.remove(self.buf, 1)
  end
  metas[class] = { __index = class, __name = "buffer", __len = class.length, make = make }
end

function FixedBuffer.full(self) return self:length() >= self.size end

function PromiseBuffer.remove(self) return self.buf[1] end

local function is_full(self) return self:length() >= self.size end

-- Makes a method that adds a value, unless `refuses(self)` is true, and then calls `after(self)`, which may drop
-- another value.
local function adder(refuses, after)
  return function(self, value)
    if value == nil then raise("add!: nil cannot be put into a buffer") end
    if self.ch then
      self.ch:offer(value)
    elseif not (refuses and refuses(self)) then
      self.buf[#self.buf + 1] = value
      if after then after(self) end
    end
    return self
  end
end

FixedBuffer.add = adder()
DroppingBuffer.add = adder(is_full)
SlidingBuffer.add = adder(nil, function(self)
  if #self.buf > self.size then table.remove(self.buf, 1) end
end)
PromiseBuffer.add = adder(is_full)

for class in pairs(metas) do
  class.count = class.length
  class["full?"], class["add!"], class["remove!"] = class.full, class.add, class.remove
  class["close-buf!"] = function() end
end

local function new_buffer(class, size)
  local make = metas[class].make
  if make then make(size) end -- checks the size
  return setmetatable({ size = size, buf = {} }, metas[class])
end

-- Converts a buffer as the port's functions take it to one as runnel's functions take it.
local function native(buffer)
  local meta = type(buffer) == "table" and getmetatable(buffer)
  if not meta or not meta.make or #buffer.buf > 0 then return buffer end
  return meta.make(buffer.size)
end

---A buffer of n values; when it is full, puts wait.
core_async["buffer"] = function(n) return new_buffer(FixedBuffer, n) end

---A buffer of n values; when it is full, what is put is dropped.
core_async["dropping-buffer"] = function(n) return new_buffer(DroppingBuffer, n) end

---A buffer of n values; when it is full, the oldest one is dropped.
core_async["sliding-buffer"] = function(n) return new_buffer(SlidingBuffer, n) end

---A buffer that keeps its first value forever.
core_async["promise-buffer"] = function() return new_buffer(PromiseBuffer, 1) end

---Whether puts into the buffer never wait.
core_async["unblocking-buffer?"] = function(buffer)
  local meta = type(buffer) == "table" and getmetatable(buffer)
  if meta and meta.make ~= nil then return meta ~= metas[FixedBuffer] end
  return core.unblocking_buffer(buffer)
end

---The classes of the buffers.
core_async["buffers"] = {
  FixedBuffer = FixedBuffer, DroppingBuffer = DroppingBuffer, SlidingBuffer = SlidingBuffer,
  PromiseBuffer = PromiseBuffer,
}

-- ---- channels and go blocks ----

---Makes a channel.
---@param buffer? any a size or a buffer
---@param xf? fun(rf: function): function a transducer, which needs a buffer
---@param ex_handler? fun(err: any): any
---@return runnel.Channel<any> ch
core_async["chan"] = function(buffer, xf, ex_handler)
  local inner = native(buffer)
  local ch = core.chan(inner, xf, xf and ex_handler)
  if inner ~= buffer then buffer.ch = ch end
  return ch
end

core_async["promise-chan"] = function(xf, ex_handler) return core.promise_chan(xf, xf and ex_handler) end

local ALTS_OPTIONS = { priority = true, default = true, nowait = true }

---Does one of several operations.
---@param ports table[] channels to take from, and `[channel value]` to put
---@param opts? table|string the options :default and :priority, as a table or as alternating names and values
---@param ... any
---@return table pair `[value port]`, or `[default "default"]`
core_async["alts!"] = function(ports, opts, ...)
  if type(opts) == "string" then
    local pairs_of_args = { opts, ... }
    opts = {}
    for i = 1, #pairs_of_args, 2 do opts[pairs_of_args[i]] = pairs_of_args[i + 1] end
  end
  if opts ~= nil then check.options(opts, ALTS_OPTIONS, "alts!") end
  local value, port = core.alts(ports, opts)
  return { value, port }
end

core_async["alts!!"] = core_async["alts!"]
core_async["alt!"], core_async["alt!!"] = rn.alt, rn.alt

for name, method in pairs {
  ["<!"] = "take", ["<!!"] = "take", [">!"] = "put", [">!!"] = "put", ["take!"] = "take_async", ["put!"] = "put_async",
  ["poll!"] = "poll", ["offer!"] = "offer", ["close!"] = "close", ["closed?"] = "closed",
} do
  core_async[name] = methods[method]
end

core_async["go"], core_async["timeout"] = core.go, core.timeout

-- ---- reduced ----

local Reduced = getmetatable(core.reduced(true))
Reduced.__index = Reduced.__index or { unbox = function(self) return self[1] end }
Reduced.__tostring = Reduced.__tostring or function(self) return "reduced: " .. tostring(self[1]) end

core_async["reduced"], core_async["reduced?"] = core.reduced, core.is_reduced

-- The port comes with this module; another one of that name takes precedence.
if not package.loaded.reduced then
  package.preload.reduced = package.preload.reduced or function()
    return { reduced = core.reduced, is_reduced = core.is_reduced, ["reduced?"] = core.is_reduced }
  end
end

-- ---- operations ----

-- For functions whose i-th argument is `close?`: there an explicit nil means false.
local function closing(i, f)
  return function(...)
    if select("#", ...) < i or (select(i, ...)) ~= nil then return f(...) end
    local args = table.pack(...)
    args[i] = false
    return f(table.unpack(args, 1, args.n))
  end
end

-- Moves values until one of the two channels closes, and calls `finish` then. Returns a channel that closes when the
-- last value has been put on `to`. That stays open, so an error of `from` is reported.
local function relay(from, to, finish)
  return guard.started(guard.go(finish, nil, function()
    ends.forward(from, to, false)
    finish()
  end), "a pipe that leaves its target open")
end

core_async["pipe"] = closing(3, function(from, to, close)
  check.chan(from, "pipe: from")
  check.chan(to, "pipe: to")
  if close == false then return relay(from, to, guard.nothing) end
  rn.pipe(from, to)
  return to:done()
end)

for name, pipeline in pairs {
  ["pipeline"] = rn.pipeline, ["pipeline-blocking"] = rn.pipeline_blocking, ["pipeline-async"] = rn.pipeline_async,
  ["pipeline-async-unordered"] = rn.pipeline_async_unordered,
} do
  core_async[name] = closing(5, function(n, to, f, from, close, extra)
    local out = close == false and core.chan() or to
    pipeline(n, out, f, from, true, extra)
    if close ~= false then return to:done() end
    return relay(out, to, function() out:close() end)
  end)
end

---Values for which a predicate is true, and the others.
---@return runnel.Channel<any>[] pair a table of two channels
core_async["split"] = function(p, ch, t_buffer, f_buffer)
  return { rn.split(p, ch, native(t_buffer), native(f_buffer)) }
end

core_async["onto-chan!"] = closing(3, rn.onto_chan)
core_async["onto-chan!!"] = core_async["onto-chan!"]

local MAX_COPIED = 100

---Makes a channel of the elements of a list, which closes after the last one. The first 100 are in its buffer at once.
---@param source table|fun(): any a list or an iterator
---@return runnel.Channel<any> ch
core_async["to-chan!"] = function(source)
  local n = type(source) == "table" and #source or MAX_COPIED + 1
  local ch = core.chan(math.min(n, MAX_COPIED))
  if n > MAX_COPIED then
    rn.onto_chan(ch, source)
  else
    for i = 1, n do ch:offer(source[i]) end
    ch:close()
  end
  return ch
end

core_async["to-chan!!"] = core_async["to-chan!"]

for _, name in ipairs { "map", "take" } do
  core_async[name] = function(first, second, buffer) return rn[name](first, second, native(buffer)) end
end

core_async["merge"] = function(chs, buffer) return rn.merge(chs, native(buffer)) end

core_async["pub"] = function(ch, topic_fn, buf_fn)
  return rn.pub(ch, topic_fn, buf_fn and function(topic) return native(buf_fn(topic)) end)
end

core_async["tap"], core_async["sub"] = closing(3, rn.tap), closing(4, rn.sub)

for name, ours in pairs {
  ["reduce"] = "reduce", ["transduce"] = "transduce", ["into"] = "into", ["mult"] = "mult", ["untap"] = "untap",
  ["untap-all"] = "untap_all", ["mix"] = "mix", ["admix"] = "admix", ["unmix"] = "unmix", ["unmix-all"] = "unmix_all",
  ["toggle"] = "toggle", ["solo-mode"] = "solo_mode", ["unsub"] = "unsub", ["unsub-all"] = "unsub_all",
  ["multiplex"] = "multiplex", ["broadcast"] = "broadcast",
} do
  core_async[name] = rn[ours]
end

-- ---- macros ----

-- If Fennel's compiler runs in this process, lets it find the macros of runnel/macros.fnl under the name of this
-- module, too.
local fennel = package.loaded.fennel
if type(fennel) == "table" and type(fennel["macro-searchers"]) == "table" then
  table.insert(fennel["macro-searchers"], 1, function(name)
    if name ~= "runnel.core_async" and name ~= "runnel.macros" then return nil end
    local path = package.searchpath("runnel.macros", (package.path:gsub("%.lua", ".fnl")))
    if not path then return nil end
    return function() return fennel.dofile(path, { env = "_COMPILER", allowedGlobals = false }) end, path
  end)
end

return core_async
