---What the thread of a SQLite database does, in a simulation, which has no threads. A go block does it later, so that
---others may run before a statement does, as in reality: a search tries when.

local core = require "runnel.core"
local current = require "runnel.internal.world"
local guard = require "runnel.internal.guard"

-- Database of the C module, in memory -> who waits for changes, while a statement that may write has not run.
local writes = setmetatable({}, { __mode = "k" })

local choose, note = core.internal.explore.choose, core.internal.explore.note

local thread = {}

---Tells those who wait for changes of a database.
---@param listeners runnel.Channel<boolean>[]
function thread.tell(listeners)
  for _, bell in ipairs(listeners) do bell:offer(true) end
end

---A statement that may write was asked for, of a database in memory.
---@param handle any
---@param listeners runnel.Channel<boolean>[]
function thread.will_write(handle, listeners) writes[handle] = listeners end

-- Whether all jobs that wait run now, and are committed together, or only the first one.
local function takes_all(handle)
  if handle:waiting() < 2 then return true end
  if current.notes then note(0) end -- the story shows what follows from it
  return choose(2) == 1
end

local function work(handle, disk)
  current.awake[handle] = nil
  if disk and not disk:lives() then return end
  if disk then disk:meet_others() end
  handle:work(takes_all(handle))
  if disk then disk:tell_changes() end
  if writes[handle] then thread.tell(writes[handle]) end
  writes[handle] = nil
  thread.look(handle, disk)
  if disk then disk:settle() end
end

---The thread will have work to do.
---@param handle any the database of the C module
---@param disk? runnel.sim.Connection of a database on a simulated host
function thread.wake(handle, disk)
  local awake = current.awake
  if awake[handle] then return end
  if disk then disk.world:on_disk(disk.host, work, handle, disk) else guard.go(guard.nothing, nil, work, handle) end
  awake[handle] = true -- after what may raise
end

---The thread may have work to do.
---@param handle any
---@param disk? runnel.sim.Connection
function thread.look(handle, disk)
  if handle:waiting() > 0 then thread.wake(handle, disk) end
end

return thread
