---The time limit of the jobs of a pool: one go block cancels the workers whose job is late.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local timed_out = require "runnel.timed_out"

local now, sleep, cancel, hide = core.now, core.sleep, core.cancel, core.internal.trace.hide

local NANOSECOND = 1e-6 -- in ms: the clock's unit. The difference of two equal times may be a little off 0, by rounding

---@class runnel.internal.Limit
---@field package workers runnel.internal.Worker[] those of the pool; their field `deadline` is set while they have one
---@field package what string what takes too long, in messages
---@field package ms number
---@field package watcher runnel.Channel<any>|nil the go block, while there may be a deadline
local Limit = {}
Limit.__index = Limit

local limit = {}

---@param workers runnel.internal.Worker[]
---@param what string
---@param ms number
---@return runnel.internal.Limit
function limit.new(workers, what, ms)
  return setmetatable({ workers = workers, what = what, ms = ms, watcher = nil }, Limit)
end

local function next_late(self)
  local found
  for _, worker in ipairs(self.workers) do
    if worker.deadline and (not found or worker.deadline < found.deadline) then found = worker end
  end
  return found
end

local function watch(self)
  local worker = next_late(self)
  while worker do
    local left = worker.deadline - now()
    if left >= NANOSECOND then
      sleep(left)
    else
      worker.deadline = false
      worker.late = timed_out.new(("%s had not ended after %s ms"):format(self.what, self.ms))
      cancel(worker.block, worker.late)
    end
    worker = next_late(self)
  end
  self.watcher = nil
end

local function forget(self) self.watcher = nil end

---A worker begins with a job. It sets its field `deadline` to false when that has ended.
---@param worker runnel.internal.Worker
function Limit:begin(worker)
  worker.deadline = now() + self.ms
  if not self.watcher then self.watcher = hide(guard.go(forget, self, watch, self)) end -- so no program cancels it
end

---There are no jobs any more.
function Limit:stop()
  if self.watcher then cancel(self.watcher) end
end

return limit
