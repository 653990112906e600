---Waits for what is new in the file of a store: a bell of this process, or what others have stored, for which it looks
---again and again. In a simulation, it looks again only after something has changed, so that days of virtual time pass
---at once.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"

local alts, chan, timeout = core.alts, core.chan, core.timeout

local looking = {}

---@class runnel.store.Looking
---@field private bell runnel.Channel<boolean>
---@field private change runnel.Channel<boolean>
---@field private forget? fun() nil: this is no simulation
local Looking = {}
Looking.__index = Looking

---@param store runnel.store.Store
---@param bell runnel.Channel<boolean> of this process
---@return runnel.store.Looking
function looking.new(store, bell)
  local self = setmetatable({ bell = bell, change = chan(core.sliding_buffer(1)) }, Looking)
  self.forget = store.db:listen(self.change)
  return self
end

---Waits until the bell rings, until there may be something new, or until `left` ms have passed.
---@param ms number how often it looks again
---@param left? number nothing is due before; default: never
---@return runnel.Channel<any>? port the bell, if it has rung
function Looking:wait(ms, left)
  if not self.forget then
    local _, port = alts({ self.bell, timeout(math.min(ms, left or ms)) }, { priority = true })
    return port
  end
  local alarm <close> = guard.alarm(left)
  local _, port = alts({ self.bell, self.change, alarm.over }, { priority = true })
  if port ~= self.change then return port end
  _, port = alts({ self.bell, alarm.over, timeout(ms) }, { priority = true })
  return port
end

function Looking:close()
  if self.forget then self.forget() end
end

Looking.__close = Looking.close

return looking
