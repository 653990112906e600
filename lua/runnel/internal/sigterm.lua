---Handlers for SIGTERM in this Lua state: they end flows, workers and stages in good order. Other states of the process
---have their own.

local core = require "runnel.core"
local world = require "runnel.internal.sim.current"
local internal = core.internal

local term = {}

-- nil without handlers. `members`: the functions; `watch`: the core's watch; `has_come`: the signal has arrived.
local current

local function drain(f) internal.started(core.go(f), "SIGTERM") end

-- Watches for the signal; nil if the program handles it itself.
local function begin()
  local one, ch = { members = {}, watch = nil, has_come = false }, internal.trace.hide(core.chan())
  internal.on_close(ch, function()
    one.has_come = true
    for f in pairs(one.members) do drain(f) end
  end)
  one.watch = internal.on_term(ch)
  return one.watch and one
end

-- The same on a host of a simulated world.
local function add_on_host(f)
  local signal = world.luv.new_signal()
  signal:start("sigterm", function()
    signal:close()
    drain(f)
  end)
  return function()
    if not signal:is_closing() then signal:close() end
  end
end

---Makes the first SIGTERM call a function in a go block instead of ending the program; at once if the signal has
---already arrived. Does nothing if the program handles the signal itself.
---@param f fun() a function of its own for each call of `add`
---@return fun() remove removes the handler
function term.add(f)
  if world.world then return add_on_host(f) end
  if internal.is_simulation() then return function() end end -- no signal of the real process comes there
  current = current or begin()
  local one = current
  if not one then return function() end end
  one.members[f] = true
  if one.has_come then drain(f) end
  return function()
    one.members[f] = nil
    if one ~= current or next(one.members) then return end
    internal.off_term(one.watch)
    current = nil
  end
end

return term
