---Starts the worker of conn:serve or conn:stage, on a consumer of a stream.

local counts = require "runnel.nats.internal.counts"
local keeper = require "runnel.nats.internal.keeper"
local rate = require "runnel.nats.internal.rate"
local who = require "runnel.nats.internal.who"
local worker = require "runnel.queue.worker"

---@class runnel.nats.WorkerParts
---@field keeper runnel.nats.KeeperOptions without the connection and the counts
---@field kind "worker"|"stage"
---@field name string of the remote or the durable stage
---@field n integer how many calls may run at a time
---@field stream table what the server says about the stream of the messages
---@field bucket string the bucket with the counts of starts
---@field prefix? string for the counts (runnel.nats.internal.counts)
---@field task runnel.queue.Task
---@field options runnel.queue.Options

local start_worker = {}

---@param conn runnel.nats.Connection
---@param parts runnel.nats.WorkerParts
---@return runnel.Worker? worker, string? err
function start_worker.start(conn, parts)
  local options = parts.options
  local starts_of, limiter = counts.new(conn, parts.bucket, parts.stream, parts.prefix), nil
  local ok, err = starts_of:open()
  if not ok then return nil, err end
  if options.rate then
    limiter, err = rate.open(conn, parts.name, options.rate)
    if not limiter then return nil, "rate: " .. err end
  end
  local of = keeper.new(parts.keeper)
  of.conn, of.starts_of = conn, starts_of
  local self, problem = worker.start {
    kind = parts.kind, n = parts.n, keeper = of, task = parts.task, timeout = options.timeout, rate = limiter,
    is_paused = who.is_paused(of.info.config),
  }
  if not self then return nil, problem end
  of:watch(self, options.drains)
  return self
end

return start_worker
