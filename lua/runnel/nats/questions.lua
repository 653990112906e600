---Asks submitters whether a redelivered job may start.

local core = require "runnel.core"
local patience = require "runnel.nats.patience"
local wire = require "runnel.nats.wire"

local chan, alts = core.chan, core.alts

-- How often a question is asked.
local TIMES <const> = 5

---@class runnel.Questions
---@field private engine runnel.Engine
---@field private base string the subject below which the answers come
---@field private count integer questions so far
---@field private is_closed boolean
local Questions = {}
Questions.__index = Questions

-- The answer of a submitter, or of the server if the submitter is gone. (If it has only lost its connection, it sends
-- the job again.)
local function receive(answer, data, status)
  if status then
    if status == "503" then answer:offer "done" end
    return
  end
  local words = wire.parse(data)
  if words then answer:offer(words[3]) end
end

---Asks the submitter whether a job may start. Returns its answer: "run", "alone" or "done"; or nil if there is none.
---Each question has its own subscription, since the server's answer for a gone submitter does not name the question.
---@param job runnel.JobMessage
---@param ack string the subject for the acknowledgement of the delivery
---@param label string identifies the worker
---@param is_alone boolean the worker runs nothing else
---@param again "again"|"perhaps" whether it was delivered before
---@return string? answer
function Questions:ask(job, ack, label, is_alone, again)
  self.count = self.count + 1
  local subject = ("%s.a.%d"):format(self.base, self.count)
  local answer = chan(1)
  local inbox = self.engine:subscribe(subject, function(data, _, _, _, status) receive(answer, data, status) end)
  local _ <close> = setmetatable({}, { __close = function() inbox:close() end })
  local question = wire.line(subject, "may-start", job.number, ack, label, is_alone and "alone" or "beside",
    again)
  for _ = 1, TIMES do
    self.engine:publish(job.reply, question, subject)
    local text, port = alts { answer, core.timeout(patience.question_again) }
    if port == answer then return text end
    if self.is_closed then break end
  end
end

function Questions:close() self.is_closed = true end

local questions = {}

---@param engine runnel.Engine
---@param base string the subject below which the answers come
---@return runnel.Questions
function questions.new(engine, base)
  return setmetatable({ engine = engine, base = base, count = 0, is_closed = false }, Questions)
end

return questions
