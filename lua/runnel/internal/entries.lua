---What go blocks wait for and where, as text, from the entries of rn.ps: in the errors of deadlocks and leaks, after
---Ctrl-C, at the end of a script, for the jobs of a pool, and in the prompt's :ps.

local core = require "runnel.core"
local short = require "runnel.internal.short"

local name_of = core.internal.name_of

-- Channels or operations that are named for one go block.
local NAMED = 4

local entries = {}

-- The name of a channel, as "chan: jobs", or without "chan: ".
local function name(ch, is_brief) return is_brief and name_of(ch):gsub("^chan: ", "") or name_of(ch) end

---Whether a go block is one of the program, or one of the library that runs a function of the program.
---@param entry table of internal.waits
---@return boolean
function entries.is_of_program(entry)
  return not (entry.is_library and entry.fed == nil or entry.is_silent or entry.name:find "^a port to ")
end

---The channels for which a go block, the thread that it stands for, or the main program waits.
---@param entry table
---@return runnel.Channel<any>[]
function entries.channels(entry)
  if not entry.waits then return entry.channels or { entry.channel } end
  local chs = {}
  for i, wait in ipairs(entry.waits) do chs[i] = wait.channel end
  return chs
end

---Channels, as " on chan: a, chan: b and 3 more".
---@param channels runnel.Channel<any>[]
---@param is_brief? boolean without "chan: "
---@return string empty if there are none
function entries.on(channels, is_brief)
  local names = {}
  for i = 1, math.min(#channels, NAMED) do names[i] = name(channels[i], is_brief) end
  return #channels > 0 and " on " .. short.list(names, NAMED, #channels) or ""
end

---What a go block waits for, as "take on chan: jobs"; of a thread all that it waits for, between commas.
---@param entry table
---@param is_brief? boolean without "chan: "
---@return string empty if it waits for nothing
function entries.waits(entry, is_brief)
  if not entry.waits then return (entry.operation or "") .. entries.on(entries.channels(entry), is_brief) end
  local texts, hidden = {}, entry.hidden or { n = 0 }
  for i, wait in ipairs(entry.waits) do texts[i] = ("%s on %s"):format(wait.operation, name(wait.channel, is_brief)) end
  local n = #texts + hidden.n
  table.move(hidden, 1, #hidden, #texts + 1, texts)
  return short.list(texts, NAMED, n)
end

---What a go block does: what it waits for, or its state; of a thread both, as "waiting for 2.0 s: take on chan: jobs".
---@param entry table
---@param is_timed? boolean say for how long a thread has waited or computed
---@return string
function entries.doing(entry, is_timed)
  local waits = entries.waits(entry)
  if not entry.waits then return waits == "" and entry.state or waits end
  local time = is_timed and entry.waited and " for " .. short.duration(entry.waited) or ""
  return entry.state .. time .. (waits == "" and "" or ": " .. waits)
end

---Who has taken the last value for which a take waits, or has filled the buffer to which a put waits, and so may hold a
---lock: as ", taken last by #4 (holder)".
---@param entry table
---@return string empty if that is not known, or that one waits there, too
function entries.holder(entry)
  local holder = entry.holder
  if not holder then return "" end
  local who = holder.is_self and "itself" or holder.id == 0 and holder.name
    or ("#%d%s"):format(holder.id, holder.name and " (" .. holder.name .. ")" or ", which has ended")
  return (", %s%s last by %s"):format(holder.channel and name_of(holder.channel) .. " " or "",
    holder.operation == "take" and "taken" or "put", who)
end

---A go block as one line, with its place: "#7 (worker): take on chan: jobs at worker.lua:7".
---@param entry table
---@param is_timed? boolean
---@return string
function entries.line(entry, is_timed)
  local where = entry.where and " at " .. entry.where or ""
  local line = ("#%d (%s): %s%s%s"):format(entry.id, entry.name, entries.doing(entry, is_timed), where,
    entries.holder(entry))
  return (line:gsub("%c", "?")) -- of names
end

---Go blocks, a line each, with a newline before each.
---@param list table[] an entry may have its `line` already
---@param most number lines
---@param is_timed? boolean
---@return string
function entries.lines(list, most, is_timed)
  local lines = {}
  for i = 1, math.min(#list, most) do lines[i] = list[i].line or entries.line(list[i], is_timed) end
  return short.lines(lines, most, #list)
end

---Pending timers of rn.after, a line each, with a newline before each.
---@param list runnel.PendingTimer[] of rn.timers
---@param most number lines
---@return string
function entries.timers(list, most)
  local lines = {}
  for i = 1, math.min(#list, most) do
    lines[i] = ("%s, called in %s"):format(list[i].name, short.duration(list[i].left))
  end
  return short.lines(lines, most, #list)
end

return entries
