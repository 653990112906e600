---The host's messages about go blocks: at the end of a script, after Ctrl-C, and after SIGQUIT.

local core = require "runnel.core"
local entries = require "runnel.internal.entries"
local inspect = require "runnel.host.inspect"
local living = require "runnel.internal.living"
local short = require "runnel.internal.short"

-- How many go blocks are listed: after Ctrl-C and SIGQUIT, and at the end of a script.
local LISTED, LISTED_UNASKED = 16, 5

---@class runnel.host.blocks
local blocks = {}

-- The handles that luv's loop waits for: a line for each call of runnel.uv, as in `uv.watch "in" (made at job.lua:3)`,
-- and for each kind of handles that the program has made itself.
local function handles()
  local uv, named = package.loaded.luv, package.loaded["runnel.uv.loop"]
  if not uv then return "" end
  local counts, texts = {}, {}
  uv.walk(function(handle)
    if handle:is_closing() or not handle:is_active() or not handle:has_ref() then return end
    local text = named and named.purpose(handle)
    if text == false then return end
    text = text or "a handle of luv: " .. (tostring(handle):match "^uv_([%w_]+)_t" or "of an unknown kind")
    if not counts[text] then texts[#texts + 1] = text end
    counts[text] = (counts[text] or 0) + 1
  end)
  local lines = {}
  for i, text in ipairs(texts) do
    lines[i] = counts[text] > 1 and ("%s (%d handles)"):format(text, counts[text]) or text
  end
  return #lines > 0 and ":" .. short.lines(lines, LISTED) or ": a request of luv is under way"
end

-- Why no deadlock is reported, although go blocks may wait forever; nil if nothing prevents it.
local function why_no_deadlock(world)
  if world.ready and world.ready > 0 then return ("%d go blocks are ready"):format(world.ready) end
  local reasons = {}
  if world.due then reasons[1] = "a timer is due in " .. short.duration(world.due) end
  if world.ports then reasons[#reasons + 1] = "a port is open" end
  if world.shared then reasons[#reasons + 1] = "another state has a channel on which an operation waits" end
  if world.driver then
    reasons[#reasons + 1] = "the driver may still have events" .. handles()
  end
  return #reasons > 0 and table.concat(reasons, "; ") or nil
end

---The go blocks and the timers, and why no deadlock is reported: for Ctrl-C, after the traceback.
---@return string text
function blocks.all()
  local list = core.ps()
  local why, timers = why_no_deadlock(inspect.world()), core.timers()
  return (#list > 0 and "\ngo blocks:" .. entries.lines(list, LISTED, true) or "")
    .. (#timers > 0 and "\ntimers:" .. entries.timers(timers, LISTED) or "")
    .. (why and "\nno deadlock: " .. why or "")
end

---The message of SIGQUIT: the go blocks, the timers, the channels on which they and the main program wait, and why no
---deadlock is reported.
---@return string text
function blocks.report()
  local world, list = inspect.world(), core.ps()
  local lines, seen, chs = {}, {}, {}
  if world.main then lines[1] = "the main program waits: " .. world.main .. entries.on(world.channels) end
  lines[#lines + 1] = (#list == 0 and "there are no go blocks" or "go blocks:") .. entries.lines(list, math.huge, true)
  local timers = core.timers()
  if #timers > 0 then lines[#lines + 1] = "timers:" .. entries.timers(timers, LISTED) end
  local function collect(channels)
    for _, ch in ipairs(channels) do
      if not seen[ch] then seen[ch], chs[#chs + 1] = true, ch end
    end
  end
  collect(world.channels or {})
  for _, entry in ipairs(list) do collect(entries.channels(entry)) end
  if #chs > 0 then lines[#lines + 1] = "channels on which operations wait:" end
  for _, ch in ipairs(chs) do
    local ok, text = pcall(tostring, ch) -- a policy of the user's may be running
    lines[#lines + 1] = "  " .. (ok and text or "a channel: " .. tostring(text))
  end
  local why = why_no_deadlock(world)
  if why then lines[#lines + 1] = "no deadlock: " .. why end
  return table.concat(lines, "\n") .. "\n"
end

-- Whether it is a port's go block that waits for messages, or has one for a closed channel. Such a port does not keep
-- the program running, and its owner, such as a connection, need not be closed before the end.
local function is_idle_port(entry)
  if not entry.name:find "^a port to " then return false end
  return entry.operation == "take" or entry.channel ~= nil and entry.channel:closed()
end

-- Whether it stands for a thread of a pool without calls, which waits for the next one, or ends. A pool does not keep
-- the program running, and need not be closed before the end. The threads of rn.thread have names of another form.
local function is_idle_thread(entry, busy)
  return entry.thread and not entry.name:find "^thread " and not busy[entry.result]
end

-- Whether a go block waits for a signal, perhaps among other things.
local function waits_for_signal(entry)
  local signals = package.loaded["runnel.uv.signals"]
  if not signals then return false end
  for _, ch in ipairs(entries.channels(entry)) do
    if signals.is_caught(ch) then return true end
  end
  return false
end

-- The go blocks that wait although no event can arrive, without those that may; and whether the library has started all
-- of them.
local function parked()
  local list, are_library = {}, true
  local busy = living.busy_threads and living.busy_threads() or {}
  for _, entry in ipairs(core.internal.waits()) do
    if not is_idle_port(entry) and not is_idle_thread(entry, busy) and not waits_for_signal(entry) then
      list[#list + 1] = entry
      are_library = are_library and entry.is_library or false
    end
  end
  return list, are_library
end

local CYCLES = 4 -- of the collector: some note the parked go blocks, the others collect them and what they kept alive

-- Whether the values of a library's go block have never been taken: that is a mistake, unlike a reader that has
-- stopped.
local function is_unused(entry)
  return entry.operation == "put" and entry.channel ~= nil and entry.channel:stats().take_total == 0
end

-- Forgets garbage go blocks, which wait on unreachable channels: the source of a closed stream, a mult of events. The
-- list must not keep them alive meanwhile.
local function without_garbage(list)
  local unused = {}
  while #list > 0 do
    local entry = table.remove(list)
    if is_unused(entry) then unused[entry.id] = { id = entry.id, line = entries.line(entry, true) } end
  end
  for _ = 1, CYCLES do collectgarbage() end
  local left = parked()
  for _, entry in ipairs(left) do unused[entry.id] = nil end
  for _, entry in pairs(unused) do left[#left + 1] = entry end
  table.sort(left, function(a, b) return a.id < b.id end)
  return left
end

---Runs go blocks until none is ready, no timer is pending and no event can arrive; and reports unhandled errors.
---@return string? text lists the go blocks that are parked then
function blocks.drain()
  local signals = package.loaded["runnel.uv.signals"]
  if signals then signals.script_ended() end
  local term = package.loaded["runnel.internal.sigterm"]
  if term then term.script_ended() end
  core.run()
  core.internal.report_unhandled()
  core.run() -- runs go blocks that the error handler has started
  local list, are_library = parked()
  if #list > 0 and are_library then list = without_garbage(list) end
  if #list == 0 then return nil end
  return ("the script has ended, and %s parked for ever:%s"):format(
    #list == 1 and "a go block is" or #list .. " go blocks are", entries.lines(list, LISTED_UNASKED, true))
end

return blocks
