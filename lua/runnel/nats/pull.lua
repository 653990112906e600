---Asks the stream of a remote stage for jobs, for a worker (runnel.nats.serve).
---
---A worker asks for as many jobs as it has room for. It has two requests, in turns, so that it can ask again before the
---jobs of one request have all come.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local names = require "runnel.nats.names"

local internal = core.internal
local now, sleep = core.now, core.sleep
local HUGE <const> = math.huge

local pull = {}

---How often the server sends something for a request, in ms.
pull.HEARTBEAT = 2000

-- A request for jobs ends after LASTS ms, and is repeated. If nothing comes for SILENCE ms, the request is lost, and
-- perhaps the stream is gone.
local LASTS <const>, SILENCE <const> = 30000, 5000

-- While Lua computes, the worker does not take what the server sends. Before it decides that the server is silent, it
-- gives itself CATCH_UP ms to take what has arrived.
local CATCH_UP <const> = 100

-- After this many failed attempts to make the stream, report it. A cluster that has lost a server needs some time.
local PATIENCE <const> = 3

-- How long to wait after the server has refused a request for jobs, in ms.
local AFTER_REFUSAL <const> = 500

---A request for jobs. Each has a subscription of its own, which shows to which request a job belongs.
---@class runnel.Request
---@field subject string what the subjects of its answers begin with
---@field inbox runnel.Channel<any> of the subscription
---@field asked integer jobs that may still come; math.huge while the server does not take requests
---@field times integer how often it was sent
---@field heard_at number when the server last sent something for it

---What the requests need of the worker.
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
---@field private looks boolean it looks for the stream, and does not ask meanwhile
---@field private failures integer failed attempts to make the stream, in a row
---@field private [integer] runnel.Request
local Pulls = {}
Pulls.__index = Pulls

-- ---- asking ----

local function send(self, request, batch)
  request.times, request.asked, request.heard_at = request.times + 1, batch, now()
  local text = ('{"batch":%d,"expires":%d,"idle_heartbeat":%d}'):format(batch, LASTS * 1000000,
    pull.HEARTBEAT * 1000000)
  self.engine:publish(names.pull(self.name), text, request.subject .. request.times)
end

---Asks for jobs: not for a few while others are still to come.
---@param n integer how many jobs the worker runs at a time
---@param free integer how many more it could have
function Pulls:ask(n, free)
  local first, second = self[1], self[2]
  local request = first.asked == 0 and first or second
  if request.asked > 0 then return end
  local others = first.asked + second.asked
  local room = free - others
  if room > 0 and (others == 0 or room * 2 >= n) then send(self, request, room) end
end

---Forgets the requests that were sent: they may have been lost with the connection.
function Pulls:forget()
  for _, request in ipairs(self) do request.asked = 0 end
  self.opts.refill()
end

function Pulls:close()
  for _, request in ipairs(self) do request.inbox:close() end
end

-- ---- refusals and silence ----

-- The server has refused a request, or has not answered: the stream or its consumer may be missing.
local function look_for_stream(self)
  local ok, why = self.opts.repair()
  self.failures = ok and 0 or self.failures + 1
  if self.failures == PATIENCE then
    internal.report(("serve %s: no jobs for now: %s"):format(self.name, tostring(why)), nil, "serve " .. self.name)
  end
  sleep(AFTER_REFUSAL)
  self.looks = false
  for _, request in ipairs(self) do
    if request.asked == HUGE then request.asked = 0 end
  end
  self.opts.refill()
end

local function not_looked(self) self.looks = false end

local function refused_or_lost(self, request)
  request.asked, request.heard_at = HUGE, HUGE -- asks for nothing until then
  if self.looks then return end
  self.looks = true
  guard.started(guard.go(not_looked, self, look_for_stream, self), "serve " .. self.name)
end

local function is_silent(request) return request.asked > 0 and now() - request.heard_at > SILENCE end

---Repeats requests for which the server has sent nothing for too long. To be called every HEARTBEAT ms. Parks.
function Pulls:look_after()
  for _, request in ipairs(self) do
    if is_silent(request) then
      sleep(CATCH_UP)
      if is_silent(request) then refused_or_lost(self, request) end
    end
  end
end

-- ---- what comes ----

-- The server's answer to a request.
local function on_status(self, request, status, subject)
  if status == "503" then -- nobody takes requests: there is no consumer
    if request.asked > 0 and request.asked < HUGE then refused_or_lost(self, request) end
  elseif subject == request.subject .. request.times then
    if status == "100" then
      request.heard_at = now()
    elseif status == "408" then
      request.asked = 0
      self.opts.refill()
    else
      refused_or_lost(self, request)
    end
  end
end

local function receive(self, request, data, reply, age, subject, status)
  if age then
    if request.asked > 0 then request.asked = request.asked - 1 end
    if request.heard_at < HUGE then request.heard_at = now() end
    self.opts.deliver(data, reply, age)
  elseif status then
    on_status(self, request, status, subject)
  end
end

---@param engine runnel.Engine
---@param name string of the stage
---@param opts runnel.PullOptions
---@return runnel.Pulls
function pull.new(engine, name, opts)
  local self = setmetatable({ name = name, engine = engine, opts = opts, looks = false, failures = 0 }, Pulls)
  for i = 1, 2 do
    local request = { subject = ("%s.p%d."):format(opts.base, i), asked = 0, times = 0, heard_at = 0 }
    request.inbox = engine:subscribe(request.subject .. "*", function(...) receive(self, request, ...) end)
    self[i] = request
  end
  return self
end

return pull
