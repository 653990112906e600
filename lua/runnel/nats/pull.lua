---Fetches jobs from the stream of a remote stage, for a worker (runnel.nats.serve).
---
---A worker asks for as many jobs as it has room for, and again when half of them have come. So the server may hold
---several requests of a worker. It serves them in turns, and a job does not name its request: the worker counts how
---many jobs may still come for all requests together. When a request expires, the server says how many jobs it has not
---sent. All answers come to one subscription, so that the worker sees the jobs in the order of delivery
---(runnel.nats.firsts).

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local names = require "runnel.nats.names"
local patience = require "runnel.nats.patience"

local internal = core.internal
local now, sleep = core.now, core.sleep
local HUGE <const> = math.huge

local pull = {}

-- After this many failed attempts to make the stream, reports it. A cluster that has lost a server needs some time.
local PATIENCE <const> = 3

---The worker, as seen by its requests.
---@class runnel.PullOptions
---@field base string the subject below which the answers come
---@field deliver fun(data: string, ack: string, age: integer) called with each job
---@field refill fun() called when it is time to ask again
---@field repair fun(): any, string? makes the stream if it is missing

---The requests of a worker.
---@class runnel.Pulls
---@field private name string of the stage
---@field private engine runnel.Engine
---@field private opts runnel.PullOptions
---@field private subject string what the subjects of the answers begin with; each request has its number after it
---@field private inbox runnel.Channel<any> of the subscription
---@field private asked integer jobs that may still come; math.huge while the server does not take requests
---@field private last integer the number of the last request
---@field private valid integer answers to requests with a lower number are ignored
---@field private asked_at number when the last request was sent
---@field private heard_at number when the server last sent something for a request
---@field private looks boolean it looks for the stream, and does not ask meanwhile
---@field private failures integer failed attempts to make the stream, in a row
local Pulls = {}
Pulls.__index = Pulls

-- ---- asking ----

local function send(self, batch)
  local time = now()
  if self.asked == 0 then self.heard_at = time end
  self.last, self.asked, self.asked_at = self.last + 1, self.asked + batch, time
  local text = ('{"batch":%d,"expires":%d,"idle_heartbeat":%d}'):format(batch, patience.request * 1000000,
    patience.jobs_heartbeat * 1000000)
  self.engine:publish(names.pull(self.name), text, self.subject .. self.last)
end

---Asks for jobs, but not for a few while many are still to come.
---@param n integer how many jobs the worker runs at a time
---@param free integer how many more it could have
function Pulls:ask(n, free)
  local room = free - self.asked
  if room > 0 and (self.asked == 0 or room * 2 >= n) then send(self, room) end
end

-- Ignores the answers to all sent requests. `asked`: how many jobs may come nevertheless.
local function forget(self, asked) self.valid, self.asked = self.last + 1, asked end

---Forgets the sent requests: they may have been lost with the connection.
function Pulls:forget()
  forget(self, 0)
  self.opts.refill()
end

function Pulls:close() self.inbox:close() end

-- ---- refusals and silence ----

-- The server has refused a request or has not answered: the stream or its consumer may be missing.
local function look_for_stream(self)
  local ok, why = self.opts.repair()
  self.failures = ok and 0 or self.failures + 1
  if self.failures == PATIENCE then
    internal.report(("serve %s: no jobs for now: %s"):format(self.name, tostring(why)), nil, "serve " .. self.name)
  end
  sleep(patience.jobs_refused)
  self.looks = false
  if self.asked == HUGE then self.asked = 0 end
  self.opts.refill()
end

local function not_looked(self) self.looks = false end

local function refused_or_lost(self)
  forget(self, HUGE) -- asks for nothing until then
  if self.looks then return end
  self.looks = true
  guard.started(guard.go(not_looked, self, look_for_stream, self), "serve " .. self.name)
end

-- Whether the requests are lost: nothing comes, or the last one has not ended in time and was perhaps lost alone.
local function is_silent(self)
  local time = now()
  return self.asked > 0 and self.asked < HUGE
    and (time - self.heard_at > patience.jobs_silence
      or time - self.asked_at > patience.request + patience.jobs_silence)
end

---Asks again if the server has been silent too long. Call it every patience.jobs_heartbeat ms. Parks.
function Pulls:look_after()
  if not is_silent(self) then return end
  sleep(patience.catch_up)
  if is_silent(self) then refused_or_lost(self) end
end

-- ---- arrivals ----

-- The server's answer to a request. `left`: how many jobs it has not sent.
local function on_status(self, status, number, left)
  if status == "503" then -- there is no consumer for requests
    if self.asked > 0 and self.asked < HUGE then refused_or_lost(self) end
  elseif number >= self.valid then
    self.heard_at = now()
    if status == "408" then
      -- If the last request has ended, so have all, even lost ones.
      self.asked = number == self.last and 0 or math.max(self.asked - left, 0)
      self.opts.refill()
    elseif status ~= "100" then
      refused_or_lost(self)
    end
  end
end

local function receive(self, data, reply, age, subject, status, left)
  if age then
    if self.asked > 0 then self.asked = self.asked - 1 end
    self.heard_at = now()
    self.opts.deliver(data, reply, age)
  elseif status then
    on_status(self, status, tonumber(subject:sub(#self.subject + 1)) or 0, tonumber(left) or 0)
  end
end

---@param engine runnel.Engine
---@param name string of the stage
---@param opts runnel.PullOptions
---@return runnel.Pulls
function pull.new(engine, name, opts)
  local self = setmetatable({
    name = name, engine = engine, opts = opts, subject = opts.base .. ".p.", asked = 0, last = 0, valid = 1,
    asked_at = 0, heard_at = 0, looks = false, failures = 0,
  }, Pulls)
  self.inbox = engine:subscribe(self.subject .. "*", function(...) receive(self, ...) end)
  return self
end

return pull
