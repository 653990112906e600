---The waiting times of runnel.nats, all in ms: until it asks, sends, checks or reports again, and until it gives up.
---The defaults of user options are with their options.
---
---Specs shorten the first group by `scale`.

-- Until something is done again, or reported. A shorter time costs messages, and nothing else.
local waits = {
  -- A submitter of remote jobs (upkeep.lua). A job without a result is sent again after job_again, since it may be
  -- lost: for example, a server of a cluster that is stopped loses what is on its way to the streams that it leads. If
  -- the stream has had the job before, the next time is job_stored later, then twice that, and so on up to job_most;
  -- without an answer, it is after job_unanswered: for example, the stream has had no leader yet.
  job_again = 750, job_stored = 4250, job_most = 40000, job_unanswered = 500,
  jobs_look = 100,         -- between two looks for jobs to be sent again
  jobs_question = 10000,   -- at most, from an answer of the stream about all jobs to the next such question
  jobs_idle = 5000,        -- until it reports why a job has no worker, and checks again
  stream_again = 1000,     -- until what could not be sent, made or asked is tried again

  -- A worker of jobs (submitters.lua).
  submitter_again = 2000,  -- until it is asked again whether a submitter is gone
  submitter_soon = 100,    -- the same at a job that was sent or delivered again
  submitter_old = 60000,   -- until an unused submitter is forgotten, if there are many

  -- A reader of a stream (reader.lua). The server sends a heartbeat for a request every reader_heartbeat. If nothing
  -- comes for reader_silence, the requests are lost, and perhaps the stream is gone: a server of a cluster that is
  -- stopped does not say that it forgets them, and until the reader asks again, it gets no messages.
  reader_heartbeat = 400, reader_silence = 1000,
  reader_refused = 100,    -- after the server has refused a request for messages
  reader_idle = 3000,      -- without a message, until the reader asks the stream whether it has one
  silence_told = 5000,     -- of silence, until it is reported
  rest_looks = 400,        -- without a message, until the stream is asked whether it has more (outlet.lua)
  consumer_back = 10000,   -- for another process to make a consumer anew, until it counts as deleted by an operator

  tidying_first = 1000, tidying_most = 60000, -- until finished messages are removed: at first, then twice that, at most

  -- JetStream (jetstream.lua).
  ask_first = 250,         -- for the answer to a question that changes nothing; then twice that, and so on up to `ask`
  ask_again = 50,          -- until a question is asked, or a value stored, again after an answer that may pass
  store_first = 1000,      -- for the answer to the first try to store a value; twice that for the second, and so on
}

-- Until something is given up, or forgotten. A shorter time makes errors on a slow machine.
local limits = {
  -- The servers of a cluster wait for 4 to 9 s before they elect a new leader, and do not answer meanwhile.
  answer = 20000,          -- for JetStream to answer a request
  ask = 2000,              -- of this, for one answer
  ask_list = 8000,         -- for a list, asked again: a server waits for 4 s for what has no leader, and lists the rest
  ask_once = 5000,         -- for the answer to a request that must not be repeated
  store_most = 8000,       -- for the answer to a try to store a value
  consumer_answer = 2000,  -- for a consumer to answer a request for a message
  rate_answer = 5000,      -- for the server to answer whether a call may begin (rate.lua)
  submitter_silent = 3000, -- for a submitter to answer a worker, before its job is not run again
  look = 2000,             -- for the server to say whether a consumer is there
  workers_answer = 500,    -- for programs to report workers (queues.lua); one that computes for longer is missing
  letter = 10000,          -- to store a dead letter
  kv_write = 30000,        -- to write into a bucket
  drain = 2000,            -- for messages that are on their way when a source is closed
  request = 30000,         -- until a request for messages or jobs ends at the server
  unused = 60000,          -- until the server deletes an unused consumer without a name
  acks_kept = 2000,        -- that acknowledgements are remembered at least while the server is there
  catch_up = 100,          -- to take what has arrived while Lua computed, before the server is said to be silent
  -- Beyond reconnect_wait: beats are sent up to 100 ms after a reconnect, and libnats adds up to 100 ms to it.
  settle = 300,
}

local of_workers = require "runnel.queue.patience"

---@class runnel.nats.internal.patience
---@field [string] number
local patience = {}

for name, ms in pairs(limits) do patience[name] = ms end

---For specs: makes all waits shorter from now on, also those of workers (runnel.queue.patience), and leaves the limits.
---The servers get the new times, too.
---@param factor number 1 for the usual times
function patience.scale(factor)
  for name, ms in pairs(waits) do patience[name] = math.ceil(ms * factor) end
  of_workers.scale(factor)
end

patience.scale(1)

return patience
