---Workers and stages of a connection or a store: its method `drain` and SIGTERM let them finish their running calls.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local term = require "runnel.internal.sigterm"

local draining = {}

---Adds a worker or a stage.
---@param owner runnel.nats.Connection|runnel.store.Store
---@param drain fun(ms?: number) ends it; waits until its calls have ended, for at most `ms`
---@param ended runnel.Channel<any> closes when it has ended
---@param on_term boolean whether SIGTERM drains it, too
function draining.add(owner, drain, ended, on_term)
  local remove = owner:on_drain(drain)
  local forget = on_term and term.add(drain) or guard.nothing
  core.internal.on_close(ended, function()
    remove()
    forget()
  end)
end

return draining
