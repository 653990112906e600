---The prompt's views of go blocks and channels: as text in columns.

local rn = require "runnel"
local inspect = require "runnel.host.inspect"

---@class runnel.host.views
local views = {}

-- Text of at most so many characters.
local function cut(text, width)
  local length = utf8.len(text)
  if not length then return text:gsub("[\x80-\xff]", "?"):sub(1, width) end
  if length <= width then return text end
  return text:sub(1, utf8.offset(text, width) - 1) .. "…"
end

local function pad(text, width, right)
  local blanks = (" "):rep(width - (utf8.len(text) or #text))
  return right and blanks .. text or text .. blanks
end

-- Rows as text: numbers to the right. The first row has the headings.
local function columns(rows, width)
  local widths, lines = {}, {}
  for _, row in ipairs(rows) do
    for i, cell in ipairs(row) do
      widths[i] = math.max(widths[i] or 0, utf8.len(tostring(cell)) or #tostring(cell))
    end
  end
  for n, row in ipairs(rows) do
    local cells = {}
    for i, cell in ipairs(row) do
      local is_number = type((rows[2] or row)[i]) == "number"
      cells[i] = pad(tostring(cell), widths[i], is_number)
    end
    lines[n] = cut(table.concat(cells, "  "):gsub("%s+$", ""), width)
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

---The go blocks: a line each, below one of headings.
---@param width integer columns of the screen
---@return string[]
function views.go_blocks(width)
  local rows = { { "id", "name", "state", "for", "waits", "where" } }
  local entries = rn.ps()
  table.sort(entries, function(a, b) return a.id < b.id end)
  for _, entry in ipairs(entries) do
    local waits = entry.operation or ""
    if entry.channel then waits = waits .. " on " .. chan_name(entry.channel) end
    rows[#rows + 1] = {
      entry.id, entry.name, entry.state, duration(entry.waited), waits, entry.where or "",
    }
  end
  return columns(rows, width)
end

---The channels that were made, but for results of go blocks and timeouts.
---@param width integer
---@return string[]
function views.channels(width)
  local rows = { { "id", "name", "fill", "buffer", "puts", "takes", "put", "taken", "" } }
  local list = {}
  for _, ch in ipairs(inspect.chans()) do list[#list + 1] = ch:stats() end
  table.sort(list, function(a, b) return a.id < b.id end)
  for _, stats in ipairs(list) do
    local fill = stats.capacity and stats.capacity > 0 and ("%d/%d"):format(stats.count, stats.capacity)
    rows[#rows + 1] = {
      stats.id, stats.name or "", fill or stats.count > 0 and tostring(stats.count) or "", stats.buffer or "",
      stats.puts, stats.takes, stats.put_total, stats.take_total, stats.closed and "closed" or "",
    }
  end
  return columns(rows, width)
end

return views
