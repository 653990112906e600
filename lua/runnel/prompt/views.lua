---A prompt's views of go blocks and channels: as text in columns.

local debug = debug
local rn = require "runnel"
local entries = require "runnel.internal.entries"
local living = require "runnel.internal.living"
local short = require "runnel.internal.short"
local width = require "runnel.internal.width"

local TIMERS = 100 -- lines of timers at most
local ALIKE = 3 -- from this many similar entries on, they share one line

---@class runnel.prompt.views
local views = {}

-- Rows as lines, with numbers aligned to the right. The first row has the headings.
local function columns(rows, most)
  local right = {}
  for i, cell in ipairs(rows[2] or {}) do right[i] = type(cell) == "number" end
  return width.columns(rows, right, most)
end

-- A name without its numbers: "worker 3" and "worker 4" are alike.
local function kind_of(name) return (name:gsub("%d+", "…")) end

-- Folds similar entries into the newest of them, whose `alike` is their number. The newest are first.
local function fold(list, key_of)
  local folded, groups = {}, {}
  for i = #list, 1, -1 do
    local key = key_of(list[i])
    local group = groups[key]
    if group then
      group[#group + 1] = list[i]
    else
      groups[key] = { list[i] }
      folded[#folded + 1] = key
    end
  end
  local shown = {}
  for _, key in ipairs(folded) do
    local group = groups[key]
    if #group >= ALIKE then
      group[1].alike, group[1].same_name = #group, group[1].name == group[#group].name
      shown[#shown + 1] = group[1]
    else
      table.move(group, 1, #group, #shown + 1, shown)
    end
  end
  return shown
end

-- The first rows of a list, and a line with the number of the others.
local function first_rows(rows, most, room)
  local left = #rows - 1 - room
  local lines = columns(left > 0 and table.move(rows, 1, room, 1, {}) or rows, most)
  if left > 0 then lines[#lines + 1] = ("… %d more"):format(left + 1) end
  return lines
end

-- The file and line of a function.
local function place_of(f)
  local info = type(f) == "function" and debug.getinfo(f, "S")
  return info and ("%s:%d"):format(info.short_src, info.linedefined) or "an object"
end

-- Who waits for a go block, by its result: for those of scopes, but for their bodies, the places of these bodies; for
-- children of supervisors how often they were started again.
local function waited_for()
  local who = {}
  for scope, body in pairs(living.scopes or {}) do
    for number, result in pairs(scope.members) do
      if number > 1 and result then who[result] = ("in the scope of %s"):format(place_of(body)) end
    end
  end
  for supervisor in pairs(living.supervisors or {}) do
    for _, child in ipairs(supervisor.children) do
      if child.block then who[child.block] = ("supervised, %d restarts"):format(child.restarts) end
    end
  end
  return who
end

-- The name of a go block, and who waits for it.
local function with_waiter(entry, who)
  local one = who[entry.result]
  return one and ("%s %s"):format(entry.name, one) or entry.name
end

local function name_of(entry, name)
  if not entry.alike then return name end
  return ("%s  × %d"):format(entry.same_name and name or kind_of(name), entry.alike)
end

-- What a go block waits for, and who may hold it. Who has put its values and ended will give nothing back.
local function waits_of(entry)
  local holder = entry.holder
  local is_queue = holder and holder.operation == "put" and not holder.name
  return entries.waits(entry, true) .. (is_queue and "" or entries.holder(entry))
end

---The go blocks, one line each, below a line of headings. `room` limits the lines: the newest go blocks come first, and
---similar ones share a line.
---@param most integer columns of the screen
---@param room? integer
---@return string[] lines
---@return integer count of go blocks
function views.go_blocks(most, room)
  local rows = { { "id", "name", "state", "for", "waits", "where" } }
  local list = rn.ps() ---@type table[]
  local count, who = #list, waited_for()
  table.sort(list, function(a, b) return a.id < b.id end)
  if room then
    list = fold(list, function(e)
      local waits = kind_of(waits_of(e))
      return table.concat({ kind_of(e.name), e.state, e.where or "", waits }, "\0")
    end)
  end
  for _, entry in ipairs(list) do
    local waits = waits_of(entry)
    if entry.alike then waits = kind_of(waits) end
    rows[#rows + 1] = {
      entry.id, name_of(entry, with_waiter(entry, who)), entry.state,
      entry.waited and short.duration(entry.waited) or "", waits, entry.where or "",
    }
  end
  return room and first_rows(rows, most, room - 1) or columns(rows, most), count
end

---The pending timers of rn.after, one line each, below a line of headings.
---@param most integer columns of the screen
---@return string[] lines
function views.timers(most)
  local rows = { { "timer", "called in" } }
  for i, entry in ipairs(rn.timers()) do rows[i + 1] = { entry.name, short.duration(entry.left) } end
  return first_rows(rows, most, TIMERS)
end

-- The last column of a channel.
local function state_of(stats)
  local words = {}
  if stats.shared then words[1] = "shared" end
  if stats.closed then words[#words + 1] = "closed" end
  return table.concat(words, ", ")
end

---The channels, one line each, below a line of headings. `room` is as above; closed and drained channels are only
---counted.
---@param channels runnel.Channel<any>[]
---@param most integer
---@param room? integer
---@return string[] lines
function views.channels(channels, most, room)
  local rows = { { "id", "name", "fill", "buffer", "puts wait", "takes wait", "put", "taken", "" } }
  local list, over = {}, 0
  for _, ch in ipairs(channels) do
    local stats = ch:stats()
    local is_over = room and stats.closed and stats.values == 0 and stats.puts_waiting == 0
    if is_over then over = over + 1 else list[#list + 1] = stats end
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  if room then
    list = fold(list, function(stats)
      return table.concat({ stats.name and kind_of(stats.name) or "", stats.buffer or "", tostring(stats.capacity),
        tostring(stats.closed), tostring(stats.puts_waiting > 0), tostring(stats.takes_waiting > 0) }, "\0")
    end)
    if over > 0 then room = room - 1 end
  end
  for _, stats in ipairs(list) do
    local fill = stats.capacity and stats.capacity > 0 and ("%d/%d"):format(stats.values, stats.capacity)
    rows[#rows + 1] = {
      stats.id, name_of(stats, stats.name or ""), fill or stats.values > 0 and tostring(stats.values) or "",
      stats.buffer or "", stats.puts_waiting, stats.takes_waiting, stats.put_total, stats.take_total, state_of(stats),
    }
  end
  local lines = room and first_rows(rows, most, room - 1) or columns(rows, most)
  if over > 0 then lines[#lines + 1] = ("%d closed and drained"):format(over) end
  return lines
end

return views
