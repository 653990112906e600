---The time limit of the jobs of a pool: one go block cancels the workers whose job is late.

local core = require "runnel.core"
local decimal = require "runnel.internal.decimal"
local guard = require "runnel.internal.guard"
local timed_out = require "runnel.internal.timed_out"

local now, sleep, cancel, hide = core.now, core.sleep, core.cancel, core.internal.trace.hide

local NANOSECOND = 1e-6 -- in ms: the clock's unit. The difference of two equal times may be a little off 0, by rounding

---A ring of the workers that have begun a job, in the order of their begins, which is the order of their deadlines. A
---worker whose job has ended stays in it until it begins another one or reaches the front, so that the cost of a job
---does not depend on the number of workers.
---@class runnel.internal.Limit
---@field package after runnel.internal.Limit|runnel.internal.Worker the first worker in the ring; itself: there is none
---@field package before runnel.internal.Limit|runnel.internal.Worker the last one
---@field package what string what takes too long, in messages
---@field package ms number
---@field package watcher runnel.Channel<any>|nil the go block, while there may be a deadline
local Limit = {}
Limit.__index = Limit

local limit = {
  -- The functions whose jobs begin later than the call, and the metatables of such objects.
  later = setmetatable({}, { __mode = "k" }),
}

---Notes that the jobs of a function, or of all objects with that metatable, begin later than the call: those of a pool
---of threads, which wait for a thread. Its last two arguments are `begun` and a timer; it calls begun(timer) when the
---job begins.
---@param f function|table
function limit.mark_later(f) limit.later[f] = true end

---Whether the jobs of a function begin later than the call.
---@param f any
---@return boolean
function limit.is_later(f) return limit.later[f] or limit.later[getmetatable(f) or false] or false end

---@param what string
---@param ms number
---@return runnel.internal.Limit
function limit.new(what, ms)
  local self = setmetatable({ what = what, ms = ms, watcher = nil, after = nil, before = nil }, Limit)
  self.after, self.before = self, self
  return self
end

-- Takes a worker out of the ring, if it is in it.
local function unlink(worker)
  local before, after = worker.before, worker.after
  if not before then return end
  before.after, after.before = after, before
  worker.before, worker.after = false, false
end

-- The worker with the next deadline; nil if there is none.
local function next_late(self)
  while self.after ~= self do
    if self.after.deadline then return self.after end
    unlink(self.after)
  end
end

local function watch(self)
  local worker = next_late(self)
  while worker do
    local left = worker.deadline - now()
    if left >= NANOSECOND then
      sleep(left)
    else
      worker.deadline = false
      worker.late = timed_out.new(("%s had not ended after %s ms"):format(self.what, decimal.text(self.ms)))
      cancel(worker.block, worker.late)
    end
    worker = next_late(self)
  end
  self.watcher = nil
end

local function forget(self) self.watcher = nil end

---Registers a worker that begins a job. The worker sets its field `deadline` to false when the job has ended.
---@param worker runnel.internal.Worker
function Limit:begin(worker)
  unlink(worker)
  worker.deadline, worker.before, worker.after = now() + self.ms, self.before, self
  self.before.after, self.before = worker, worker
  if not self.watcher then self.watcher = hide(guard.go(forget, self, watch, self)) end -- so no program cancels it
end

---The same as `begin`, as a function for a job that begins later.
---@param worker runnel.internal.Worker
function limit.begun(worker) worker.pool.limit:begin(worker) end

---Called when no jobs are left.
function Limit:stop()
  if self.watcher then cancel(self.watcher) end
end

return limit
