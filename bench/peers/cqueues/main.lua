-- The workloads in cqueues.
--
--     lua5.4 bench/peers/cqueues/main.lua [--quick] NAME...
--
-- cqueues has coroutines that wait for files, times and condition variables, but no channels. Here a channel is written
-- in the usual way, as a queue and two condition variables; a select polls the channels.

package.path = arg[0]:gsub("[^/]*$", "") .. "../?.lua;" .. package.path
local measure = require "measure"
local cqueues = require "cqueues"
local condition = require "cqueues.condition"
local promise = require "cqueues.promise"

local loop

local function go(f, ...) loop:wrap(f, ...) end

-- ---- channels ----

local Channel = {}
Channel.__index = Channel

local function chan(size)
  return setmetatable({
    size = size, closed = false,
    values = {}, first = 1, last = 0,
    readable = condition.new(), -- there is a value, or the channel is closed
    writable = condition.new(), -- a value has been taken
  }, Channel)
end

function Channel:put(value)
  while self.last - self.first >= self.size do self.writable:wait() end
  self.last = self.last + 1
  self.values[self.last] = value
  self.readable:signal(1)
  if self.size == 0 then -- done when the value has been taken
    local mine = self.last
    while self.first <= mine do self.writable:wait() end
  end
end

function Channel:poll()
  if self.first > self.last then return nil end
  local value = self.values[self.first]
  self.values[self.first] = nil
  self.first = self.first + 1
  self.writable:signal()
  return value
end

function Channel:take()
  while self.first > self.last do
    if self.closed then return nil end
    self.readable:wait()
  end
  return self:poll()
end

Channel.__call = Channel.take

function Channel:close()
  self.closed = true
  self.readable:signal()
end

-- ---- the workloads ----

local shared = require "workloads"(go, chan)

-- n messages over `width` channels. One coroutine puts on all of them in turn, or each channel has a putter of its own.
local function select_over(width, own_putters)
  return function(n)
    local chs, conditions = {}, {}
    for i = 1, width do
      chs[i] = chan(0)
      conditions[i] = chs[i].readable
    end
    local function put(first, step)
      for i = first, n, step do chs[(i - 1) % width + 1]:put(i) end
    end
    if own_putters then
      for i = 1, width do go(put, i, width) end
    else
      go(put, 1, 1)
    end
    local function select()
      while true do
        for i = 1, width do
          local value = chs[i]:poll()
          if value then return value end
        end
        cqueues.poll(table.unpack(conditions))
      end
    end
    for _ = 1, n do select() end
  end
end

local function spawn(n)
  local function f() return true end
  for _ = 1, n do promise.new(f):get() end
end

-- n coroutines that sleep, each for one to two seconds.
local function timeouts(n)
  local left, ended = n, condition.new()
  local function sleeper(seconds)
    cqueues.sleep(seconds)
    left = left - 1
    if left == 0 then ended:signal() end
  end
  for _ = 1, n do go(sleeper, 1 + math.random()) end
  ended:wait()
end

-- Runs f(...) as a coroutine, to its end; the coroutines that it leaves behind are collected with the loop.
local function run(f, ...)
  local ended = false
  loop = cqueues.new()
  loop:wrap(function(...)
    f(...)
    ended = true
  end, ...)
  while not ended do assert(loop:step()) end
end

local function ns(f, ...)
  return measure.ns(function(n)
    run(f, n)
    loop:close()
  end, ...)
end
measure.main {
  chan0 = ns(shared.messages(0), 20000),
  chan1 = ns(shared.messages(1), 20000),
  chan100 = ns(shared.messages(100), 20000),
  pingpong = ns(shared.ping_pong, 20000),
  ring = ns(shared.ring, 100, 1000),
  select4 = ns(select_over(4, false), 20000),
  fanin4 = ns(select_over(4, true), 20000),
  select64 = ns(select_over(64, false), 1000),
  spawn = ns(spawn, 20000),
  skynet = ns(shared.skynet, 1, 111111, true),
  sieve = ns(shared.sieve, 1, 1, true),
  pipeline = ns(shared.pipeline, 100000, 1, true),
  fanout4 = ns(shared.fanout, 20000),
  timeouts = ns(timeouts, 100000, 1, true), -- with a million, each would take even longer
  parked = measure.bytes(measure.resident_bytes, 100000, function(...)
    run(shared.parked, ...)
    loop:step(0)
  end),
  channel = measure.bytes(measure.resident_bytes, 100000, shared.channels),
}
