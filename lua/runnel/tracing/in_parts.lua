---Long answers in parts, between which other go blocks run.

local core = require "runnel.core"
local internal = core.internal
local recorder = internal.trace

local in_parts = {}

-- Rows, or moves of a sort, in a part: less than a millisecond.
local PART <const> = 500

---To be called for each row, with its number.
---@param i integer
function in_parts.rest(i)
  if i % PART == 0 then internal.rest() end
end

---Holds parts of the trace, and scans the go blocks for them.
---@param parts string as for recorder.hold
function in_parts.hold(parts)
  recorder.hold(parts .. "p")
  local list, i = recorder.scan()
  while list do
    internal.rest()
    list, i = recorder.scan(list, i)
  end
end

-- The number of the part of a map that has the key: keys are integers, most of them consecutive, or strings that
-- differ near their ends.
local function place_of(key)
  if math.type(key) == "integer" then return key >> 10 end
  if type(key) ~= "string" then return 0 end
  local a, b, c = string.byte(key, -3, -1)
  return -1 - ((a or 0) << 6 ~ (b or 0) << 3 ~ (c or 0)) -- no integer has these
end

---Makes a map to which a key can be added quickly however many it has: when a table of Lua grows, all of its keys move.
---`pairs` does not list the keys.
---@return table
function in_parts.map()
  local parts = {}
  return setmetatable({}, {
    __index = function(_, key)
      local part = parts[place_of(key)]
      return part and part[key]
    end,
    __newindex = function(_, key, value)
      local place = place_of(key)
      local part = parts[place] or {}
      parts[place], part[key] = part, value
    end,
  })
end

-- The channels that the trace lists, newest first, some of them perhaps twice; the name of each; and whether that is
-- the line that made it.
local function all_channels()
  local chs, names, unnamed, i = recorder.part(nil, PART)
  while i > 0 do
    internal.rest()
    local more, their_names, are_unnamed
    more, their_names, are_unnamed, i = recorder.part(i, PART)
    local n = #chs
    table.move(more, 1, #more, n + 1, chs)
    table.move(their_names, 1, #more, n + 1, names)
    table.move(are_unnamed, 1, #more, n + 1, unnamed)
  end
  return chs, names, unnamed
end

---Iterates over the channels that the trace lists: those that exist all the time, each once, the oldest first.
---@return fun(): runnel.Stats?, runnel.Channel<any>?, string?, boolean? next_one its stats, itself, its name, and
---whether that is the line that made it
function in_parts.channels()
  local chs, names, unnamed = all_channels()
  local seen, i = in_parts.map(), #chs + 1
  return function()
    while i > 1 do
      i = i - 1
      in_parts.rest(i)
      local ok, stats = pcall(chs[i].stats, chs[i])
      if ok and not seen[stats.id] then
        seen[stats.id] = true
        return stats, chs[i], names[i], unnamed[i]
      end
    end
  end
end

-- Merges the sorted lists from[first .. middle] and from[middle + 1 .. last].
local function merge(from, to, first, middle, last, less)
  local a, b = first, middle + 1
  for k = first, last do
    if b > last or a <= middle and not less(from[b], from[a]) then
      to[k], a = from[a], a + 1
    else
      to[k], b = from[b], b + 1
    end
    in_parts.rest(k)
  end
end

---Sorts a list, without changing it.
---@generic T
---@param list T[]
---@param less fun(a: T, b: T): boolean
---@return T[]
function in_parts.sort(list, less)
  local from, to, n, width <const> = {}, {}, #list, 32
  for first = 1, n, width do
    local run = table.move(list, first, math.min(first + width - 1, n), 1, {})
    table.sort(run, less)
    table.move(run, 1, #run, first, from)
    if first > 1 and first % 512 == 1 then internal.rest() end
  end
  local size = width
  while size < n do
    for first = 1, n, 2 * size do
      local last = math.min(first + 2 * size - 1, n)
      merge(from, to, first, math.min(first + size - 1, n), last, less)
    end
    from, to, size = to, from, 2 * size
  end
  return from
end

return in_parts
