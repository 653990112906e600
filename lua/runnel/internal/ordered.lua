---pairs and next of a simulation: in an order that depends only on the keys. Lua's own order differs from process to
---process, since strings are hashed with a random seed, and objects by their addresses; so a schedule or a seed would
---not replay elsewhere. For the same reason tostring and string.format number objects instead of showing addresses.

local core = require "runnel.core"
local ends = require "runnel.internal.ends"
local need_state = ends.NEED_STATE
local raise = core.internal.raise

local is_chan, stats_of = core.is_chan, core.methods.stats
local debug, string, table, type = debug, string, table, type
local sort, getmetatable = table.sort, debug.getmetatable
local real = { pairs = pairs, next = next, tostring = tostring, format = string.format }
local next, globals = next, _G
local strings = string --[[@as table]]

local ordered = {}

-- The source of this file, and with what those of the library begin.
local SOURCE <const> = debug.getinfo(1, "S").source
local LIBRARY <const> = SOURCE:gsub("internal[/\\]sim[/\\]ordered%.lua$", "")

local WEAK <const> = { __mode = "k" }

-- How many lines of the program a message names.
local MOST_LINES <const> = 3

local RANKS <const> = { boolean = 1, number = 2, string = 3 }
local CHANNEL <const>, OBJECT <const> = 4, 5

---Of one simulation.
---@class runnel.internal.Ordered
---@field outer runnel.internal.Ordered|false
---@field pairs function what was there before, as the next three
---@field next function
---@field tostring function
---@field format function
---@field numbers? table<any, integer> objects in the order in which they were seen
---@field count? integer of these
---@field walks? table<table, any[]> the keys of tables over which `next` goes; `at` is the number of the last one
---@field lines? string[] where the program went over several objects that were new, in an order that nothing fixes

-- ---- the order of keys ----

local function number_of(self, object)
  self.numbers = self.numbers or setmetatable({}, WEAK)
  local number = self.numbers[object]
  if number then return number end
  self.count = self.count or 0
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

-- Notes the line of the caller, unless it is one of the library.
local function note_line(self)
  local level = 3
  local info = debug.getinfo(level, "Sl")
  while info and info.source == SOURCE do
    level = level + 1
    info = debug.getinfo(level, "Sl")
  end
  if not info or info.source:sub(1, #LIBRARY) == LIBRARY then return end
  self.lines = self.lines or {}
  local lines = self.lines
  local line = real.format("%s:%d", info.short_src, info.currentline)
  for _, known in ipairs(lines) do
    if known == line then return end
  end
  if #lines < MOST_LINES then lines[#lines + 1] = line end
end

-- Sorts keys that are not all strings or all numbers.
local function sort_mixed(self, keys)
  local new, numbers = 0, self.numbers
  for _, key in ipairs(keys) do
    if not RANKS[type(key)] and not (numbers and numbers[key]) and not is_chan(key) then new = new + 1 end
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

-- ---- in place of Lua's functions ----

-- Of the simulation that runs; nil: none does. A program may keep one of the functions below when its simulation is
-- over: they are the real ones then.
local running ---@type runnel.internal.Ordered?

-- The number of a key in the list of a walk, or of the last one before it: it may have been removed since.
local function find(self, keys, key)
  local last = keys.at
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
      keys.at = i
      return keys[i], value
    end
  end
end

local functions = {}

-- Calls a real function for one of those below. Its error is at the program's line.
local function call(name, ...)
  local ok, a, b, c = pcall(real[name], ...)
  if not ok then raise(type(a) == "string" and a:gsub("'%?'", "'" .. name .. "'", 1) or a) end
  return a, b, c
end

function functions.next(...)
  local self, t, key = running, ...
  if not self or type(t) ~= "table" then
    local first, value = call("next", ...)
    return first, value
  end
  local walks = self.walks
  if key == nil then
    if walks then walks[t] = nil end
    local first, value = next(t)
    if first == nil or next(t, first) == nil then return first, value end
    return step(t, sorted_keys(self, t), 0)
  end
  local keys = walks and walks[t]
  if not keys then
    keys = sorted_keys(self, t)
    keys.at = 0
    local meta = getmetatable(t)
    if not (meta and rawget(meta, "__mode")) then -- the list would keep the keys alive
      self.walks = walks or setmetatable({}, WEAK)
      self.walks[t] = keys
    end
  end
  return step(t, keys, find(self, keys, key))
end

need_state[functions.next] = true

local function nothing() end
need_state[nothing] = true

function functions.pairs(...)
  local self, t = running, ...
  if not self or type(t) ~= "table" then
    local step_of, state, first = call("pairs", ...)
    return step_of, state, first
  end
  local meta = getmetatable(t)
  if meta and rawget(meta, "__pairs") ~= nil then return real.pairs(t) end
  if next(t) == nil then return nothing, t, nil end
  local keys = sorted_keys(self, t)
  keys.at = 0
  local function step_of(_, key) return step(t, keys, key == nil and 0 or find(self, keys, key)) end
  need_state[step_of] = true
  return step_of, t, nil
end

-- What stands for the address of an object.
local SHOWN <const> = "0x%014x"

local HAVE_ADDRESSES <const> = { table = true, ["function"] = true, userdata = true, thread = true }

function functions.tostring(...)
  local self, value = running, ...
  if not self or not HAVE_ADDRESSES[type(value)] then return (call("tostring", ...)) end
  local text, address = real.tostring(value), real.format("%p", value)
  local from, to = text:find(address, 1, true)
  -- Objects of C may show what is behind them: "file (0x55d0c4e3b2a0)".
  if not from and type(value) == "userdata" then from, to = text:find "0x%x%x%x%x%x%x%x%x+" end
  if not from then return text end
  return text:sub(1, from - 1) .. real.format(SHOWN, number_of(self, value)) .. text:sub(to + 1)
end

-- The same format and values, but for those that would be shown with an address.
local function without_addresses(self, format, values)
  local n = 0
  format = format:gsub("%%([-+ #0%d.]*)([%a%%])", function(flags, letter)
    if letter == "%" then return nil end
    n = n + 1
    local value = values[n]
    if not HAVE_ADDRESSES[type(value)] or letter ~= "p" and letter ~= "s" then return nil end
    values[n] = letter == "s" and functions.tostring(value) or real.format(SHOWN, number_of(self, value))
    return "%" .. flags .. "s"
  end)
  return format, table.unpack(values, 1, values.n)
end

function functions.format(format, ...)
  local has_address = false
  for i = 1, running and select("#", ...) or 0 do
    has_address = has_address or HAVE_ADDRESSES[type((select(i, ...)))]
  end
  if not has_address or type(format) ~= "string" then return (call("format", format, ...)) end
  return (call("format", without_addresses(running, format, table.pack(...))))
end

local function install(list)
  globals.pairs, globals.next, globals.tostring = list.pairs, list.next, list.tostring
  strings.format = list.format -- luacheck: ignore 122
end

---Puts the functions of a simulation in place.
---@return runnel.internal.Ordered state
function ordered.begin()
  local self = { outer = running or false, pairs = globals.pairs, next = globals.next, tostring = globals.tostring,
    format = strings.format }
  running = self
  install(functions)
  return self
end

---Puts back what was there before.
---@param self runnel.internal.Ordered
function ordered.finish(self)
  running = self.outer or nil
  install(self)
end

return ordered
