---Detects submitters that have gone, for a worker of jobs (runnel.nats.internal.serve): their jobs must not run. A
---worker probes a submitter at its first job, and now and then while more jobs come. The server answers at once if the
---subject has no subscription; otherwise the submitter answers. If neither does for a while, it counts as gone, too:
---the server does not know yet that its network is cut, or another program subscribes to all subjects. One that was
---only silent sends its jobs again later.

local core = require "runnel.core"
local patience = require "runnel.nats.internal.patience"

local now = core.now

-- With more submitters than this, old ones are forgotten.
local MANY <const> = 100

---A submitter.
---@class runnel.Submitter
---@field looked_at number when it was probed last
---@field is_gone boolean
---@field asked_at? number when it got the first probe that it has not answered; nil: it has answered all
---@field inbox? runnel.Channel<any> of the subscription to the answer

---@class runnel.Submitters
---@field private conn runnel.nats.Connection
---@field private base string the subject below which the answers come
---@field private known table<string, runnel.Submitter> by the subject where it gets results
---@field private count integer how many there have been
---@field private remove_listener fun()
local Submitters = {}
Submitters.__index = Submitters

-- Forgets a submitter.
local function forget(self, reply)
  local submitter = self.known[reply]
  self.known[reply] = nil
  if submitter and submitter.inbox then submitter.inbox:close() end
end

-- Forgets those without a recent job.
local function clean(self, time)
  local count = 0
  for _ in pairs(self.known) do count = count + 1 end
  if count <= MANY then return end
  for reply, submitter in pairs(self.known) do
    if time - submitter.looked_at > patience.submitter_old then forget(self, reply) end
  end
end

-- Each submitter has a subscription of its own, since the server's answer does not name it.
local function new_submitter(self, time)
  clean(self, time)
  self.count = self.count + 1
  local submitter = { is_gone = false, subject = self.base .. ".g." .. self.count }
  submitter.inbox = self.conn:subscribe(submitter.subject, nil, function(_, _, _, _, status)
    submitter.is_gone, submitter.asked_at = status == "503", nil
  end)
  return submitter
end

---Whether the submitter of a job is known to be gone. Probes it if the last probe is old: sooner if the job comes
---again, since the submitter may have gone just now, or may be back.
---@param reply string where it gets results
---@param how? "sent again"|"delivered again"
---@param answers boolean whether it answers probes
---@return boolean
function Submitters:has_gone(reply, how, answers)
  local submitter, time = self.known[reply], now()
  if not submitter then
    submitter = new_submitter(self, time)
    self.known[reply] = submitter
  elseif time - submitter.looked_at < (how and patience.submitter_soon or patience.submitter_again) then
    return submitter.is_gone
  end
  local is_silent = answers and time - (submitter.asked_at or time) > patience.submitter_silent
  submitter.looked_at, submitter.is_gone = time, how == "delivered again" and (submitter.is_gone or is_silent)
  submitter.asked_at = submitter.asked_at or time
  self.conn.core:publish(reply, "{}", submitter.subject)
  return submitter.is_gone
end

---Whether it is known to be gone now.
---@param reply string
---@return boolean
function Submitters:is_gone(reply)
  local submitter = self.known[reply]
  return submitter ~= nil and submitter.is_gone
end

function Submitters:close()
  self.remove_listener()
  for reply in pairs(self.known) do forget(self, reply) end
end

local submitters = {}

---@param conn runnel.nats.Connection
---@return runnel.Submitters
function submitters.new(conn)
  local self = setmetatable({ conn = conn, base = conn:inbox(), known = {}, count = 0 }, Submitters)
  self.remove_listener = conn:on_event(function(event)
    if event.event ~= "reconnected" then return end
    for _, submitter in pairs(self.known) do submitter.asked_at = nil end -- the answers may be lost
  end)
  return self
end

return submitters
