---pairs and next of a simulation: in an order that depends only on the keys. Lua's own order differs from process to
---process, since strings are hashed with a random seed, and objects by their addresses; so a schedule or a seed would
---not replay elsewhere. For the same reason tostring and string.format number objects instead of showing addresses.

local core = require "runnel.core"

local is_chan, stats_of = core.is_chan, core.methods.stats
local debug, string, table, type = debug, string, table, type
local sort, getmetatable = table.sort, debug.getmetatable
local real = { pairs = pairs, next = next, tostring = tostring, format = string.format }
local next, globals, strings = next, _G, string

local ordered = {}

-- The source of this file, and with what those of the library begin.
local SOURCE <const> = debug.getinfo(1, "S").source
local LIBRARY <const> = SOURCE:gsub("internal[/\\]sim[/\\]ordered%.lua$", "")

-- How many lines of the program a message names.
local MOST_LINES <const> = 3

local RANKS <const> = { boolean = 1, number = 2, string = 3 }
local CHANNEL <const>, OBJECT <const> = 4, 5

---Of one simulation.
---@class runnel.internal.Ordered
---@field numbers table<any, integer> objects in the order in which they were seen
---@field count integer of these
---@field walks table<table, any[]> the keys of tables over which `next` goes; at 0 the number of the last one
---@field lines string[] where the program went over several objects that were new, in an order that nothing fixes
---@field own string[] where the library did; specs check that there is none
---@field restore fun() puts back what was there before

-- ---- the order of keys ----

local function number_of(self, object)
  local number = self.numbers[object]
  if number then return number end
  self.count = self.count + 1
  self.numbers[object] = self.count
  return self.count
end

-- What to sort a key by: its kind, and what orders those of a kind.
local function rank(self, key)
  local kind = RANKS[type(key)]
  if kind then return kind, kind == 1 and (key and 1 or 0) or key end
  if is_chan(key) then return CHANNEL, stats_of(key).id end
  return OBJECT, number_of(self, key)
end

local function is_before(self, a, b)
  local m, x = rank(self, a)
  local n, y = rank(self, b)
  if m ~= n then return m < n end
  return x < y
end

-- Notes where the function was called that the program sees: the first caller outside this file.
local function note_line(self)
  local level, info = 2, nil
  repeat
    level = level + 1
    info = debug.getinfo(level, "Sl")
  until not info or info.source ~= SOURCE
  if not info then return end
  local lines = info.source:sub(1, #LIBRARY) == LIBRARY and self.own or self.lines
  local line = real.format("%s:%d", info.short_src, info.currentline)
  for _, known in ipairs(lines) do
    if known == line then return end
  end
  if #lines < MOST_LINES then lines[#lines + 1] = line end
end

-- Sorts keys that are not all strings or all numbers.
local function sort_mixed(self, keys)
  local new = 0
  for _, key in ipairs(keys) do
    if not RANKS[type(key)] and not self.numbers[key] and not is_chan(key) then new = new + 1 end
  end
  if new > 1 then note_line(self) end
  for i = 1, #keys do rank(self, keys[i]) end
  sort(keys, function(a, b) return is_before(self, a, b) end)
end

local function sorted_keys(self, t)
  local keys, n, kind = {}, 0, nil
  for key in next, t do
    n = n + 1
    keys[n] = key
    local its = type(key)
    if n == 1 then kind = its elseif its ~= kind then kind = "mixed" end
  end
  if n < 2 then return keys end
  if kind == "string" or kind == "number" then sort(keys) else sort_mixed(self, keys) end
  return keys
end

-- ---- next and pairs ----

-- The number of a key in the list of a walk, or of the last one before it: it may have been removed since.
local function find(self, keys, key)
  local last = keys[0]
  if keys[last] == key then return last end
  for i = 1, #keys do
    if keys[i] == key then return i end
    if is_before(self, key, keys[i]) then return i - 1 end
  end
  return #keys
end

local function step(t, keys, at)
  for i = at + 1, #keys do
    local value = rawget(t, keys[i])
    if value ~= nil then
      keys[0] = i
      return keys[i], value
    end
  end
end

local function new_next(self)
  return function(t, key)
    if type(t) ~= "table" then return real.next(t, key) end
    if key == nil then
      self.walks[t] = nil
      local first, value = next(t)
      if first == nil or next(t, first) == nil then return first, value end
    end
    local keys = self.walks[t]
    if not keys then
      keys = sorted_keys(self, t)
      keys[0] = 0
      self.walks[t] = keys
    end
    return step(t, keys, key == nil and 0 or find(self, keys, key))
  end
end

local function new_pairs(self)
  local function nothing() end
  return function(...)
    local t = ...
    local meta = getmetatable(t)
    if type(t) ~= "table" or type(meta) == "table" and rawget(meta, "__pairs") ~= nil then return real.pairs(...) end
    if next(t) == nil then return nothing, t, nil end
    local keys = sorted_keys(self, t)
    keys[0] = 0
    return function(_, key) return step(t, keys, key == nil and 0 or find(self, keys, key)) end, t, nil
  end
end

-- ---- texts with addresses ----

local SHOWN <const> = { table = true, ["function"] = true, userdata = true, thread = true }

local function new_tostring(self)
  return function(...)
    local value = ...
    if not SHOWN[type(value)] then return real.tostring(...) end
    local text = real.tostring(...)
    local kind, address = text:match "^(.*): 0x(%x+)$"
    if not kind or address ~= real.format("%p", value):sub(3) then return text end
    return real.format("%s: 0x%014x", kind, number_of(self, value))
  end
end

-- The same format and values, but for those that would be shown with an address.
local function without_addresses(self, tostring_here, format, values)
  local n = 0
  format = format:gsub("%%([-+ #0%d.]*)([%a%%])", function(flags, letter)
    if letter == "%" then return nil end
    n = n + 1
    local value = values[n]
    if not SHOWN[type(value)] or letter ~= "p" and letter ~= "s" then return nil end
    values[n] = letter == "s" and tostring_here(value) or real.format("0x%014x", number_of(self, value))
    return "%" .. flags .. "s"
  end)
  return format, table.unpack(values, 1, values.n)
end

local function new_format(self, tostring_here)
  return function(format, ...)
    local has_object = false
    for i = 1, select("#", ...) do has_object = has_object or SHOWN[type((select(i, ...)))] end
    if not has_object or type(format) ~= "string" then return real.format(format, ...) end
    return real.format(without_addresses(self, tostring_here, format, table.pack(...)))
  end
end

-- ---- in place ----

local function install(functions)
  globals.pairs, globals.next, globals.tostring = functions.pairs, functions.next, functions.tostring
  strings.format = functions.format
end

---Puts the functions of a simulation in place.
---@return runnel.internal.Ordered state
function ordered.begin()
  local self = { numbers = setmetatable({}, { __mode = "k" }), count = 0, walks = setmetatable({}, { __mode = "k" }),
    lines = {}, own = {} }
  local before = { pairs = globals.pairs, next = globals.next, tostring = globals.tostring, format = strings.format }
  local tostring_here = new_tostring(self)
  install { pairs = new_pairs(self), next = new_next(self), tostring = tostring_here,
    format = new_format(self, tostring_here) }
  function self.restore() install(before) end
  return self
end

return ordered
