---Detects gone submitters for a worker (runnel.nats.serve): their jobs must not run. A worker probes a submitter at its
---first job, and now and then while more jobs come: it sends a message that submitters ignore, and the server answers
---at once if the subject has no subscription.

local core = require "runnel.core"
local patience = require "runnel.nats.patience"

local now = core.now

-- With more submitters than this, old ones are forgotten.
local MANY <const> = 100

---A submitter.
---@class runnel.Submitter
---@field looked_at number when the worker has looked
---@field is_gone boolean
---@field inbox runnel.Channel<any> of the subscription to the answer

---@class runnel.Gone
---@field private engine runnel.Engine
---@field private base string the subject below which the answers come
---@field private found fun(reply: string) called when a submitter is found gone
---@field private known table<string, runnel.Submitter> by the subject where it gets results
---@field private count integer how often it has looked
local Gone = {}
Gone.__index = Gone

-- Forgets submitters without a recent job.
local function clean(self, time)
  local count = 0
  for _ in pairs(self.known) do count = count + 1 end
  if count <= MANY then return end
  for reply, submitter in pairs(self.known) do
    if time - submitter.looked_at > patience.submitter_old then self:forget(reply) end
  end
end

local function look(self, reply, time)
  self.count = self.count + 1
  self:forget(reply)
  clean(self, time)
  local subject = ("%s.g.%d"):format(self.base, self.count)
  local submitter = { looked_at = time, is_gone = false }
  self.known[reply] = submitter
  submitter.inbox = self.engine:subscribe(subject, function(_, _, _, _, status)
    if status ~= "503" or self.known[reply] ~= submitter then return end
    submitter.is_gone = true
    self.found(reply)
  end)
  self.engine:publish(reply, "{}", subject)
end

---Whether the submitter of a job is known to be gone. Probes it if the last probe is old.
---@param reply string where it gets results
---@return boolean
function Gone:has(reply)
  local submitter, time = self.known[reply], now()
  if submitter and time - submitter.looked_at < patience.submitter_again then return submitter.is_gone end
  look(self, reply, time)
  return false
end

---Forgets a submitter.
---@param reply string
function Gone:forget(reply)
  local submitter = self.known[reply]
  if not submitter then return end
  self.known[reply] = nil
  if submitter.inbox then submitter.inbox:close() end
end

function Gone:close()
  for reply in pairs(self.known) do self:forget(reply) end
end

local gone = {}

---@param engine runnel.Engine
---@param base string the subject below which the answers come
---@param found fun(reply: string) called when a submitter is found gone; must not park
---@return runnel.Gone
function gone.new(engine, base, found)
  return setmetatable({ engine = engine, base = base, found = found, known = {}, count = 0 }, Gone)
end

return gone
