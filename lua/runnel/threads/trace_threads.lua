---Recording threads. While a state records, each thread that it starts, directly or through other threads, records into
---a ring of its own. When the thread or the recording ends, the thread sends its records to the state that writes the
---file.

local core = require "runnel.core"
local parts = require "runnel.tracing.trace_parts"
local recorder = core.internal.trace

local threads = {}

-- How many threads' records are kept until the recording ends; the newest are kept.
local MOST = 64

-- How many ms the end of a recording waits for the records of threads: a thread that computes does not see the request.
local PATIENCE = 1000

---What the threads of a recording share.
---@class runnel.threads.trace_threads
---@field records integer the size of a ring
---@field parts runnel.Channel<table> what they have recorded
---@field started runnel.Channel<true> gets a value for each thread that was started
---@field stop runnel.Channel<any> closed when the recording ends

-- The recording itself is not recorded.
local function hide(self)
  for _, ch in pairs { self.parts, self.started, self.stop } do recorder.hide(ch) end
end

---@param records integer
---@return runnel.threads.trace_threads
function threads.new(records)
  local self = { records = records, parts = core.shared_chan(core.sliding_buffer(MOST)),
    started = core.shared_chan(core.sliding_buffer(1)), stop = core.shared_chan() }
  hide(self)
  return self
end

---Called by a thread when it begins: records it.
---@param self runnel.threads.trace_threads
---@param leave fun() called when the recording ends
function threads.join(self, leave)
  hide(self)
  recorder.hold("r", self.records)
  core.internal.on_close(self.stop, leave)
end

---Called by a thread when it or the recording ends: sends its records.
---@param self runnel.threads.trace_threads
function threads.leave(self)
  self.parts:offer(parts.pack())
  recorder.release "r"
end

---Ends the recording of all threads: returns their records, and how many threads are missing.
---@param self runnel.threads.trace_threads
---@return runnel.internal.trace_part[]
---@return integer missing
function threads.collect(self)
  self.stop:close()
  local waited = 0
  local function missing() return self.started:stats().put_total - self.parts:stats().put_total end
  while missing() > 0 and waited < PATIENCE do
    recorder.pause(1)
    waited = waited + 1
  end
  local list, absent = {}, math.max(missing(), 0)
  local sent = self.parts:stats().put_total
  for part in self.parts.poll, self.parts do
    list[#list + 1] = parts.unpack(part)
    part.began = select(2, part.read(part.first)) or part.now
  end
  table.sort(list, function(a, b) return a.began < b.began end)
  return list, absent + math.max(sent - #list, 0)
end

return threads
