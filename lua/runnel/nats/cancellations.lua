---Cancellations of jobs that a worker (runnel.nats.serve) does not have: one may arrive before its job, which then must
---not run.

-- It remembers between LIMIT and 2 * LIMIT.
local LIMIT <const> = 1000

---@class runnel.Cancellations
---@field private latest table<string, boolean> by what identifies the job
---@field private older table<string, boolean>
---@field private count integer how many `latest` has
---@field is_empty boolean
local Cancellations = {}
Cancellations.__index = Cancellations

local function id_of(reply, number) return reply .. " " .. number end

---@param reply string the subject of the job's submitter
---@param number string of the job
function Cancellations:add(reply, number)
  if self.count == LIMIT then self.latest, self.older, self.count = {}, self.latest, 0 end
  self.latest[id_of(reply, number)], self.count, self.is_empty = true, self.count + 1, false
end

---@param job runnel.JobMessage
---@return boolean
function Cancellations:has(job)
  local id = id_of(job.reply, job.number)
  return (self.latest[id] or self.older[id]) == true
end

local cancellations = {}

---@return runnel.Cancellations
function cancellations.new()
  return setmetatable({ latest = {}, older = {}, count = 0, is_empty = true }, Cancellations)
end

return cancellations
