---Messages to a worker (runnel.nats.serve): jobs, cancellations, and the news that a submitter has gone. Methods of
---workers.

local core = require "runnel.core"
local patience = require "runnel.nats.patience"
local tell = require "runnel.nats.tell"
local wire = require "runnel.nats.wire"

local find, match, tointeger = string.find, string.match, math.tointeger

local arrivals = {}

---@class runnel.Worker
local Worker = {}
arrivals.methods = Worker

---Reports a problem, once for each key.
---@param message string
---@param key string
function Worker:tell(message, key) tell(self, "serve", message, key) end

-- Refuses a job that only a worker of another version can run.
local function leave(self, d, version, reply)
  if reply then self.engine:publish(reply, wire.line("-", "refused", 0, wire.VERSION, self.label)) end
  if version == wire.VERSION then
    self:tell("a job has an encoding that this worker does not know; it is left to other workers", "encoding")
  else
    self:tell(("a job has version %s of the protocol, this worker version %s; it is left to other workers")
      :format(version, wire.VERSION), "version " .. version)
  end
  self:give_back(d, patience.given_back)
end

-- Whether a job was delivered before.
local function look(self, ack)
  local at = #self.first_ack + 1
  if find(ack, self.first_ack, 1, true) == 1 then -- most are, and this is faster
    local sequence, order = match(ack, "^(%d+)%.(%d+)", at)
    return self.firsts:look(tointeger(sequence), tointeger(order))
  end
  local deliveries, sequence, order = wire.delivery(ack)
  local again = self.firsts:look(sequence, order)
  return deliveries > 1 and "again" or again
end

-- Whether the worker already has the job, by another delivery.
local function has_already(self, d)
  for _, other in pairs(self.held) do
    local job = other ~= d and other.job
    if job and job.number == d.job.number and job.reply == d.job.reply then return true end
  end
  return false
end

---Handles a job's arrival.
---@param data string
---@param ack string the subject for its acknowledgement
---@param age integer ms since it has arrived
function Worker:deliver(data, ack, age)
  if self.held[ack] then return end
  if age > self.ack_wait then return self:pump() end -- Lua was busy too long: the server redelivers the job elsewhere
  local job, version, reply, problem = wire.parse_job(data)
  local d = { worker = self, ack = ack, job = job, block = false, beat = false }
  self.held[ack] = d
  d.again = look(self, ack)
  if job and job.again then d.again = "again" end
  d.is_suspect = job ~= nil and d.again ~= "first"
  if d.is_suspect and has_already(self, d) then
    self.held[ack] = nil -- the answer to the other delivery is about the same message
  elseif problem then
    self:tell("a message in its stream was removed: " .. problem, problem)
    self:answer(d, "+TERM")
  elseif not job then
    leave(self, d, version, reply)
  elseif not self.open or self.running.lone then
    self:give_back(d)
  elseif not self.early.is_empty and self.early:has(job) or not d.is_suspect and self.gone:has(job.reply) then
    self:acknowledge(d)
  else
    if job.again then self.gone:forget(job.reply) end -- the submitter is back
    if age > self.beats then self.engine:publish(ack, "+WPI") end
    d.beat = self.engine:beat(ack, "+WPI", self.beats, self.back)
    self.waiting[#self.waiting + 1] = d
  end
  self:pump()
end

-- Takes a job out of a queue; false if the queue lacks it.
local function remove(queue, d)
  for i = 1, #queue do
    if queue[i] == d then
      table.remove(queue, i)
      return true
    end
  end
  return false
end

---A submitter has gone: drops its waiting jobs. (Before a redelivered job starts, the worker asks anyway.)
---@param reply string where it would get results
function Worker:found_gone(reply)
  for i = #self.waiting, 1, -1 do
    local d = self.waiting[i]
    if d.job.reply == reply and not d.is_suspect then
      table.remove(self.waiting, i)
      self:acknowledge(d)
    end
  end
  self:pump()
end

---Handles a cancellation, perhaps of a job that this worker does not have.
---@param data string
function Worker:cancel(data)
  local words = wire.parse(data)
  local reply, number = words and words[4], words and words[5]
  if not number or words[3] ~= "cancel" then return end
  local found = {}
  for _, d in pairs(self.held) do
    if d.job and d.job.number == number and d.job.reply == reply then found[#found + 1] = d end
  end
  if #found == 0 then self.early:add(reply, number) end
  for _, d in ipairs(found) do
    if not d.cancelled then
      d.cancelled = true
      if d.block then core.cancel(d.block, "the job was cancelled")
      elseif remove(self.waiting, d) then self:acknowledge(d) end
    end
  end
end

return arrivals
