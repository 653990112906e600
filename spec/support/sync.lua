---Go's means of synchronization besides channels, made of channels: mutexes, read-write mutexes, condition variables,
---wait groups, once, contexts, timers. Go may switch to another goroutine anywhere; here locking yields first, so that
---other go blocks may run in between.

local rn = require "runnel"

local sync = {}

local function class(new)
  local methods = {}
  methods.__index = methods
  return methods, function(...) return setmetatable(new(...), methods) end
end

-- A mutex is a channel of one.
local Mutex, mutex = class(function() return { held = rn.chan(1):name "mutex" } end)
sync.mutex = mutex

function Mutex:lock()
  rn.yield()
  self.held:put(true)
end

function Mutex:unlock() assert(self.held:poll(), "it is not locked") end

-- A read-write mutex prefers writers: a reader waits if a writer does.
local RW, rw_mutex = class(function() return { readers = 0, writes = false, queue = {} } end)
sync.rw_mutex = rw_mutex

local function enqueue(self, is_writer)
  local turn = rn.chan(1):name(is_writer and "write lock" or "read lock")
  self.queue[#self.queue + 1] = { turn = turn, is_writer = is_writer }
  turn:take()
end

-- Wakes the first go block in the queue, and if it is a reader, the readers behind it.
local function serve(self)
  while self.queue[1] and not self.writes and not (self.queue[1].is_writer and self.readers > 0) do
    local first = table.remove(self.queue, 1)
    if first.is_writer then self.writes = true
    else self.readers = self.readers + 1 end
    first.turn:put(true)
  end
end

function RW:lock()
  rn.yield()
  if self.writes or self.readers > 0 or self.queue[1] then return enqueue(self, true) end
  self.writes = true
end

function RW:unlock()
  assert(self.writes, "it is not locked")
  self.writes = false
  serve(self)
end

function RW:rlock()
  rn.yield()
  if self.writes or self.queue[1] then return enqueue(self, false) end
  self.readers = self.readers + 1
end

function RW:runlock()
  assert(self.readers > 0, "it is not locked")
  self.readers = self.readers - 1
  serve(self)
end

local Cond, cond = class(function(lock) return { lock = lock, waiting = {} } end)
sync.cond = cond

function Cond:wait()
  local turn = rn.chan(1):name "cond"
  self.waiting[#self.waiting + 1] = turn
  self.lock:unlock()
  turn:take()
  self.lock:lock()
end

function Cond:signal()
  local first = table.remove(self.waiting, 1)
  if first then first:put(true) end
end

function Cond:broadcast()
  while self.waiting[1] do self:signal() end
end

local WaitGroup, wait_group = class(function(n) return { n = n or 0, over = rn.chan():name "wait group" } end)
sync.wait_group = wait_group

function WaitGroup:add(n)
  self.n = self.n + n
  assert(self.n >= 0, "more done than added")
  if self.n > 0 then return end
  self.over:close()
  self.over = rn.chan():name "wait group"
end

function WaitGroup:done() self:add(-1) end

function WaitGroup:wait()
  if self.n > 0 then self.over:take() end
end

-- A second caller waits until the first has done it.
local Once, once = class(function() return {} end)
sync.once = once

function Once:run(f)
  if self.over then
    self.over:take()
    return
  end
  self.over = rn.chan():name "once"
  f()
  self.over:close()
end

---A context: done is a channel that closes when it, or its parent, is cancelled, or after ms.
function sync.context(parent, ms)
  local context = { done = rn.chan():name "done", children = {} }
  function context.cancel()
    context.done:close()
    for _, child in ipairs(context.children) do child.cancel() end
  end
  if parent then
    parent.children[#parent.children + 1] = context
    if parent.done:closed() then context.cancel() end
  end
  if ms then
    rn.go(function()
      rn.alts { context.done, rn.timeout(ms) }
      context.cancel()
    end)
  end
  return context
end

---A timer of Go: may fire at any time, and then calls f. stop returns whether it came first.
function sync.after(f)
  local timer = {}
  rn.go(function()
    rn.yield()
    if timer.is_over then return end
    timer.is_over = true
    f()
  end)
  function timer.stop()
    local is_first = not timer.is_over
    timer.is_over = true
    return is_first
  end
  return timer
end

return sync
