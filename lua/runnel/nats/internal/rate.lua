---The option `rate` of workers and stages: how many calls all processes of a stage together may start in a time.
---
---The server counts, by its own clock: each start stores a message in a small stream in memory, which refuses messages
---while it is full, and drops them when the time is over.

local core = require "runnel.core"
local jetstream = require "runnel.nats.internal.jetstream"
local patience = require "runnel.nats.internal.patience"

local rate = {}

---@class runnel.Rate
---@field private conn runnel.nats.Connection
---@field private name string of the stage
---@field private ms number
---@field private count integer
---@field private config table of the stream
local Rate = {}
Rate.__index = Rate


---Waits until a call may start.
function Rate:wait()
  while true do
    local sequence, err, code = jetstream.store(self.conn, self.config.subjects[1], "", {
      timeout = patience.rate_answer, encoding = "raw", stream = self.config.name,
    })
    if sequence then return end
    if self.conn.has_ended then error(err, 0) end
    if code == jetstream.FULL then
      core.sleep(math.max(1, math.min(self.ms / self.count, 100)))
    else
      self:ensure()
    end
  end
end

---Makes the stream if it is missing, and sets its limits if they have changed.
---@return boolean? ok, string? err
function Rate:ensure()
  local config = self.config
  local info, err = jetstream.ensure(self.conn, "STREAM.INFO." .. config.name, "STREAM.CREATE." .. config.name, config)
  if not info then return nil, err end
  if jetstream.difference({ max_msgs = config.max_msgs, max_age = config.max_age }, info.config) then
    local answer, why = jetstream.request(self.conn, "STREAM.UPDATE." .. config.name, config)
    if not answer then return nil, why end
  end
  return true
end

---@param conn runnel.nats.Connection
---@param name string of the stage
---@param limits { [1]: integer, [2]: number } calls, ms
---@return runnel.Rate? rate, string? err
function rate.open(conn, name, limits)
  local stream = "runnel-rate-" .. name
  local self = setmetatable({
    conn = conn, name = name, count = limits[1], ms = limits[2],
    config = {
      name = stream, subjects = { "runnel.rate." .. name }, storage = "memory", retention = "limits", num_replicas = 1,
      discard = "new", max_msgs = limits[1], max_age = jetstream.ns(limits[2]),
      duplicate_window = jetstream.ns(math.min(limits[2], 120000)),
    },
  }, Rate)
  local ok, err = self:ensure()
  if not ok then return nil, err end
  return self
end

return rate
