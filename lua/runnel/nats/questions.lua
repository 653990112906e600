---A worker's questions to submitters: whether a job may start that was delivered before.

local core = require "runnel.core"
local wire = require "runnel.nats.wire"

local chan, alts = core.chan, core.alts

-- A question is repeated after AGAIN ms, TIMES times.
local AGAIN <const>, TIMES <const> = 1000, 5

---@class runnel.Questions
---@field private engine runnel.Engine
---@field private base string the subject below which the answers come
---@field private count integer questions so far
---@field private waiting table<string, runnel.Channel<string>> where an answer goes, by its subject
---@field private inbox runnel.Channel<any> of the subscription to answers
---@field private is_closed boolean
local Questions = {}
Questions.__index = Questions

---Asks the submitter whether a job may start. Returns its answer: "run", "alone" or "done"; or nil if there is none.
---@param job runnel.JobMessage
---@param ack string the subject for the acknowledgement of the delivery
---@return string? answer
function Questions:ask(job, ack)
  for _ = 1, TIMES do
    self.count = self.count + 1
    local subject = ("%s.a.%d"):format(self.base, self.count)
    local answer = chan(1)
    self.waiting[subject] = answer
    self.engine:publish(job.reply, wire.line(subject, "may-start", job.number, ack), subject)
    local text, port = alts { answer, core.timeout(AGAIN) }
    self.waiting[subject] = nil
    if port == answer then return text end
    if self.is_closed then break end
  end
end

-- A submitter's answer, or the server's that it is gone. Questions are asked one at a time.
local function receive(self, data, subject, status)
  if status then
    -- The submitter has ended. If it has only lost its connection, it sends the job again later.
    for _, answer in pairs(status == "503" and self.waiting or {}) do answer:offer "done" end
    return
  end
  local answer, words = self.waiting[subject], wire.parse(data)
  if answer and words then answer:offer(words[3]) end
end

function Questions:close()
  self.is_closed = true
  self.inbox:close()
end

local questions = {}

---@param engine runnel.Engine
---@param base string the subject below which the answers come
---@return runnel.Questions
function questions.new(engine, base)
  local self = setmetatable({ engine = engine, base = base, count = 0, waiting = {}, is_closed = false }, Questions)
  self.inbox = engine:subscribe(base .. ".a.*", function(data, _, _, ...) receive(self, data, ...) end)
  return self
end

return questions
