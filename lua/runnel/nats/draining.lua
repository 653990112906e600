---What ends in good order on conn:drain, and on SIGTERM: workers and stages, which finish the calls that run.

local core = require "runnel.core"
local lib = require "runnel.nats.core"

local internal = core.internal

local draining = {}

-- What SIGTERM drains in this Lua state: `members`, a function for each; `channel`, on which the signal comes; `watch`,
-- the C module's; `has_come`, whether there was a signal. Other states of the process have their own.
local term = {}

local function drain_all(channel)
  if not channel:take() then return end
  term.has_come = true
  for drain in pairs(term.members) do core.go(drain) end
end

-- Watches for SIGTERM from the first member on; not if the program handles the signal itself.
local function watch()
  if term.watch then return true end
  term.channel, term.members, term.has_come = core.chan(1), {}, false
  term.watch = lib.on_term(term.channel)
  if not term.watch then return false end
  internal.started(core.go(drain_all, term.channel), "SIGTERM")
  return true
end

local function forget(drain)
  term.members[drain] = nil
  if next(term.members) then return end
  lib.off_term(term.watch)
  term.channel:close()
  term.watch = nil
end

---Adds a worker or a stage.
---@param conn runnel.nats.Connection
---@param drain fun(ms?: number) ends it; waits until its calls have ended, for at most `ms`
---@param ended runnel.Channel<any> closes when it has ended
---@param on_term boolean whether SIGTERM drains it, too
function draining.add(conn, drain, ended, on_term)
  local remove = conn:on_drain(drain)
  local is_watched = on_term and watch()
  if is_watched then
    term.members[drain] = true
    if term.has_come then core.go(drain) end
  end
  internal.on_close(ended, function()
    remove()
    if is_watched then forget(drain) end
  end)
end

return draining
