---A prompt's views of go blocks and channels: as text in columns.

local rn = require "runnel"
local width = require "runnel.internal.prompt.width"

local NAMED = 4 -- channels of an alts, at most
local ALIKE = 3 -- so many similar entries are folded into one line

---@class runnel.internal.prompt.views
local views = {}

-- Formats rows as text, with numbers right-aligned. The first row has the headings.
local function columns(rows, most)
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do widths[i] = math.max(widths[i] or 0, width.of(tostring(cell))) end
  end
  for n, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      local is_number = type((rows[2] or row)[i]) == "number"
      cells[i] = width.pad(tostring(cell), widths[i], is_number)
    end
    lines[n] = width.cut(table.concat(cells, "  "):gsub("%s+$", ""), most)
  end
  return lines
end

local function duration(ms)
  if not ms then return "" end
  if ms < 1000 then return ("%.0f ms"):format(ms) end
  if ms < 60000 then return ("%.1f s"):format(ms / 1000) end
  return ("%d min %02d s"):format(ms // 60000, ms % 60000 // 1000)
end

local function chan_name(ch)
  local stats = ch:stats()
  return stats.name or "#" .. stats.id
end

-- A name without its numbers: "worker 3" and "worker 4" are alike.
local function kind_of(name) return (name:gsub("%d+", "…")) end

-- Folds entries that are alike into the newest of them, which gets their number as `alike`. The newest are first.
local function fold(entries, key_of)
  local folded, groups = {}, {}
  for i = #entries, 1, -1 do
    local key = key_of(entries[i])
    local group = groups[key]
    if group then
      group[#group + 1] = entries[i]
    else
      groups[key] = { entries[i] }
      folded[#folded + 1] = key
    end
  end
  local list = {}
  for _, key in ipairs(folded) do
    local group = groups[key]
    if #group >= ALIKE then
      group[1].alike, group[1].same_name = #group, group[1].name == group[#group].name
      list[#list + 1] = group[1]
    else
      table.move(group, 1, #group, #list + 1, list)
    end
  end
  return list
end

-- The first rows of a list, and a line with the number of the others.
local function first_rows(rows, most, room)
  local left = #rows - 1 - room
  local lines = columns(left > 0 and table.move(rows, 1, room, 1, {}) or rows, most)
  if left > 0 then lines[#lines + 1] = ("… %d more"):format(left + 1) end
  return lines
end

local function name_of(entry, name)
  if not entry.alike then return name end
  return ("%s  × %d"):format(entry.same_name and name or kind_of(name), entry.alike)
end

local function waits_of(entry)
  if entry.thread then
    local list = {}
    for i, wait in ipairs(entry.waits) do list[i] = wait.operation .. " on " .. chan_name(wait.channel) end
    return table.concat(list, ", ")
  end
  local waits, names = entry.operation or "", {}
  local chs = entry.channels or { entry.channel }
  for i = 1, math.min(#chs, NAMED) do names[i] = chan_name(chs[i]) end
  if #names == 0 then return waits end
  local more = #chs > NAMED and (" and %d more"):format(#chs - NAMED) or ""
  return ("%s on %s%s"):format(waits, table.concat(names, ", "), more)
end

---The go blocks, one line each, below a line of headings. With `room` there are at most so many lines: the newest go
---blocks first, and similar ones in one line.
---@param most integer columns of the screen
---@param room? integer
---@return string[] lines
---@return integer count of go blocks
function views.go_blocks(most, room)
  local rows = { { "id", "name", "state", "for", "waits", "where" } }
  local entries = rn.ps() ---@type table[]
  local count = #entries
  table.sort(entries, function(a, b) return a.id < b.id end)
  if room then
    entries = fold(entries, function(e)
      return table.concat({ kind_of(e.name), e.state, e.where or "", kind_of(waits_of(e)) }, "\0")
    end)
  end
  for _, entry in ipairs(entries) do
    local waits = waits_of(entry)
    if entry.alike then waits = kind_of(waits) end
    rows[#rows + 1] = {
      entry.id, name_of(entry, entry.name), entry.state, duration(entry.waited), waits, entry.where or "",
    }
  end
  return room and first_rows(rows, most, room - 1) or columns(rows, most), count
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
  local rows = { { "id", "name", "fill", "buffer", "puts", "takes", "put", "taken", "" } }
  local list, over = {}, 0
  for _, ch in ipairs(channels) do
    local stats = ch:stats()
    local is_over = room and stats.closed and stats.count == 0 and stats.puts == 0
    if is_over then over = over + 1 else list[#list + 1] = stats end
  end
  table.sort(list, function(a, b) return a.id < b.id end)
  if room then
    list = fold(list, function(stats)
      return table.concat({ stats.name and kind_of(stats.name) or "", stats.buffer or "", tostring(stats.capacity),
        tostring(stats.closed), tostring(stats.puts > 0), tostring(stats.takes > 0) }, "\0")
    end)
    if over > 0 then room = room - 1 end
  end
  for _, stats in ipairs(list) do
    local fill = stats.capacity and stats.capacity > 0 and ("%d/%d"):format(stats.count, stats.capacity)
    rows[#rows + 1] = {
      stats.id, name_of(stats, stats.name or ""), fill or stats.count > 0 and tostring(stats.count) or "",
      stats.buffer or "", stats.puts, stats.takes, stats.put_total, stats.take_total, state_of(stats),
    }
  end
  local lines = room and first_rows(rows, most, room - 1) or columns(rows, most)
  if over > 0 then lines[#lines + 1] = ("%d closed and drained"):format(over) end
  return lines
end

return views
