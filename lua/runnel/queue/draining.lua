---Workers and stages of a connection or a store: its method `drain` and SIGTERM let them finish their running calls.

local core = require "runnel.core"
local term = require "runnel.internal.sigterm"

local draining = {}

---Adds a worker or a stage.
---@param owner? runnel.nats.Connection|runnel.store.Store
---@param worker runnel.Worker
---@param on_term boolean whether SIGTERM drains it, too
function draining.add(owner, worker, on_term)
  local ended = worker:done()
  local remove = owner and owner:on_drain(function(ms) worker:drain(ms) end)
  local forget = on_term and term.add(worker, worker.kind, {
    order = term.WORKERS, name = worker.name, drain = worker.drain, done = ended,
  })
  core.internal.on_close(ended, function()
    if remove then remove() end
    if forget then forget() end
  end)
end

return draining
