---The errors of a deadlock and of a leak: what would wait for ever, what to do about it, and the go blocks that wait.

local core = require "runnel.core"
local deadlock = require "runnel.internal.deadlock"

local name_of = core.internal.name_of

-- Go blocks that an error lists, and channels or operations that it names for one of them.
local LISTED, NAMED = 16, 4

-- As "a, b and 3 more"; n: how many there are, if not all are in the list.
local function enumerate(texts, n)
  local shown = math.min(#texts, NAMED)
  local text = table.concat(texts, ", ", 1, shown)
  return n > shown and ("%s and %d more"):format(text, n - shown) or text
end

-- The channels that a go block, or the main program, waits for.
local function on_channels(entry)
  local chs = entry.channels or { entry.channel }
  local names = {}
  for i = 1, math.min(#chs, NAMED) do names[i] = name_of(chs[i]) end
  return #chs > 0 and " on " .. enumerate(names, #chs) or ""
end

-- What the thread waits for which a go block stands.
local function of_thread(entry)
  local texts, hidden = {}, entry.hidden or { n = 0 }
  for i, wait in ipairs(entry.waits) do texts[i] = ("%s on %s"):format(wait.operation, name_of(wait.channel)) end
  local n = #texts + hidden.n
  table.move(hidden, 1, #hidden, #texts + 1, texts)
  return n > 0 and ": " .. enumerate(texts, n) or ""
end

local function line(entry)
  local what = not entry.waits and entry.operation or entry.state
  local on = entry.waits and of_thread(entry) or on_channels(entry)
  local where = entry.where and " at " .. entry.where or ""
  return ("\n  #%d (%s): %s%s%s"):format(entry.id, entry.name, what, on, where)
end

local function lines(list)
  local texts = {}
  for i = 1, math.min(#list, LISTED) do texts[i] = line(list[i]) end
  if #list > LISTED then table.insert(texts, ("\n  and %d more"):format(#list - LISTED)) end
  return table.concat(texts)
end

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
  return ("deadlock: %s%s would wait for ever: no go block is ready, no timer is pending, and the driver expects no "
    .. "event%s%s%s%s"):format(what, waiting and on_channels(waiting) or "", threads, no_blocks, explanation,
    #list > 0 and "\nparked go blocks:" .. lines(list) or "")
end

---@param rests boolean the go blocks that are left wait for ever, else they go on for ever
---@return string? text nil if the program has started none of them
function reports.leak(rests)
  local own, of_library = {}, {}
  for _, entry in ipairs(core.internal.waits()) do
    if not entry.is_callback then table.insert(entry.is_library and of_library or own, entry) end
  end
  if #own == 0 then return nil end
  local blocks = #own == 1 and "1 go block " .. (rests and "waits" or "goes on")
    or #own .. " go blocks " .. (rests and "wait" or "go on")
  return ("leak: %s for ever%s%s"):format(blocks, lines(own),
    #of_library > 0 and "\ngo blocks of the library:" .. lines(of_library) or "")
end

core.internal.reports(reports)
