-- The workloads in coroutines on luv, which is libuv for Lua.
--
--     lua5.4 bench/peers/luv/main.lua [--quick] NAME...
--
-- luv has an event loop, timers and I/O, but no channels. Here they are written in the usual way: queues in Lua tables,
-- and a list of ready coroutines that an idle handle resumes. A put that resumed the taker itself would be faster, but
-- would reach Lua's limit of 200 nested C calls, for example in a ring of 1000.

package.path = arg[0]:gsub("[^/]*$", "") .. "../?.lua;" .. package.path
local measure = require "measure"
local uv = require "luv"

local running, yield, resume = coroutine.running, coroutine.yield, coroutine.resume

-- ---- coroutines ----

local ready, first, last = {}, 1, 0 -- a queue of coroutines, each followed by the value to resume it with
local idle = uv.new_idle()
local active = false

local function drain()
  while first < last do
    local co, value = ready[first], ready[first + 1]
    ready[first], ready[first + 1] = nil, nil
    first = first + 2
    local ok, err = resume(co, value)
    if not ok then error(debug.traceback(co, err)) end
  end
  active = false
  idle:stop()
end

local function wake(co, value)
  ready[last + 1], ready[last + 2] = co, value
  last = last + 2
  if not active then
    active = true
    idle:start(drain)
  end
end

local function go(f, ...)
  local co
  if select("#", ...) < 2 then
    co = coroutine.create(f)
  else
    local a, b, c = ...
    co = coroutine.create(function() return f(a, b, c) end)
  end
  wake(co, (...))
end

-- ---- channels ----

local Channel = {}
Channel.__index = Channel

local function chan(size)
  return setmetatable({
    size = size, closed = false,
    first = 1, last = 0, -- of `values`: first the buffered ones, then those of waiting putters
    values = {},
    putters = {}, -- each at the index of its value
    take_first = 1, take_last = 0,
    takers = {},
  }, Channel)
end

function Channel:put(value)
  if self.closed then return false end
  if self.take_first <= self.take_last then
    local taker = self.takers[self.take_first]
    self.takers[self.take_first] = nil
    self.take_first = self.take_first + 1
    wake(taker, value)
    return true
  end
  self.last = self.last + 1
  self.values[self.last] = value
  if self.last - self.first >= self.size then
    self.putters[self.last] = running()
    yield()
  end
  return true
end

function Channel:take()
  if self.first <= self.last then
    local value = self.values[self.first]
    self.values[self.first] = nil
    local admitted = self.first + self.size -- the putter whose value now has room in the buffer
    self.first = self.first + 1
    local putter = self.putters[admitted]
    if putter then
      self.putters[admitted] = nil
      wake(putter)
    end
    return value
  end
  if self.closed then return nil end
  self.take_last = self.take_last + 1
  self.takers[self.take_last] = running()
  return yield()
end

Channel.__call = Channel.take

function Channel:close()
  self.closed = true
  for i = self.take_first, self.take_last do
    wake(self.takers[i])
    self.takers[i] = nil
  end
  self.take_first = self.take_last + 1
end

-- ---- the workloads ----

local shared = require "workloads"(go, chan)

local function spawn(n)
  for _ = 1, n do
    local result = chan(0)
    go(function() result:put(true) end)
    result:take()
  end
end

local function timeout(ms)
  local ch, timer = chan(0), uv.new_timer()
  timer:start(ms, 0, function()
    timer:close()
    ch:close()
  end)
  return ch
end

-- n timeouts, all made before the first one fires; then they fire within a second.
local function timeouts(n)
  uv.update_time()
  local list = {}
  for i = 1, n do list[i] = timeout(math.random(1000, 2000)) end
  for i = 1, n do list[i]:take() end
end

-- Runs f(...) as a coroutine, to its end.
local function run(f, ...)
  go(f, ...)
  uv.run()
end

local function ns(f, ...)
  return measure.ns(function(n) run(f, n) end, ...)
end
measure.main {
  chan0 = ns(shared.messages(0), 100000),
  chan1 = ns(shared.messages(1), 100000),
  chan100 = ns(shared.messages(100), 100000),
  pingpong = ns(shared.ping_pong, 100000),
  ring = ns(shared.ring, 100, 1000),
  spawn = ns(spawn, 100000),
  skynet = ns(shared.skynet, 3, 111111, true),
  sieve = ns(shared.sieve, 1, 1, true),
  pipeline = ns(shared.pipeline, 100000, 1, true),
  fanout4 = ns(shared.fanout, 20000),
  timeouts = ns(timeouts, 100000, 1, true), -- with a million, each would take even longer
  parked = measure.bytes(measure.lua_bytes, 100000, function(...) run(shared.parked, ...) end),
  channel = measure.bytes(measure.lua_bytes, 100000, shared.channels),
}
