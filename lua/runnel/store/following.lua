---Channels that a go block fills from the file until they are closed: sources without a name, and watches of buckets.

local core = require "runnel.core"
local guard = require "runnel.internal.guard"
local looking = require "runnel.store.looking"

local internal = core.internal

local following = {}

-- How often it looks for what other processes have stored, in ms.
local LOOKS_AGAIN <const> = 100

-- Called when the go block has died.
local function died(out, reason, block)
  internal.excuse(block, reason)
  guard.close(out, reason)
end

---Starts to fill a channel. `self` is added to the readers of the store until the channel is closed.
---@param self { store: runnel.store.Store, bell?: runnel.Channel<boolean>, hear?: fun() }
---@param reads string what it reads, as for store:ring
---@param what string the function that the program has called
---@param out runnel.Channel<any>
---@param f fun(self: table, out: runnel.Channel<any>, ...: any) fills the channel; calls `following.wait`
function following.start(self, reads, what, out, f, ...)
  local store, bell = self.store, core.chan(core.sliding_buffer(1))
  self.bell = bell
  function self.hear() bell:put(true) end
  self.looking = looking.new(store, bell)
  store:add_reader(reads, self)
  internal.on_close(out, function()
    store:forget_reader(self)
    self.looking:close()
    self.hear()
  end)
  guard.started(guard.go(died, out, f, self, out, ...), what)
end

---Waits until there may be something new, or the channel is closed.
---@param self { looking: runnel.store.Looking }
function following.wait(self) self.looking:wait(LOOKS_AGAIN) end

return following
