---The errors of a deadlock and of a leak: the waits that never end, what to do about them, and the waiting go blocks.

local core = require "runnel.core"
local deadlock = require "runnel.internal.errors.deadlock"
local entries = require "runnel.internal.entries"

local LISTED = 16 -- go blocks that an error lists

local reports = {}

---@param waiting? table what waits outside any go block: `operation`, `channel`, `channels` and `loops`
---@param what string the function that was called there
---@param is_stuck boolean threads that could complete it wait for ever, too
---@return string
function reports.deadlock(waiting, what, is_stuck)
  local list = core.internal.waits()
  local no_blocks = #list == 0 and "; there are no go blocks" or ""
  local threads = is_stuck and "; the threads that could complete it wait for ever, too" or ""
  local explanation = deadlock.explain(list, waiting)
  local holder = waiting and waiting.holder and entries.holder(waiting) .. "," or ""
  return ("deadlock: %s%s%s would wait for ever: no go block is ready, no timer is pending, and the driver expects "
    .. "no event%s%s%s%s"):format(what, waiting and entries.on(entries.channels(waiting)) or "", holder, threads,
    no_blocks, explanation, #list > 0 and "\nparked go blocks:" .. entries.lines(list, LISTED) or "")
end

---@param rests boolean the go blocks that are left wait for ever, else they go on for ever, perhaps as timers
---@return string? text nil if the program has started none of them
function reports.leak(rests)
  local own, of_library, timers = {}, {}, rests and {} or core.timers()
  for _, entry in ipairs(core.internal.waits()) do
    if not entry.is_callback then table.insert(entry.is_library and of_library or own, entry) end
  end
  if #own + #timers == 0 then return nil end
  local blocks = #own == 1 and "1 go block " .. (rests and "waits" or "goes on")
    or #own .. " go blocks " .. (rests and "wait" or "go on")
  if #own == 0 then
    blocks = #timers == 1 and ("the timer of %s goes on"):format(timers[1].name) or #timers .. " timers go on"
  end
  return ("leak: %s for ever%s%s%s"):format(blocks, entries.lines(own, LISTED),
    #timers > 0 and (#own > 0 and "\ntimers:" or "") .. entries.timers(timers, LISTED) or "",
    #of_library > 0 and "\ngo blocks of the library:" .. entries.lines(of_library, LISTED) or "")
end

---@param steps integer how many steps a simulation has done without a wait for time
---@return string
function reports.livelock(steps)
  local list = {}
  for _, entry in ipairs(core.internal.waits()) do
    if entry.state == "ready" then table.insert(list, entry) end
  end
  return ("livelock: a go block was ready at each of %d steps, so none waits for a time%s"):format(steps,
    #list > 0 and "\ngo blocks that go on for ever:" .. entries.lines(list, LISTED) or "")
end

core.internal.reports(reports)
