---Jobs by key: those with the same key run in the order of their values, one at a time, and those with another key do
---not wait for them.
---
---A pool with keys has more workers than jobs may run. Each takes a value, one worker at a time, and waits before the
---call: in the lane of its key, until those before it have left, and then for one of the n places. It leaves both when
---its results have been put, so that those of a key come in order, too; a job that is tried again keeps them.
---
---A place goes to the waiting job with the oldest value. So the oldest job of all never waits for a place that a later
---one holds while it waits for its turn to put: if the oldest has waited in its lane, the one before it has left the
---place that it had.

local core = require "runnel.core"
local internal = core.internal

local chan, take, hide = core.chan, internal.moving.take, internal.trace.hide

---@class runnel.internal.Lane
---@field key any nil: that of one job without a key
---@field first integer the place of the first worker
---@field last integer
---@field [integer] runnel.internal.Worker in the order of their values

---@class runnel.internal.Lanes
---@field n integer how many jobs may run
---@field running integer how many do
---@field waiting integer how many workers have a value and wait
---@field package what string for errors
---@field package key_of fun(value: any): any
---@field package by_key table<any, runnel.internal.Lane>
---@field package tickets integer how many workers have entered
---@field package ready runnel.internal.Worker[] the first ones of their lanes that wait for a place, the oldest first
local Lanes = {}
Lanes.__index = Lanes

local lanes = {}

-- How many values may be taken and not done, for each job that runs: so many may wait for a key.
local AHEAD = 16

---@param what string
---@param n integer how many jobs may run
---@param key_of fun(value: any): any
---@return runnel.internal.Lanes
function lanes.new(what, n, key_of)
  return setmetatable({
    what = what, n = n, key_of = key_of, running = 0, waiting = 0, by_key = {}, tickets = 0, ready = {},
  }, Lanes)
end

---How many workers a pool with keys has.
---@param n integer how many jobs may run
---@return integer
function lanes.width(n) return n < math.maxinteger // AHEAD and n * AHEAD or math.maxinteger end

-- ---- places ----

local function add_ready(self, worker)
  local ready = self.ready
  local at = #ready + 1
  while at > 1 and ready[at - 1].ticket > worker.ticket do at = at - 1 end
  table.insert(ready, at, worker)
end

---Gives places to those that may run.
function Lanes:serve()
  while self.running < self.n and self.ready[1] do
    local worker = table.remove(self.ready, 1)
    self.running, worker.has_place = self.running + 1, true
    if worker.gate then worker.gate:close() end
  end
end

-- ---- lanes ----

-- The lane for a value.
local function lane_for(self, value)
  local before = self.tickets
  local key = self.key_of(value)
  if self.tickets ~= before then error(self.what .. ": key: it has waited; it must return the key at once", 0) end
  if key ~= key then error(self.what .. ": key: nan is no key, because it is not equal to itself", 0) end
  local lane = key ~= nil and self.by_key[key] or { key = key, first = 1, last = 0 }
  if key ~= nil then self.by_key[key] = lane end
  return lane
end

---Waits until a worker may call the function with its value. Does nothing if it may already.
---@param worker runnel.internal.Worker
---@param value any
function Lanes:enter(worker, value)
  local lane = worker.lane
  if not lane then
    lane = lane_for(self, value)
    self.tickets = self.tickets + 1
    worker.lane, worker.ticket, lane.last = lane, self.tickets, lane.last + 1
    lane[lane.last] = worker
    if lane.first == lane.last then
      add_ready(self, worker)
      self:serve()
    end
  end
  if worker.has_place then return end
  worker.gate, self.waiting = hide(chan()), self.waiting + 1
  local at = worker.at
  worker.at = "lane"
  local waits <close> = setmetatable({}, { __close = function() self.waiting = self.waiting - 1 end }) -- luacheck: ignore
  take(worker.gate)
  worker.at = at
end

local function remove(list, first, last, worker)
  for i = first, last do
    if list[i] == worker then return table.move(list, i + 1, last + 1, i) end
  end
end

---A worker has done with its value, or will not do it.
---@param worker runnel.internal.Worker
function Lanes:leave(worker)
  local lane = worker.lane
  if not lane then return end
  worker.lane, worker.gate = false, false
  if worker.has_place then self.running, worker.has_place = self.running - 1, false
  else remove(self.ready, 1, #self.ready, worker) end
  if lane[lane.first] == worker then
    lane[lane.first], lane.first = nil, lane.first + 1
    if lane.first <= lane.last then add_ready(self, lane[lane.first]) end
  else
    remove(lane, lane.first, lane.last, worker)
    lane.last = lane.last - 1
  end
  if lane.first > lane.last and lane.key ~= nil then self.by_key[lane.key] = nil end
  self:serve()
end

return lanes
